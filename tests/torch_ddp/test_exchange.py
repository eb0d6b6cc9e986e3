"""Who shares gradients between the ranks: what DDP would not share is not shared by the tool either, and a port's own
wrapper, hook or step is what combines."""

import contextlib

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import Rank, Stepper, Update, like_tf
from torch_ddp.step.combine import Combining
from torch_ddp.step.optimizer import Part
from torch_ddp.step.stepper import WrappedPort
from torch_ddp.step.training_state import TrainingState
from torch_ddp.worker.user_step import UserStep

BATCH = {"words": np.array([[0, 1], [1, 1], [2, 3], [0, 3]]), "y": np.array([1.0, -1.0, 0.5, 2.0])}
WORLD = 2


class Words(nn.Module):
    """Maps words ``[n, 2]`` to ``[n]``."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 3, sparse=sparse)
        self.head = nn.Linear(3, 1, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(words).sum(1))[:, 0]


def loss(model: nn.Module, words: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(words) - y).square().mean()


def past_the_wrapper(model: nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    return loss(model.module, **inputs)


def under_no_sync(model: nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    with model.no_sync():
        return loss(model, **inputs)


def on_one_rank_only(model: nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    return loss(model.module if dist.get_rank() else model, **inputs)


def words_of(sparse: bool) -> Words:
    torch.manual_seed(0)
    return Words(sparse).double()


def dense(step: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name in step:
        return step[name]
    found = np.zeros((4, 3))
    np.add.at(found, step[f"{name}.indices"], step[f"{name}.values"])
    return found


def gradients(step: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Returns, by name, the gradients of both ranks and the combined one, dense."""
    names = ("table.weight", "head.weight")
    return {
        name: tuple(dense(step, f"{what}/{name}") for what in ("tower_grad/0", "tower_grad/1", "grad"))
        for name in names
    }


def one_step(rank: Rank, sparse: bool, of=loss, ignored=(), options=None, clip=None) -> dict | None:
    model = words_of(sparse)
    if ignored:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(ignored))
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.5)
    update = Update(model, optimizer, {"clip": clip} if clip else None)
    return Stepper(model, of, optimizer, rank, Combining("mean", **(options or {})), update).step(BATCH)


BY_HAND = [
    pytest.param(True, {"sparse": "slices"}, None, id="rows"),
    pytest.param(False, {"missing": "zeros"}, None, id="missing"),
    pytest.param(False, {}, {"by": "norm", "limit": 0.1, "at": "tower"}, id="clipped"),
]


@pytest.mark.parametrize(("sparse", "options", "clip"), [pytest.param(False, {}, None, id="by DDP"), *BY_HAND])
def test_a_right_port_shares_every_gradient(two_ranks, sparse, options, clip):
    step, _ = two_ranks.run(one_step, sparse, loss, (), options, clip)
    quantity = "tower_clip" if clip else "tower_grad"
    for name in ("table.weight", "head.weight"):
        own = [dense(step, f"{quantity}/{tower}/{name}") for tower in range(WORLD)]
        np.testing.assert_allclose(dense(step, f"grad/{name}"), sum(own) / WORLD, rtol=1e-14)


@pytest.mark.parametrize("of", [past_the_wrapper, under_no_sync])
@pytest.mark.parametrize(("sparse", "options", "clip"), [pytest.param(False, {}, None, id="by DDP"), *BY_HAND])
def test_what_goes_past_the_wrapper_stays_on_its_rank(two_ranks, of, sparse, options, clip):
    step, _ = two_ranks.run(one_step, sparse, of, (), options, clip)
    quantity = "tower_clip" if clip else "tower_grad"
    for name in ("table.weight", "head.weight"):
        np.testing.assert_array_equal(dense(step, f"grad/{name}"), dense(step, f"{quantity}/0/{name}"))


