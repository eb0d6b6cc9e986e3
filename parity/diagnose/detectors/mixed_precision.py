"""Causes of what goes wrong in mixed precision: the port at its level against its own float32."""

from collections.abc import Callable
from math import isfinite, log2

import numpy as np

from parity.diagnose.agreement import fit
from parity.diagnose.catalogue import build_cause
from parity.diagnose.fitting import BITS
from parity.judge.levels.mixed import Halves, all_skipped
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace import LOSS_SCALE, SKIPPED, TensorFile
from parity.trace.arrays import Array

# bfloat16 has the exponents of float32: its largest number, 3.39e38, is 0.4% below float32's, which stands for it.
LARGEST = {"float16": 65504.0, "bfloat16": float(np.finfo(np.float32).max)}
# Of gradients in half precision, by one factor: u is 2^-11 in float16 and 2^-8 = 0.004 in bfloat16, and what ten such
# roundings leave of a small tensor is no more exact than this. A loss scale is a power of two, 8 and more.
RESIDUAL_IN_HALF = 0.05


def find_mixed_causes(first: FirstDifference | None, halves: Halves) -> list[Cause]:
    """Returns the causes that the numbers support, best first."""
    if first is None:
        return [found] if (found := _always_overflowing(halves)) else []
    found_ones = [hypothesis(first, halves) for hypothesis in HYPOTHESES_OF_HALF]
    return [cause for cause in found_ones if cause is not None]


def overflow(first: FirstDifference, halves: Halves) -> Cause | None:
    """A value of the forward pass is larger than the half type's largest number."""
    if first.quantity not in ("act", "loss", "metric"):
        return None
    got = halves.mixed.step(first.check.step).read(first.check.key)
    if np.isfinite(got).all():
        return None
    wanted = halves.full.step(first.check.step).read(first.check.key)
    largest = float(np.abs(wanted).max())
    limit = LARGEST[halves.dtype]
    # In float32 the same value may be below the limit: then what leads to it was above.
    size = (
        f"reaches {largest:.6g}, above"
        if largest > limit
        else f"reaches {largest:.6g} itself; what leads to it exceeds"
    )
    return build_cause(
        "overflow",
        "tensor",
        evidence=f"{int((~np.isfinite(got)).sum())} of {got.size} values are not finite at step "
        f"{first.check.step}; in float32 it "
        f"{size} {halves.dtype}'s largest number, {limit:.6g}",
        key=first.check.key,
        dtype=halves.dtype,
    )


def loss_scale_rule(first: FirstDifference, halves: Halves) -> Cause | None:
    """The loss scale moves otherwise than by Apex's rule, or a step is made that should be skipped."""
    if first.quantity != "state":
        return None
    return build_cause(
        "loss_scale_rule",
        evidence=f"{first.check.key} at step {first.check.step} of the "
        f"{'free run' if first.check.run == 'free' else 'lockstep'} is "
        f"{first.check.note}",
    )


def batch_norm_in_half(first: FirstDifference, halves: Halves) -> Cause | None:
    """Batch norm's moving statistics are kept in half precision, where small moves are lost."""
    values = _after(first, halves)
    # O3 keeps statistics in half on purpose. All values have to fit: by chance one of float32 fits float16 once in 2^13
    # and bfloat16 once in 2^16.
    if first.quantity != "stat" or values is None or halves.opt_level == "O3" or not _fits(values[1], halves.dtype):
        return None
    return build_cause(
        "batch_norm_in_half",
        evidence=f"all {values[1].size} values of {first.check.key} fit {halves.dtype} exactly after step "
        f"{first.check.step}, of the "
        f"float32 run's {_share_that_fits(values[0], halves.dtype):.0%}; it is {first.check.of_scale:.2g} of its scale off",
        dtype=halves.dtype,
        tensor=first.name,
    )


def master_weights(first: FirstDifference, halves: Halves) -> Cause | None:
    """The update goes to half weights, where what is smaller than half an ulp is lost, and not to float32 masters."""
    values = _after(first, halves)
    if first.quantity != "var" or values is None or halves.opt_level == "O3":
        return None
    before = halves.states.step(first.check.step).read(first.check.key)
    moved = values[0] != before
    if np.array_equal(values[1], before):
        text = f"{first.check.key} stays as it was to the bit at step {first.check.step}, float32 moves {moved.sum()} values"
    elif _fits(values[1], halves.dtype):
        lost = float(np.mean(values[1][moved] == before.astype(_numpy(halves.dtype)).astype(before.dtype)[moved]))
        text = (
            f"all {values[1].size} values of {first.check.key} fit {halves.dtype} exactly after step {first.check.step}; "
            f"{lost:.0%} of the values that float32 moves stay"
        )
    else:
        return None
    return build_cause("master_weights", evidence=text, dtype=halves.dtype)


def half_optimizer(first: FirstDifference, halves: Halves) -> Cause | None:
    """At O3 the optimizer's own state is half, too coarse for what it adds up."""
    if halves.opt_level != "O3" or first.quantity not in ("slot", "var"):
        return None
    return build_cause(
        "half_optimizer",
        evidence=f"gradients are as good as they should be at step {first.check.step}, {first.check.key} is "
        f"{first.check.multiple:.3g} times what storing it in {halves.dtype} explains: decays such as 0.999 and epsilons "
        f"such as 1e-8 have no {halves.dtype} near them",
        dtype=halves.dtype,
    )


