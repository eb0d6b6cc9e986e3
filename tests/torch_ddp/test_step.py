import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import Rank, Stepper, TorchDdpError, Update, like_tf, process_group
from torch_ddp.step.backward import Backward
from torch_ddp.step.combine import Combining
from torch_ddp.step.one_step import ToolStep
from torch_ddp.step.stepper import WrappedPort
from torch_ddp.step.training_state import TrainingState

BATCH = {"x": np.arange(12.0).reshape(4, 3) / 7, "y": np.array([1.0, -1.0, 0.5, 2.0])}


def squared_error(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    out = model(x)[:, 0]
    return ((out - y) ** 2).mean(), {"out": out, "bias": out.mean()}


def stepper_of(rank: Rank, loss=squared_error, reduce: str = "mean") -> Stepper:
    torch.manual_seed(0)
    model = nn.Linear(3, 1).double()
    return Stepper(model, loss, like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.5), rank, reduce)


def two_steps(rank: Rank, reduce: str) -> tuple[dict, list, dict]:
    stepper = stepper_of(rank, reduce=reduce)
    before = stepper.state()
    made, after = [stepper.step(BATCH) for _ in range(2)], stepper.state()
    assert stepper.counters() == {name: value for name, value in after.items() if name.startswith("state/")} != {}
    return before, made, after


@pytest.fixture
def alone(tmp_path):
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()) as rank:
        yield rank


def test_a_step_leaves_every_quantity_under_its_name(two_ranks):
    (_, steps, after), (_, others, _) = two_ranks.run(two_steps, "mean")
    assert others == [None, None]
    towers = [f"{quantity}/{tower}" for quantity in ("feed", "tower_grad", "act", "loss") for tower in (0, 1)]
    assert {"/".join(name.split("/")[:2]) for name in steps[0]} == {*towers, "grad/weight", "grad/bias", "metric/bias"}
    assert set(after) == {
        "var/weight",
        "var/bias",
        "slot/momentum/weight",
        "slot/momentum/bias",
        "state/learning_rate",
        "state/global_step",
    }
    assert after["state/global_step"] == 2
    np.testing.assert_array_equal(steps[0]["feed/1/x"], BATCH["x"][2:])


@pytest.mark.parametrize(("reduce", "divisor"), [("mean", 2), ("sum", 1)])
def test_the_update_is_that_of_the_combined_gradient(two_ranks, reduce, divisor):
    before, (first, _), _ = two_ranks.run(two_steps, reduce)[0]
    x, y = BATCH["x"], BATCH["y"]
    residual = x @ before["var/weight"][0] + before["var/bias"] - y
    for tower, part in enumerate((slice(0, 2), slice(2, 4))):
        by_hand = 2 * residual[part] @ x[part] / 2
        np.testing.assert_allclose(first[f"tower_grad/{tower}/weight"][0], by_hand, rtol=1e-13)
        np.testing.assert_allclose(first[f"loss/{tower}"], (residual[part] ** 2).mean(), rtol=1e-14)
    total = first["tower_grad/0/weight"] + first["tower_grad/1/weight"]
    np.testing.assert_allclose(first["grad/weight"], total / divisor, rtol=1e-15)
    np.testing.assert_allclose(first["metric/bias"], (residual + y).mean(), rtol=1e-14)


def test_a_loaded_state_goes_on_as_the_one_it_was_taken_from(alone):
    one, other = stepper_of(alone), stepper_of(alone)
    one.step(BATCH)
    other.load(one.state())
    first, second = one.step(BATCH), other.step(BATCH)
    assert set(first) == set(second)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert all(np.array_equal(value, other.state()[name]) for name, value in one.state().items())


def test_a_frozen_parameter_has_no_slot_and_does_not_decay(alone):
    model = nn.Linear(3, 1).double()
    model.bias.requires_grad_(False)
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.5)
    update = Update(model, optimizer, {"weight_decay": {"coefficient": 0.5}})
    stepper = Stepper(model, squared_error, optimizer, alone, update=update)
    assert {name for name in stepper.state() if name.startswith("slot/")} == {"slot/momentum/weight"}
    stepper.load({**stepper.state(), "slot/momentum/bias": np.ones(1)})
    assert update.decay().item() == pytest.approx(0.25 * model.weight.square().sum().item(), rel=1e-15)


