"""Learning-rate schedules, in float32 as TensorFlow's graph computes them."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.float32_math import Schedule, check_steps, cosine, divide, logarithm, scaled_fraction
from torch_ddp.like_tf.float32_math import power as raise_to
from torch_ddp.like_tf.graph_scalar import graph_float


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False, optimized: bool = True
) -> Schedule:
    """Returns ``step -> learning_rate * decay_rate ** (step / decay_steps)``.

    Every operation rounds to float32 in the graph's order. Where the reciprocal of decay_steps is rounded down,
    each stair comes a step late. Source: ExponentialDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps for one factor; positive.
        decay_rate: the factor.
        staircase: whether the exponent is rounded down to a whole number.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.exponential_decay.
    """
    return _decaying("exponential_decay", learning_rate, decay_steps, np.float32(decay_rate), staircase, optimized)


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False, optimized: bool = True
) -> Schedule:
    """Returns ``step -> learning_rate * exp(-decay_rate) ** (step / decay_steps)``.

    Source: natural_exp_decay in tensorflow/python/training/learning_rate_decay.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps for one factor; positive.
        decay_rate: the negative logarithm of the factor.
        staircase: whether the exponent is rounded down to a whole number.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.natural_exp_decay.
    """
    # The exponential in double, of a float32 number, rounded once.
    factor = np.float32(math.exp(-np.float32(decay_rate)))
    return _decaying("natural_exp_decay", learning_rate, decay_steps, factor, staircase, optimized)


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False, optimized: bool = True
) -> Schedule:
    """Returns ``step -> learning_rate / (1 + decay_rate * step / decay_steps)``.

    Source: InverseTimeDecay in tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps until the divisor has grown by decay_rate; positive.
        decay_rate: growth of the divisor.
        staircase: whether ``step / decay_steps`` is rounded down to a whole number.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.inverse_time_decay.
    """
    check_steps("inverse_time_decay", decay_steps)
    first, rate = np.float32(learning_rate), np.float32(decay_rate)

    def at(step: int) -> float:
        if staircase:
            growth = rate * _passed(step, decay_steps, staircase, optimized)
        else:
            growth = scaled_fraction(rate, np.float32(step), decay_steps, optimized)
        return float(first / (np.float32(1) + growth))

    return at


def _decaying(
    who: str, learning_rate: float, decay_steps: int, factor: np.float32, staircase: bool, optimized: bool
) -> Schedule:
    check_steps(who, decay_steps)
    first = np.float32(learning_rate)

    def at(step: int) -> float:
        # Off by the rounding of the factor times the exponent: 0.96^(1000 / 41) by 5e-7 of the exact, 0.96^(10000 /
        # 41) by 5e-6.
        return float(first * raise_to(factor, _passed(step, decay_steps, staircase, optimized)))

    return at


def _passed(step: int, decay_steps: int, staircase: bool, optimized: bool) -> np.float32:
    passed = divide(np.float32(step), decay_steps, optimized)
    # After the rounding of the quotient, so that 41 / 41 may be 0 stairs; see `divide`.
    return np.float32(np.floor(passed)) if staircase else passed


_ONE, _HALF, _PI = np.float32(1), np.float32(0.5), np.float32(math.pi)


def cosine_decay(learning_rate: float, decay_steps: int, alpha: float = 0.0, optimized: bool = True) -> Schedule:
    """Returns ``step -> learning_rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha)``.

    The step stops at decay_steps. Source: CosineDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps to the end value; positive.
        alpha: the end value as a fraction of learning_rate.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.cosine_decay.
    """
    check_steps("cosine_decay", decay_steps)
    first, rest, end = np.float32(learning_rate), np.float32(1 - alpha), np.float32(alpha)

    def at(step: int) -> float:
        # min stands before the quotient in the graph: at and after decay_steps the angle is one and the same number.
        angle = scaled_fraction(_PI, min(np.float32(step), np.float32(decay_steps)), decay_steps, optimized)
        return float(first * (rest * (_HALF * (_ONE + cosine(angle))) + end))

    return at


def cosine_decay_restarts(
    learning_rate: float,
    first_decay_steps: int,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    optimized: bool = True,
) -> Schedule:
    """Returns cosine decays one after the other, each ``t_mul`` times as long and ``m_mul`` times as high.

    The restart is found from float32 logarithms, as in the graph. Source:
    CosineDecayRestarts in tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        first_decay_steps: steps of the first decay; positive.
        t_mul: growth of the length.
        m_mul: growth of the height.
        alpha: the end value as a fraction of learning_rate.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: first_decay_steps is not positive.

    Counterpart: tf.compat.v1.train.cosine_decay_restarts.
    """
    check_steps("cosine_decay_restarts", first_decay_steps)
    first, end = np.float32(learning_rate), np.float32(alpha)
    longer, higher = np.float32(t_mul), np.float32(m_mul)

    def at(step: int) -> float:
        restarts, fraction = _within(divide(np.float32(step), first_decay_steps, optimized), longer)
        height = raise_to(higher, restarts)
        return float(first * ((_ONE - end) * (_HALF * height * (_ONE + cosine(_PI * fraction))) + end))

    return at


def _within(fraction: np.float32, longer: np.float32) -> tuple[np.float32, np.float32]:
    if longer == 1:
        whole = np.float32(np.floor(fraction))
        return whole, fraction - whole
    # The lengths sum to (1 - longer^n) / (1 - longer), which solved for n is this logarithm. In float32 it can fall
    # to the other side of a restart, which is what the graph does then.
    restarts = np.float32(np.floor(logarithm(_ONE - fraction * (_ONE - longer)) / logarithm(longer)))
    length = raise_to(longer, restarts)
    return restarts, (fraction - (_ONE - length) / (_ONE - longer)) / length


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    optimized: bool = True,
) -> Schedule:
    """Returns ``step -> (learning_rate - end) * (1 - step / decay_steps) ** power + end``.

    Without ``cycle`` the step stops at decay_steps; with it decay_steps is multiplied up to the step, so that the rate
    jumps up after each multiple. Source: PolynomialDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps to the end value; positive.
        end_learning_rate: the end value.
        power: the power; 1 is a straight line.
        cycle: whether it starts again.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.polynomial_decay.
    """
    check_steps("polynomial_decay", decay_steps)
    first, end, exponent = np.float32(learning_rate), np.float32(end_learning_rate), np.float32(power)

    def at(step: int) -> float:
        now, steps = np.float32(step), np.float32(decay_steps)
        if cycle:
            # The cycles are counted by a constant of the graph, so that the product with its reciprocal may be above a
            # whole number: at step 3000 of 1000 it is 4 cycles. At step 0 one cycle, where ceil gives none.
            cycles = np.float32(1) if now == 0 else np.ceil(divide(now, decay_steps, optimized))
            # A quotient of two tensors, of which the graph optimizer makes no product.
            passed = now / (steps * cycles)
        else:
            passed = divide(min(now, steps), decay_steps, optimized)
        return float((first - end) * raise_to(np.float32(1) - passed, exponent) + end)

    return at


class Scheduler(LRScheduler):
    """Sets ``lr`` of each parameter group from a function of the step.

    Call ``step()`` after ``optimizer.step()``: the update of step t then uses the rate of t, the value of TensorFlow's
    global step before its increment.

    Args:
        optimizer: any torch optimizer.
        schedules: one function for all groups, or one each.
        last_epoch: the last step that was made, -1 for none.

    Raises:
        LikeTfError: there are more or fewer schedules than groups.
    """

    def __init__(self, optimizer: Optimizer, schedules: Schedule | Sequence[Schedule], last_epoch: int = -1) -> None:
        groups = len(optimizer.param_groups)
        self._schedules = [schedules] * groups if callable(schedules) else list(schedules)
        if len(self._schedules) != groups:
            raise LikeTfError(
                f"Scheduler: expected {groups} schedules, one per parameter group, got {len(self._schedules)}. "
                "Give one function to use it for all groups."
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the rate of the current step for each group."""
        return [schedule(self.last_epoch) for schedule in self._schedules]

    def state_dict(self) -> dict[str, Any]:
        """Returns the step and what else torch keeps; the schedules are code and are left out."""
        return {name: value for name, value in super().state_dict().items() if name != "_schedules"}