def loss_scale_in_clipping(first: FirstDifference, halves: Halves) -> Cause | None:
    """The gradients are clipped while the loss scale is still in them."""
    if first.quantity not in ("clip", "slot", "var"):
        return None
    products, factors = [], []
    # Scaled gradients have s times the norm: clipped to the limit and unscaled they have limit / s, so that norm times
    # s is one number at all steps, whatever the scale is there.
    for step in halves.mixed.step_numbers:
        file = halves.mixed.step(step)
        found = _given(file)
        if found is None or LOSS_SCALE not in file or bool(file.read(SKIPPED)):
            continue
        factor, size = found
        factors.append(factor)
        products.append(size * float(file.read(LOSS_SCALE)))
    if len(products) < 2 or max(factors) > 0.1 or max(products) - min(products) > 0.01 * max(products):
        return None
    return build_cause(
        "loss_scale_in_clipping",
        evidence=f"what the optimizer is given has {factors[0]:.3g} times the norm of the combined gradient; "
        "times the loss scale "
        f"it is {products[0]:.6g} at all {len(products)} steps: the limit",
    )


def loss_scale_left(first: FirstDifference, halves: Halves) -> Cause | None:
    """The loss scale is still in the gradients."""
    if first.quantity not in ("tower_grad", "grad", "clip"):
        return None
    step = first.check.step
    full, mixed = halves.full.step(step), halves.mixed.step(step)
    names = [text for text in full.names(first.quantity) if text in mixed]
    pairs = [(full.read(text), mixed.read(text)) for text in names]
    if any(not np.isfinite(other).all() for _, other in pairs):
        return None
    found = fit([[one] for one, _ in pairs], [other for _, other in pairs])
    if found is None or found.residual > RESIDUAL_IN_HALF or abs(found.coefficients[0]) < 8:
        return None
    factor = found.coefficients[0]
    # Of a factor that is no power of two the nearest one is named: the digits that half precision leaves cannot say
    # more.
    power = round(log2(factor)) if factor > 0 else 0
    return build_cause(
        "loss_scale_left",
        evidence=f"the {first.quantity}s are {factor:.6g} times float32's at step {step}, to {found.residual:.1g}",
        scale=2.0**power,
    )


HYPOTHESES_OF_HALF: tuple[Callable[[FirstDifference, Halves], Cause | None], ...] = (
    overflow,
    loss_scale_rule,
    loss_scale_left,
    loss_scale_in_clipping,
    batch_norm_in_half,
    master_weights,
    half_optimizer,
)


def _always_overflowing(halves: Halves) -> Cause | None:
    if not all_skipped(halves.mixed):
        return None
    steps = list(halves.mixed.step_numbers)
    last = halves.mixed.step(steps[-1])
    scale = float(last.read(LOSS_SCALE)) if LOSS_SCALE in last else 1.0
    return build_cause(
        "overflow",
        "gradients",
        evidence=f"all {len(steps)} steps were skipped, the last one at a scale of {scale:g}, and every output is finite",
    )


def _given(file: TensorFile) -> tuple[float, float] | None:
    # What the optimizer is given over what was combined, and its global norm; None where it is no multiple of that.
    clipped = file.keys("clip")
    # A gradient that the optimizer was given and one that was combined: without clipping there is no such pair.
    pairs = [(file.read(key.of("grad")), file.read(key)) for key in clipped if key.of("grad") in file]
    if not pairs or not all(isfinite(norm(one)) and isfinite(norm(other)) for one, other in pairs):
        return None
    found = fit(
        [[np.asarray(one, np.float64)] for one, _ in pairs], [np.asarray(other, np.float64) for _, other in pairs]
    )
    if found is None or found.residual > RESIDUAL_IN_HALF:
        return None
    return found.coefficients[0], float(np.sqrt(sum(norm(other) ** 2 for _, other in pairs)))


def _after(first: FirstDifference, halves: Halves) -> tuple[Array, Array] | None:
    if first.check.run != "lockstep":
        return None
    step, key = first.check.step, first.check.key
    one, other = halves.full.step(step), halves.mixed.step(step)
    return (one.read(key), other.read(key)) if key in one and key in other else None


def _numpy(dtype: str) -> type:
    # numpy has no bfloat16: nothing rounds to it, and a value that float32 moves counts as lost where it stays.
    return np.float16 if dtype == "float16" else np.float32


def _fits(values: Array, dtype: str) -> bool:
    return bool(values.any()) and _share_that_fits(values, dtype) == 1.0


def _share_that_fits(values: Array, dtype: str) -> float:
    # Mantissa times 2^bits is whole where `bits` bits of the leading one hold it: powers of two of any size do.
    fraction, _ = np.frexp(np.asarray(values, np.float64))
    scaled = fraction * 2.0 ** BITS[dtype]
    return float(np.mean(scaled == np.round(scaled)))
