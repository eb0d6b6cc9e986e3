"""Rounds the momenta of moving statistics to float32, in the way that the graph of a reference does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

# A momentum below 1 is off by 2^-25 at most in float32, so that a share of it to move by, 1 - momentum, is off by
# 2^-25 / share: 2e-6 is that of a share of 0.015, and what 0.99 has (9.5e-7) lies below.
MOST_ROUNDED = 2e-6
# Smaller shares are off by more: 0.001 by 1.3e-5, slim's 0.0003 by 3.3e-5. There the ratio has to be that of a share of few
# digits, as closely as float64 runs tell it: a statistic near 1 that moves by 3e-4 of 0.1 is known to 2^-53 / 3e-5 = 4e-12.
MEASURED_TO = 1e-9
# What is kept and what is taken add up to 1 but for 2^-25 of the one and 2^-26 of the other: a larger drift is no rounding.
MOST_DRIFT = 2.0**-25 + 2.0**-26


class Moved(NamedTuple):
    """How a graph moves a statistic, beside a share that is not rounded.

    Fields:
      ratio: of what it takes of a new value, to that share.
      drift: what it keeps and what it takes, less 1: a graph that keeps the rest of what it takes has 0.
    """

    ratio: float
    drift: float


NOT_ROUNDED = Moved(1.0, 0.0)


def round_momenta(model: nn.Module, moved: Mapping[str, Sequence[float]] | None = None) -> None:
    """Rounds the momentum of every batch norm as TensorFlow's graph does.

    Fused batch norm subtracts it from 1 in float32, 0.0099999905 for 0.99, which moves statistics by 1e-6 of their update
    farther or less far than torch's own 0.01; any other in Python, and rounds the difference, unless a tower keeps it in
    float64. Where a script writes ``old * m + new * (1 - m)``, both constants are rounded, and what is kept is not the
    rest of what is taken. A module of the port's own that holds moving statistics keeps its momentum somewhere: they are
    moved as far behind it.

    Args:
      model: changed in place.
      moved: name of a moving statistic to how the graph moves it, relative to the model, ratio and drift: they tell the
        ways from each other. Where there is none it is taken for fused.
    """
    known = {name: Moved(*pair) for name, pair in (moved or {}).items()}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        held = {
            name: known[f"{prefix}{name}"]
            for name, _ in module.named_buffers(recurse=False)
            if f"{prefix}{name}" in known
        }
        rounded = {name: _as_rounded(found) for name, found in held.items()}
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if isinstance(module.momentum, float):
                _round_own(module, next(iter(held.values()), None))
            rounded = {name: Moved(1.0, found.drift) for name, found in rounded.items()}
        rounded = {name: found for name, found in rounded.items() if found != NOT_ROUNDED}
        if rounded:
            _move_as_far(module, rounded)


def _round_own(module: nn.modules.batchnorm._BatchNorm, found: Moved | None) -> None:
    own = float(module.momentum or 0.0)
    fused, unfused = float(np.float32(1.0) - np.float32(1.0 - own)), float(np.float32(own))
    meant = fused if found is None else own * found.ratio
    # `own` itself among the choices: a graph of float64 towers does not round at all.
    module.momentum = min(fused, unfused, own, key=lambda momentum: abs(momentum - meant))


def _as_rounded(found: Moved) -> Moved:
    """What a graph makes of a momentum of few digits by rounding it, where that was measured; else `NOT_ROUNDED`."""
    if found == NOT_ROUNDED or abs(found.drift) > MOST_DRIFT:
        return NOT_ROUNDED
    # 0.001 to 0.999, 0.0001 to 0.0999 and 0.00001 to 0.00999: momenta as people write them, of three digits.
    shares = np.concatenate([np.arange(1, 1000) / scale for scale in (1e3, 1e4, 1e5)])
    # float32 [2997] each, what is taken in two ways and what is kept in one; the rest in float64.
    fused, unfused, kept = np.float32(1.0) - np.float32(1.0 - shares), np.float32(shares), np.float32(1.0 - shares)
    drift = kept.astype(np.float64) + unfused.astype(np.float64) - 1.0
    ratios = np.concatenate([fused / shares, unfused / shares, unfused / shares])
    drifts = np.concatenate([np.zeros(2 * len(shares)), drift])
    nearest = int((np.abs(ratios - found.ratio) + np.abs(drifts - found.drift)).argmin())
    known = Moved(float(ratios[nearest]), float(drifts[nearest]))
    measured = abs(known.ratio - found.ratio) <= MEASURED_TO and abs(known.drift - found.drift) <= MEASURED_TO
    return known if measured or abs(found.ratio - 1.0) <= MOST_ROUNDED else NOT_ROUNDED


def _move_as_far(module: nn.Module, moved: Mapping[str, Moved]) -> None:
    """Has a module's own statistics move as the graph's: wherever it keeps the momentum, rounded it does so."""
    before: dict[str, Tensor] = {}

    def keep(called: nn.Module, inputs: object) -> None:
        before.update((name, called.get_buffer(name).clone()) for name in moved)

    def move(called: nn.Module, inputs: object, output: object) -> None:
        with torch.no_grad():
            for name, (ratio, drift) in moved.items():
                buffer, start = called.get_buffer(name), before[name]
                # after + (after - before) * (r - 1) = before + r * (after - before): r times as far.
                buffer += (buffer - start) * (ratio - 1.0) + start * drift

    module.register_forward_pre_hook(keep)
    module.register_forward_hook(move)
