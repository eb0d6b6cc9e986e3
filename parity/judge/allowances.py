"""What rounding explains, level by level: every formula, with the derivation and the measurement behind its constants.

Notation, as in docs/method.md: T is a tensor of the reference and P the candidate's, of any shape and in the
reference's layout; ``|.|`` is the Euclidean norm over all elements, summed in float64. ``|dT|`` is the norm of the
reference's update, for weights, statistics and averages, and of the tensor itself for all else: a bug moves the
update, and not the weight that it arrives at. eT and eP are the distances of the sides' float32 runs from their own
float64 ones, made from the same state. u64 = 2^-53, u32 = 2^-24 and u16 (2^-11, of bfloat16 2^-8) are unit roundoffs.
`stored` is the last bit of a stored value, which no update near zero can avoid. A pair is the same where ``|P - T|``
is at most the limit; docs/method.md has the same table.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import numpy as np

from parity.judge.judge import Allowance, Allowed, MeasuredPair
from parity.judge.result import Check
from parity.trace import GRADIENTS, OPTIMIZED, quantity_of

# Half the spacing at 1: one operation gives its exact result times 1 + d, with |d| at most u.
UNIT64, UNIT32 = 2.0**-53, 2.0**-24
# 11 significant bits of float16, 8 of bfloat16, the leading one that is not stored included.
UNIT16: Mapping[str, float] = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
# Half the spacing of the smallest numbers: what rounding does to a value that is too small for a relative error.
TINIEST: Mapping[str, float] = {"float16": 2.0**-25, "bfloat16": 2.0**-134}
# A rounding error is, to first order, u times a number that depends on the values and the order of operations alone: a
# program in float64 errs by this part of what it errs in float32.
FLOAT32_TO_64 = UNIT64 / UNIT32  # 2^-29

# 64: two right sides stand at 2.44 times what is foretold, at most (21,050 tensors in 650 states of a convnet, an MLP
# and an LSTM), the faintest of 55 planted bugs at 1.2e7. Deeper nets have what lies between.
FUNCTION_LIMIT = 64.0
# 3: eP and eT are at most the largest of the four, and what level 1 leaves of P64 - T64 is small beside them: 2 and a
# little. Right ports reach 1.19 in the 650 states, 0.60 of the limit in the 200 of docs/method.md.
FLOAT32_LIMIT = 3.0
# 32: 540 right runs reach 7.06, the faintest planted bug 569 (benchmarks/trajectory.py, docs/method.md).
TRAJECTORY_LIMIT = 32.0
MIXED_LIMIT = 4.0
# 2^16 u32 is 0.4% of a tensor. Gradients of right ports differ by 1.1e-3 at most in 12 layers of convolution, batch
# norm and ReLU, by 8.5e-3 in 24: what is so deep can be judged with a float64 shadow only.
FIXED_MARGIN = 2.0**16

# 64 times that is 5.7e-14 of a tensor. Weights of right ports were 5.6e-16 apart after 50 free steps of a convnet, an
# MLP or an LSTM, 1.5e-14 at twenty times the learning rate.
FREE_FLOOR = 2.0**-50  # of |T|: 8 unit roundoffs, where no run of the reference was moved at all
FAINT = 1e-3  # of all gradients of a step: a gradient that is zero but for rounding has a norm of rounding
REMADE = 2.0**-22  # of float32 values that were made by another way: 4 unit roundoffs


# Before the first step.


def started(pair: MeasuredPair) -> Allowed:
    """Values that a side starts from by itself, both read as float32.

        2**-22 * max(T, P)

    T and P are the sizes of both sides' values, largest elements of slots and norms of buffers: an initialiser may be
    computed another way. P, where it is known, is `rounding[0]`.
    """
    # The larger of the two sizes, for where the reference starts at 0 nothing is a part of that.
    return Allowed(REMADE * max((pair.size, *pair.rounding)), pair.size)


def loaded(pair: MeasuredPair) -> Allowed:
    """State after loading, before anything is computed: a copy, but for the sums and differences of a layout's transform.

    4 * u64 * T
    """
    # A copy is equal bit for bit; a transform that splits a bias and adds it up again rounds once each way.
    return Allowed(4 * UNIT64 * pair.size, pair.size)


# Level 1, `function`: float64 runs.


def function(pair: MeasuredPair) -> Allowed:
    """Level 1 in lockstep: what float64 may round, foretold by what float32 did.

        64 * (2**-29 * (eT + eP) + 4 * u64 * dT) + stored
        stored = 2 * u64 * T

    Rounding errors scale with the unit roundoff, u64 / u32 = 2^-29, cancellation and structurally zero gradients
    included; 4 u64 ``|dT|`` stands in where float32 happened to round nothing. `stored` is allowed of updates alone.
    eT and eP are `rounding`.

    64: of 200 right ports, varied in the machine's choices too, the largest difference is 0.90 of the limit
    (benchmarks/bugs/bench.py, seed 2030 in docs/method.md). Where float32 is finite on neither side nobody knows what
    rounding does: beyond the limit is incomparable then.
    """
    lost = sum(pair.rounding)
    limit = FUNCTION_LIMIT * (FLOAT32_TO_64 * lost + 4 * UNIT64 * pair.moved) + _last_bit(pair)
    return _foretold(pair, Allowed(limit, lost / UNIT32 + pair.moved))


def function_in_float32(pair: MeasuredPair) -> Allowed:
    """Level 1 in lockstep where the reference's float64 run is float32 inside, as of everything in `tf.losses`.

        3 * (eT + eP + 2 * u32 * dT)

    What level 2 allows, by the sum of both sides' errors: 10^7 times what float64 would round.
    """
    lost = sum(pair.rounding)
    return _foretold(pair, Allowed(FLOAT32_LIMIT * (lost + 2 * UNIT32 * pair.moved), lost / UNIT32 + pair.moved))


def _last_bit(pair: MeasuredPair) -> float:
    return 2 * UNIT64 * pair.size if pair.updated else 0.0


def _foretold(pair: MeasuredPair, allowed: Allowed) -> Allowed:
    note = "in float32 it is not finite on either side, in float64 it is"
    # Nobody knows how much float64 may round where float32 overflows on both sides: too far apart proves nothing.
    return allowed._replace(beyond="incomparable", note=note) if pair.unknown else allowed


def free_running(steps: Sequence[int], ulp: float, lockstep: Sequence[Check]) -> Allowance:
    """Level 1 in free runs: the step's own rounding, and what training makes of that of all steps before it.

        step + 64 * max(amplification * spread, 2**-50 * T)
        amplification = max(1, sqrt(sum of (a / 64)^2) / ulp)

    `step` is what lockstep allows this tensor at this step. `spread`, from `rounding`, is the largest distance up to
    the step that a run of the reference started one ulp away has had from it. Such a run is moved once, by `ulp` of
    the weights; rounding moves the weights in every step. Their ratio, the roundings of all steps so far taken as
    independent of each other (a are the allowances of all weights in lockstep), carries the spread of the one over to
    the other. Without that ratio a right port with batch norm is beyond the limit: batch norm in float64 rounds more
    than an ulp of the weights does.

    Args:
      steps: numbers of the free run's steps, in order.
      ulp: the smallest distance by which weights were moved, 0 where no run was.
      lockstep: the checks of the lockstep.
    """
    alone = {(check.step, check.key): check.allowed for check in lockstep if check.run == "lockstep"}
    amplification = _amplification(steps, ulp, lockstep)
    spread: dict[str, float] = {}

    def allowance(pair: MeasuredPair) -> Allowed:
        # Invariant: `spread` holds the largest distance of the steps judged so far; pairs come in the order of the
        # steps.
        # A replica that has left the finite numbers does not say how far rounding carries: it allows nothing more.
        further = sum(pair.rounding)  # one number, or none where it is not finite
        spread[pair.text] = max(spread.get(pair.text, 0.0), further if isfinite(further) else 0.0)
        # The floor is for tensors that an ulp of the weights does not reach: no replica moves them, which would allow
        # 0.
        carried = max(amplification[pair.step] * spread[pair.text], FREE_FLOOR * pair.size)
        limit = alone.get((pair.step, pair.text), 0.0) + FUNCTION_LIMIT * carried
        return Allowed(limit, limit / (FUNCTION_LIMIT * UNIT64))

    return allowance


def _amplification(steps: Sequence[int], ulp: float, lockstep: Sequence[Check]) -> dict[int, float]:
    rounded = dict.fromkeys(steps, 0.0)
    for check in lockstep:
        if check.run == "lockstep" and quantity_of(check.key) == "var" and check.step in rounded:
            # a / 64 is what rounding is foretold to be, without the margin that the verdict leaves it.
            rounded[check.step] += (check.allowed / FUNCTION_LIMIT) ** 2
    # Independent roundings add up as a random walk does, by their squares: (steps,), root of the sum up to each step.
    sums = np.sqrt(np.cumsum(list(rounded.values())))
    return {step: max(1.0, float(sum_) / ulp) if ulp > 0.0 else 1.0 for step, sum_ in zip(rounded, sums, strict=True)}


# Level 2, `float32`: float32 runs in lockstep.


def float32(pair: MeasuredPair) -> Allowed:
    """Level 2: what either side's float32 loses beside its own float64, or what rounding is seen to do to the reference.

        3 * (max(eT, eP, W, S) + 2 * u32 * dT)

    W and S are the reference's spread under one-ulp changes of weights and inputs and under another order of the
    examples; all four are `rounding`. By the triangle inequality ``|P - T| <= eP + |P64 - T64| + eT``, so that two
    sides that level 1 calls the same can hardly be beyond 3 times the largest.
    """
    # The largest, not the sum: all four measure the same rounding, each with what the others may have missed.
    rough = max(pair.rounding, default=0.0)
    return Allowed(FLOAT32_LIMIT * (rough + 2 * UNIT32 * pair.moved), rough / UNIT32 + pair.moved)


# How many times less accurate than the other side's a side's float32 may be. A kernel that sums 25,000 values naively
# (batch norm over channels-last tensors on the CPU, in either framework) reaches 13, TensorFloat-32 at least 390
# (measured). Above ACCURACY_NOTED the report says which side is the less accurate one.
ACCURACY_LIMIT = 64.0
# Right ports stand at 1.15 at most in the 650 states: what is above 4 is worth a line, and no verdict.
ACCURACY_NOTED = 4.0
# Relative, of activations. Branch flips make gradients, never activations, 1e-3 off in plain float32, and a side that
# sums naively flips where the other does not. Activations in TensorFloat-32 are 3e-4 off and more, after naive sums
# 4e-5 (measured).
FORWARD_LIMIT = 2.0**-13


# What the reference's towers race for: levels 1 and 2.


def racing_statistic(precision: str) -> Allowance:
    """A moving statistic against the nearest of what every order of the towers' reads and writes makes of it.

        float64: 64 * (2**-29 * 2 * e + 4 * u64 * dT) + 2 * u64 * T
        float32: 3 * (2 * e + 2 * u32 * dT) + 2 * u32 * T

    e (`rounding[0]`) is the distance of that order in float32 from the same in float64, counted for both sides.

    Args:
      precision: that the level decides in, "float64" or "float32".
    """

    def allowance(pair: MeasuredPair) -> Allowed:
        (rough,) = pair.rounding
        # Both sides ran the same order in float32, so that e stands for eT and for eP.
        scale = 2 * rough / UNIT32 + pair.moved
        if precision == "float64":
            limit = FUNCTION_LIMIT * (FLOAT32_TO_64 * 2 * rough + 4 * UNIT64 * pair.moved) + 2 * UNIT64 * pair.size
        else:
            limit = FLOAT32_LIMIT * (2 * rough + 2 * UNIT32 * pair.moved) + 2 * UNIT32 * pair.size
        return Allowed(limit, scale)

    return allowance


def racing_average(precision: str) -> Allowance:
    """A moving average, on each side, against what the old weights or the new ones of that side give, element by element.

        float64: 64 * 2 * u64 * dT + 2 * u64 * T
        float32: 3 * 2 * u32 * dT + 2 * u32 * T

    Args:
      precision: that the level decides in, "float64" or "float32".
    """
    # Without e, for an average is made of two numbers an element, and of no sum: its own roundings are all there is.
    limit, unit = (FUNCTION_LIMIT, UNIT64) if precision == "float64" else (FLOAT32_LIMIT, UNIT32)
    return lambda pair: Allowed(limit * 2 * unit * pair.moved + 2 * unit * pair.size, pair.moved)


# Level 3, `trajectory`: free float32 runs.


def trajectory(pair: MeasuredPair) -> Allowed:
    """Level 3: how far perturbed runs stray, as root mean squares; `difference` is the median over the candidate's runs.

        32 * max(sR, sP, u32 * T)

    sR and sP are of the reference's and of the candidate's perturbed runs, each from its own unperturbed one; the
    maximum is `rounding[0]`, see `spread_of`. The median tells what holds for the candidate from a lone branch flip
    (a ReLU or max pool that rounding switches), which reaches 400 in one run and is drawn anew in every other.

    32: right ports reach 7.06, gradients reduced in float16 stand at 569 and more (benchmarks/trajectory.py, seeds
    2026 and 2027 in docs/method.md).
    """
    (spread,) = pair.rounding
    return Allowed(TRAJECTORY_LIMIT * spread, spread)


# Level 4, `mixed`: the port at its level of mixed precision against its own float32.


def mixed(dtype: str, loss_scale: Callable[[MeasuredPair], float]) -> Allowance:
    """Level 4: what half precision is predicted to do here, measured on the port itself.

        4 * (H + 2 * u16 * dT + tiny) + 2 * u16 * w
        tiny = z * sqrt(n) / loss_scale

    T is the port in float32, H (`rounding[0]`) the largest distance of a run from it whose weights, inputs, products
    and their gradients were rounded to half at random. `tiny` is for values below the smallest normal number: z is
    half the spacing of the smallest ones, n the number of elements. w (`rounding[1]`) is the norm of the stored value
    where that is kept in half itself (O3), 0 elsewhere: updates below half an ulp are lost there by design.

    Args:
      dtype: "float16" or "bfloat16".
      loss_scale: returns what a tensor is multiplied by while it is in half precision, 1 where it is by nothing.
    """
    unit = UNIT16[dtype]

    def allowance(pair: MeasuredPair) -> Allowed:
        predicted, kept = pair.rounding
        # Each of n elements is off by z at most, so that their norm is off by z sqrt(n), in the units of the scaled
        # loss.
        tiny = TINIEST[dtype] * float(np.sqrt(pair.elements)) / loss_scale(pair)
        limit = MIXED_LIMIT * (predicted + 2 * unit * pair.moved + tiny) + 2 * unit * kept
        return Allowed(limit, limit / (MIXED_LIMIT * unit))

    return allowance


# Two bare traces, without float64 shadows: a tolerance that nobody measured.


def fixed(made: int, gradients: Mapping[str, float]) -> Allowance:
    """Two bare traces: a fixed part of the tensor's size, for each of the n steps made so far.

        n * (2**16 * u * S * k + stored)
        stored = 4 * u * T

    u is the unit roundoff of the tensor's dtype, S is ``|dT|``, but of gradients at least a thousandth of the norm of
    all gradients of the step, since one that is zero but for rounding has a norm of rounding. What an optimizer makes of
    such a gradient is allowed k times its size, the factor by which that gradient's own limit is raised: a momentum of
    roundings is rounding. k is 1 of all else. `stored` is allowed of updates alone.

    Args:
      made: steps so far, the one that is judged included.
      gradients: norms of the combined gradients of the step, by variable.
    """
    all_gradients = math.hypot(*gradients.values())

    def allowance(pair: MeasuredPair) -> Allowed:
        # Nobody resets these runs: each step made may add as much as the last one, so that the limit grows with n.
        scale, stored = pair.size, 0.0
        if pair.key.quantity in GRADIENTS:
            scale = max(pair.size, FAINT * all_gradients)
        elif pair.updated:
            scale, stored = pair.moved, 4 * pair.unit * pair.size
        own = gradients.get(pair.key.variable, 0.0) if pair.key.quantity in OPTIMIZED else 0.0
        raised = max(1.0, FAINT * all_gradients / own) if own else 1.0
        return Allowed(made * (FIXED_MARGIN * pair.unit * scale * raised + stored), scale)

    return allowance