class OwnMomentum(torch.optim.Optimizer):
    """Keeps a velocity of what has a gradient, and nothing of what is frozen."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                state = self.state[parameter]
                state["velocity"] = 0.5 * state.get("velocity", torch.zeros_like(parameter)) + parameter.grad
                parameter.sub_(0.1 * state["velocity"])


def test_a_slot_of_a_frozen_parameter_is_not_loaded_where_the_optimizer_keeps_none(alone):
    model = nn.Linear(3, 1).double()
    model.bias.requires_grad_(False)
    stepper = Stepper(model, squared_error, OwnMomentum(model.parameters()), alone)
    stepper.step(BATCH)
    # As of a reference's bias that is the sum of a trained and a frozen one here.
    stepper.load({**stepper.state(), "slot/velocity/weight": np.ones((1, 3)), "slot/velocity/bias": np.ones(1)})
    state = stepper.state()
    assert np.array_equal(state["slot/velocity/weight"], np.ones((1, 3))) and "slot/velocity/bias" not in state
    with pytest.raises(TorchDdpError, match="slot/speed/weight to be a slot of this optimizer"):
        stepper.load({**state, "slot/speed/weight": np.ones((1, 3))})


def test_arrays_that_a_script_counts_are_no_counters_of_an_optimizer(alone):
    stepper = stepper_of(alone)
    stepper.load({**stepper.state(), "state/global_step": np.int64(3), "state/hits": np.arange(4)})
    assert stepper.state()["state/global_step"] == 3


def test_counters_are_left_alone_if_asked(alone):
    one, other = stepper_of(alone), stepper_of(alone)
    one.step(BATCH)
    other.load(one.state(), counters=False)
    assert other.state()["state/global_step"] == 0


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        (
            "slot/Adam/weight",
            (1, 3),
            "load: expected slot/Adam/weight to be a slot of this optimizer, got shape (1, 3).",
        ),
        ("slot/momentum/weight", (3,), "load: expected slot/momentum/weight to be (1, 3), got shape (3,)."),
    ],
)
def test_a_slot_that_does_not_fit_is_refused(alone, name, shape, text):
    stepper = stepper_of(alone)
    state = {**stepper.state(), name: np.zeros(shape)}
    with pytest.raises(TorchDdpError) as error:
        stepper.load(state)
    assert str(error.value) == text


def test_a_loss_that_is_no_scalar_is_refused(alone):
    stepper = stepper_of(alone, lambda model, x, y: model(x)[:, 0] - y)
    with pytest.raises(TorchDdpError) as error:
        stepper.step(BATCH)
    assert str(error.value) == "loss: expected a scalar, got shape (4,). Reduce it, e.g. with mean()."


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (
            lambda model, x, y: None,
            "loss: expected a scalar tensor, or (loss, dict of outputs), got NoneType. "
            "Return the tensor itself, not its number.",
        ),
        (
            lambda model, x, y: (model(x).sum(), {"all": model(x)}, 3),
            "loss: expected a scalar tensor, or (loss, dict of outputs), got tuple. "
            "Return the tensor itself, not its number.",
        ),
        (
            lambda model, x, y: (model(x).sum(), [model(x)]),
            "loss: expected the outputs beside the loss to be a dict of name to tensor, got list. "
            'Return (loss, {"logits": logits}).',
        ),
        (
            lambda model, x, y: (model(x).sum(), {"accuracy": 0.5}),
            "loss: expected the outputs beside the loss to be a dict of name to tensor, got 'accuracy': float. "
            'Return (loss, {"logits": logits}).',
        ),
        (
            lambda model, x, y: model(x).sum().detach(),
            "loss: expected a loss that depends on the weights, got one without a gradient. "
            "Look for detach(), no_grad(), item() or a tensor made anew between them.",
        ),
        (
            lambda model, inputs, y: model(inputs).sum(),
            "case: expected a function that can be called as loss(model, x=..., y=...), got one of (model, inputs, y): "
            "missing a required argument: 'inputs'. Name its arguments as the batches name their arrays.",
        ),
    ],
)
def test_what_is_no_loss_is_refused_in_one_line(alone, loss, text):
    with pytest.raises(ValueError, match="expected") as error:
        stepper_of(alone, loss).step(BATCH)
    assert str(error.value) == text


def test_a_type_error_inside_a_loss_comes_through(alone):
    with pytest.raises(TypeError, match="unsupported operand"):
        stepper_of(alone, lambda model, x, y: model(x).sum() + None).step(BATCH)


class Half(nn.Module):
    """Two layers of which a loss may use one."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(3, 1).double(), nn.Linear(3, 1).double()

    def forward(self, x):
        return self.used(x)


def steps_with_zeros(rank: Rank, detached: bool) -> tuple[list, dict]:
    """Two steps of a port as a replay makes them: where a parameter is reached by no loss, or none is."""
    torch.manual_seed(0)
    model = Half()
    optimizer = like_tf.GradientDescent(model.parameters(), lr=0.1)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)

    def loss(model, x, y):
        found = ((model(x)[:, 0] - y) ** 2).mean()
        return found.detach() if detached else found

    backward = Backward(wrapped, loss, Combining("mean"), Update(model, optimizer))
    backward.zeros = True
    state = TrainingState(model, optimizer)
    port = WrappedPort(wrapped, loss, rank, "refuse")
    stepper = Stepper.of_parts(port, state, ToolStep(backward, state))
    return [stepper.step(BATCH) for _ in range(2)], stepper.state()


@pytest.mark.parametrize("detached", [False, True])
def test_what_no_loss_reaches_may_have_a_gradient_of_zeros(two_ranks, detached):
    (steps, _), _ = two_ranks.run(steps_with_zeros, detached)
    for step in steps:
        for quantity in ("tower_grad/0", "tower_grad/1", "grad"):
            np.testing.assert_array_equal(step[f"{quantity}/unused.weight"], np.zeros((1, 3)))
            assert step[f"{quantity}/used.weight"].any() == (not detached)