def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """Returns a function that is ``values[i]`` while the step is **at most** ``boundaries[i]``.

    torch's MultiStepLR changes at its milestone, one step earlier. Source: PiecewiseConstantDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        boundaries: last step of each value but the last one, increasing.
        values: one more than boundaries.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: the numbers of boundaries and values do not fit, or the boundaries do not increase.

    Counterpart: tf.compat.v1.train.piecewise_constant.
    """
    if len(values) != len(boundaries) + 1:
        raise LikeTfError(
            f"piecewise_constant: expected one value more than the {len(boundaries)} boundaries, got {len(values)}. "
            "Give the first and the last value too."
        )
    if any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise LikeTfError(f"piecewise_constant: expected increasing boundaries, got {list(boundaries)}. Sort them.")
    # The graph chooses among float32 constants.
    rates = [graph_float(value) for value in values]

    def at(step: int) -> float:
        # How many boundaries the step has passed, none of them by being equal to it.
        return rates[sum(step > boundary for boundary in boundaries)]

    return at


def linear_warm_up(learning_rate: float, warm_up_steps: int, schedule: Schedule, optimized: bool = True) -> Schedule:
    """Returns ``learning_rate * step / warm_up_steps`` before step warm_up_steps, and the schedule from there on.

    The schedule is not shifted: it is asked for the same step. The first step has the rate 0. Source: create_optimizer
    in optimization.py of google-research/bert.

    Args:
        learning_rate: the rate that the warm-up goes to.
        warm_up_steps: steps until then; positive.
        schedule: what follows.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: warm_up_steps is not positive.
    """
    check_steps("linear_warm_up", warm_up_steps)

    def at(step: int) -> float:
        # create_optimizer adds both, one of them times 0 and the other times 1: for finite rates that is this branch,
        # to the bit.
        if step >= warm_up_steps:
            return schedule(step)
        return float(scaled_fraction(np.float32(learning_rate), np.float32(step), warm_up_steps, optimized))

    return at


