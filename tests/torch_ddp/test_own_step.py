import numpy as np
import pytest
import torch
from test_step import BATCH, squared_error, stepper_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import Rank, Stepper, TorchDdpError, like_tf, process_group
from torch_ddp.step.stepper import WrappedPort
from torch_ddp.step.training_state import TrainingState
from torch_ddp.worker.user_step import UserStep


def trained(model, optimizer, scheduler, x, y):
    optimizer.zero_grad()
    loss, outputs = squared_error(model, x, y)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad.clamp_(-0.5, 0.5)
    optimizer.step()
    return loss, outputs


def own_of(rank: Rank, function, **options) -> Stepper:
    torch.manual_seed(0)
    model = nn.Linear(3, 1).double()
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.5)
    wrapped, state = DistributedDataParallel(model), TrainingState(model, optimizer)
    step = UserStep(wrapped, state, function, **options)
    return Stepper.of_parts(WrappedPort(wrapped, squared_error, rank), state, step)


def both(rank: Rank) -> tuple:
    plain, own = stepper_of(rank).step(BATCH), own_of(rank, trained, clips="combined").step(BATCH)
    return plain, own


def test_what_happens_inside_is_recorded_as_of_any_other_step(two_ranks):
    (plain, own), (_, none) = two_ranks.run(both)
    assert none is None
    for name, value in plain.items():
        np.testing.assert_array_equal(own[name], value, err_msg=name)
    assert set(own) - set(plain) == {"clip/weight", "clip/bias", "state/learning_rate"}
    np.testing.assert_array_equal(own["clip/weight"], own["grad/weight"].clip(-0.5, 0.5))
    assert (own["clip/weight"] != own["grad/weight"]).any()
    assert own["state/learning_rate"] == pytest.approx(0.1, rel=1e-7)  # as TensorFlow holds it, in float32


@pytest.mark.parametrize(
    ("returned", "got"), [(None, "NoneType"), (torch.ones(2), r"shape \(2,\)"), ((0.5, {}), "float")]
)
def test_a_step_without_a_scalar_loss_is_refused(tmp_path, returned, got):
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()) as rank:
        stepper = own_of(rank, lambda model, optimizer, scheduler, x, y: returned)
        with pytest.raises(
            TorchDdpError, match=rf"^step: expected it to return the loss of its shard, .* got {got}\. "
        ):
            stepper.step(BATCH)


def test_outputs_that_a_step_would_not_go_on_from_are_refused_not_ignored(tmp_path):
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()) as rank:
        stepper = own_of(rank, trained)
        stepper.give({})
        with pytest.raises(TorchDdpError, match=r"^given: .* got one with a step of its own, .* Leave them out\.$"):
            stepper.give({"act/0/out": np.zeros((2, 1))})