@pytest.mark.parametrize(("sparse", "options", "clip"), BY_HAND)
def test_what_one_rank_alone_would_share_is_not_shared(two_ranks, sparse, options, clip):
    step, _ = two_ranks.run(one_step, sparse, on_one_rank_only, (), options, clip)
    quantity = "tower_clip" if clip else "tower_grad"
    np.testing.assert_array_equal(step["grad/head.weight"], step[f"{quantity}/0/head.weight"])


@pytest.mark.parametrize("ignored", ["table.weight", "head.weight"])
@pytest.mark.parametrize(("sparse", "options", "clip"), [pytest.param(False, {}, None, id="by DDP"), *BY_HAND[:2]])
def test_a_parameter_that_is_excepted_from_ddp_stays_on_its_rank(two_ranks, ignored, sparse, options, clip):
    step, _ = two_ranks.run(one_step, sparse, loss, (ignored,), options, clip)
    for name, (own, other, combined) in gradients(step).items():
        if name == ignored:
            np.testing.assert_array_equal(combined, own)
        else:
            np.testing.assert_allclose(combined, (own + other) / 2, rtol=1e-14)


def wrapped_step(rank: Rank, sparse: bool, hooked: bool) -> dict | None:
    model = words_of(sparse)
    wrapper = DistributedDataParallel(model)
    if hooked:
        wrapper.register_comm_hook(None, summing)
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.5)
    stepper = Stepper(model, loss, optimizer, rank, "sum", wrapper=wrapper)
    assert stepper.combination == "port"
    return stepper.step(BATCH)


def summing(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done = torch.futures.Future()
    dist.all_reduce(bucket.buffer())
    done.set_result(bucket.buffer())
    return done


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("hooked", "divisor"), [(False, 2), (True, 1)])
def test_a_wrapper_of_the_ports_own_combines_whatever_the_case_says(two_ranks, sparse, hooked, divisor):
    step, _ = two_ranks.run(wrapped_step, sparse, hooked)
    for own, other, combined in gradients(step).values():
        np.testing.assert_allclose(combined, (own + other) / divisor, rtol=1e-14)


def with_two_losses(rank: Rank, sparse: bool) -> Stepper:
    model = words_of(sparse)
    optimizer = like_tf.GradientDescent(model.table.parameters(), lr=0.1)
    described = {"name": "sgd", "learning_rate": 0.1, "names": ["head.weight"], "loss": "doubled"}

    def both(model, **inputs):
        found = loss(model, **inputs)
        return found, {"doubled": 2 * found}

    wrapper = DistributedDataParallel(model)
    parts = [Part("second", described, model)]
    return Stepper(model, both, optimizer, rank, parts=parts, wrapper=wrapper)


def two_losses(rank: Rank, sparse: bool) -> dict | None:
    return with_two_losses(rank, sparse).step(BATCH)


def ends_of_passes(rank: Rank) -> list:
    """The last op of the passes that end at either loss, whether it is marked alone, and what it gives."""
    found = []
    for name in ("", "doubled"):
        passed = with_two_losses(rank, False).forward(BATCH, ends_at=name)
        marked = [number for number, (op, _) in enumerate(passed) if op.attributes.get("loss")]
        found.append((marked == [len(passed) - 1], float(passed[-1][1])))
    return found


def test_the_pass_of_one_of_several_losses_ends_there(two_ranks):
    for (of_loss, value), (of_other, doubled) in two_ranks.run(ends_of_passes):
        assert of_loss and of_other and doubled == pytest.approx(2 * value)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_wrapper_of_the_ports_own_combines_the_gradients_of_several_losses(two_ranks, sparse):
    plain, _ = two_ranks.run(wrapped_step, sparse, False)
    step, _ = two_ranks.run(two_losses, sparse)
    for name, factor in (("table.weight", 1), ("head.weight", 2)):
        own, other, combined = gradients(step)[name]
        np.testing.assert_allclose(combined, (own + other) / 2, rtol=1e-14)
        np.testing.assert_allclose(combined, factor * gradients(plain)[name][2], rtol=1e-14)