def noam_decay(learning_rate: float, d_model: int, warmup_steps: int, optimized: bool = True) -> Schedule:
    """Returns ``step -> learning_rate * d_model ** -0.5 * min((step + 1) * warmup_steps ** -1.5, (step + 1) ** -0.5)``.

    TensorFlow has no such function; this is the one of tensor2tensor, with its 5000 for learning_rate, whose step begins
    at 0. Every operation rounds to float32 in the graph's order. Source: learning_rate_factor in
    tensor2tensor/utils/learning_rate.py.

    Args:
        learning_rate: a factor.
        d_model: the model's hidden size; positive.
        warmup_steps: steps of the linear rise; positive.
        optimized: whether TensorFlow's graph optimizer ran, which is its default and makes a power of -0.5 a reciprocal
            root.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: d_model or warmup_steps is not positive.
    """
    check_steps("noam_decay", warmup_steps)
    if d_model <= 0:
        raise LikeTfError(f"noam_decay: expected a positive d_model, got {d_model}. Give the model's hidden size.")
    # Python numbers of the script, which the graph takes as one constant each.
    factor, rise = np.float32(learning_rate * d_model**-0.5), np.float32(warmup_steps**-1.5)

    def at(step: int) -> float:
        number = np.float32(step) + _ONE
        fall = _ONE / np.sqrt(number) if optimized else raise_to(number, -_HALF)
        return float(factor * min(number * rise, fall))

    return at
