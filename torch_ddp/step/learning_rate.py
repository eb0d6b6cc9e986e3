"""Makes learning-rate schedules; scales rates to a larger batch and warms them up."""

from collections.abc import Callable, Mapping
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError

# 64 roundings of float32, 3.8e-6: a factor that was rounded once and is raised to the power n is off by n of them at
# most. Schedules of TensorFlow are 9.5e-7 from the same ones in double (docs/semantics.md), 0.96^(10000 / 41), with n
# = 244, 5.3e-6.
RATE_ROUNDING = 2.0**-18


def scaled_learning_rate(learning_rate: float, batch_size: int, reference_batch_size: int) -> float:
    """Returns ``learning_rate * batch_size / reference_batch_size``: the linear scaling rule.

    For gradients that are averaged, as DDP does. Where towers summed theirs, the sum has grown with their number already.

    Args:
      learning_rate: the rate found good for `reference_batch_size`.
      batch_size: examples per update over all ranks and accumulated pieces, at least 1.
      reference_batch_size: the batch size that the rate belongs to, at least 1.

    Raises:
      TorchDdpError: a batch size is not positive.

    Source: Goyal et al., Accurate, Large Minibatch SGD, arXiv:1706.02677, section 2.1.
    """
    if batch_size < 1 or reference_batch_size < 1:
        raise TorchDdpError(
            f"learning rate: expected positive batch sizes, got {batch_size} and {reference_batch_size}. "
            "Count the examples of one update over all ranks."
        )
    return learning_rate * batch_size / reference_batch_size


def warm_up(
    optimizer: Optimizer, steps: int, start: float = 0.0, after: Callable[[int], float] | None = None
) -> LambdaLR:
    """Returns a scheduler that raises every group's rate linearly from a fraction of it over the first updates.

    Call its ``step()`` after each ``optimizer.step()``. Update t, from 0, uses ``start + (1 - start) * t / steps`` of the
    optimizer's own rate. The rate is worked out from the step alone, so that a resumed training has the same to the bit.

    Args:
      optimizer: its present rates are the ones to reach.
      steps: number of updates to get there, at least 0.
      start: the fraction to start from, 0 to 1; ``1 / world_size`` starts at the unscaled rate.
      after: the fraction to use from then on, by step; by default 1.

    Raises:
      TorchDdpError: `steps` or `start` is out of range.

    Source: Goyal et al., arXiv:1706.02677, section 2.2. TensorFlow's own rule is in `torch_ddp.like_tf.linear_warm_up`.
    """
    if steps < 0 or not 0.0 <= start <= 1.0:
        raise TorchDdpError(
            f"warm_up: expected at least 0 steps and a start from 0 to 1, got {steps} and {start}. Change them."
        )

    def fraction(step: int) -> float:
        if step < steps:
            # start at step 0 and 1 at step `steps`, which this branch does not reach.
            return start + (1.0 - start) * step / steps
        return 1.0 if after is None else after(step)

    # A fraction of each group's own rate, worked out from the step: no rate is multiplied up, so that none drifts.
    return LambdaLR(optimizer, fraction)


# From the number of updates made to the rate of the next, a float32 number: TensorFlow's schedules read the step before
# it is counted.
Schedule = Callable[[int], float]
SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "cosine_decay": like_tf.cosine_decay,
    "cosine_decay_restarts": like_tf.cosine_decay_restarts,
    "exponential_decay": like_tf.exponential_decay,
    "inverse_time_decay": like_tf.inverse_time_decay,
    "natural_exp_decay": like_tf.natural_exp_decay,
    "piecewise_constant": like_tf.piecewise_constant,
    "polynomial_decay": like_tf.polynomial_decay,
}


def make_schedule(description: Mapping[str, Any]) -> Schedule:
    """Makes the function from the global step before an update to the learning rate of that update.

    Args:
      description: `schedule`, a name of `SCHEDULES`, and what the TensorFlow function of that name takes.

    Raises:
      TorchDdpError: the schedule is unknown, or does not take what is given.

    Counterpart: tf_towers.make_learning_rate
    """
    # A copy: names are taken out of it below, and the description is the caller's.
    settings = dict(description)
    name = settings.pop("schedule", None)
    if name not in SCHEDULES:
        raise TorchDdpError(
            f"learning_rate: expected schedule to be one of {', '.join(sorted(SCHEDULES))}, got {name!r}."
        )
    try:
        return SCHEDULES[name](**settings)
    except TypeError as error:
        raise TorchDdpError(
            f"learning_rate: expected what {name} takes, got {', '.join(sorted(settings))}: {error}. "
            "Use TensorFlow's own names."
        ) from error


def take_recorded_rate(optimizer: Optimizer, recorded: float) -> None:
    """Sets a recorded learning rate where the first group's own differs from it by float32's rounding only."""
    groups = optimizer.param_groups
    own = float(groups[0]["lr"])
    if own and abs(own - recorded) <= RATE_ROUNDING * abs(recorded):
        for group in groups:
            # All groups by the same factor, so that rates of their own stay in proportion.
            group["lr"] *= recorded / own
        groups[0]["lr"] = recorded