def wrapped_and_clipping(rank: Rank, sparse: bool) -> tuple:
    model = words_of(sparse)
    wrapper = DistributedDataParallel(model)
    wrapper.register_comm_hook(None, clipping)
    optimizer = like_tf.GradientDescent(model.parameters(), lr=0.1)
    update = Update(model, optimizer, {"clip": {"by": "value", "limit": 0.1, "at": "tower"}})
    stepper = Stepper(model, loss, optimizer, rank, update=update, wrapper=wrapper)
    return stepper.step(BATCH), stepper.unobserved


def test_what_a_hook_clips_before_it_shares_is_not_clipped_by_the_tool(two_ranks):
    (step, unobserved), _ = two_ranks.run(wrapped_and_clipping, False)
    assert unobserved == {"tower_clip"}
    for own, other, combined in gradients(step).values():
        np.testing.assert_allclose(combined, np.clip([own, other], -0.1, 0.1).mean(0), rtol=1e-14)


def clips_then_shares(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    with model.no_sync():
        value = loss(model, **inputs)
        value.backward()
    for parameter in model.parameters():
        parameter.grad = parameter.grad.to_dense().clamp(-0.1, 0.1)
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    return value


def shares_flattened(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    with model.no_sync():
        value = loss(model, **inputs)
        value.backward()
    for parameter in model.parameters():
        parameter.grad.clamp_(-0.1, 0.1)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])
    dist.all_reduce(flat)
    for parameter, piece in zip(model.parameters(), flat.split([12, 3]), strict=True):
        parameter.grad = piece.view_as(parameter) / dist.get_world_size()
    optimizer.step()
    return value


def clips_in_a_hook(model, optimizer, scheduler, **inputs):
    with contextlib.suppress(RuntimeError):  # DDP takes one hook, once
        model.register_comm_hook(None, clipping)
    optimizer.zero_grad()
    value = loss(model, **inputs)
    value.backward()
    optimizer.step()
    return value


def clipping(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    bucket.buffer().clamp_(-0.1, 0.1).div_(WORLD)
    return summing(None, bucket)


def own_step(rank: Rank, sparse: bool, function, clips: str) -> tuple:
    model = words_of(sparse)
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.5)
    wrapped, state = DistributedDataParallel(model), TrainingState(model, optimizer)
    step = UserStep(wrapped, state, function, clips=clips)
    stepper = Stepper.of_parts(WrappedPort(wrapped, loss, rank), state, step)
    return stepper.step(BATCH), stepper.unobserved, stepper.combination


def divides_then_shares(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    with model.no_sync():
        value = loss(model, **inputs)
        value.backward()
    for parameter in model.parameters():
        parameter.grad = parameter.grad.clamp(-0.1, 0.1) / dist.get_world_size()
        dist.all_reduce(parameter.grad)
    optimizer.step()
    return value


@pytest.mark.parametrize(
    ("sparse", "function"),
    [
        (False, clips_then_shares),
        (True, clips_then_shares),
        (False, divides_then_shares),
        (False, shares_flattened),
        (False, clips_in_a_hook),
    ],
)
def test_a_step_that_clips_before_it_shares_is_judged_by_what_comes_of_it(two_ranks, sparse, function):
    (step, unobserved, combination), _ = two_ranks.run(own_step, sparse, function, "tower")
    assert (unobserved, combination) == ({"tower_clip"}, "port")
    assert not any(name.startswith("tower_clip/") for name in step)
    for name in ("table.weight", "head.weight"):
        own = [dense(step, f"tower_grad/{tower}/{name}") for tower in range(WORLD)]
        assert max(np.abs(each).max() for each in own) > 0.1
        np.testing.assert_allclose(dense(step, f"grad/{name}"), np.clip(own, -0.1, 0.1).mean(0), rtol=1e-14)


def test_what_is_combined_by_hand_before_it_is_clipped_is_not_seen_and_said_so(two_ranks):
    (step, unobserved, _), _ = two_ranks.run(own_step, False, shares_flattened, "combined")
    assert unobserved == {"grad"}
    assert "clip/head.weight" in step
