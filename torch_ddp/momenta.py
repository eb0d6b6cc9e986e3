"""Rounds the momenta of moving statistics to float32, in the way that the graph of a reference does."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

# A momentum below 1 is off by 2^-25 at most in float32, so that a share of it to move by, 1 - momentum, is off by
# 2^-25 / share: 2e-6 is that of a share of 0.015, and what 0.99 has (9.5e-7) lies below.
MOST_ROUNDED = 2e-6
# Smaller shares are off by more: 0.001 by 1.3e-5, slim's 0.0003 by 3.3e-5. There the ratio has to be that of a share of few
# digits, as closely as float64 runs tell it: a statistic near 1 that moves by 3e-4 of 0.1 is known to 2^-53 / 3e-5 = 4e-12.
MEASURED_TO = 1e-9


def round_momenta(model: nn.Module, ratios: Mapping[str, float] | None = None) -> None:
    """Rounds the momentum of every batch norm as TensorFlow's graph does, which subtracts it from 1.

    Fused batch norm does so in float32, 0.0099999905 for 0.99, which moves statistics by 1e-6 of their update farther or
    less far than torch's own 0.01; any other in Python, and rounds the difference, unless a tower keeps it in float64. A
    module of the port's own that holds moving statistics keeps its momentum somewhere: they are moved as far behind it.

    Args:
      model: changed in place.
      ratios: name of a moving statistic to how far the graph moves it, relative to the model: tells the one from the other.
        Where there is none it is taken for fused.
    """
    known = ratios or {}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if isinstance(module.momentum, float):
                own = module.momentum
                fused, unfused = float(np.float32(1.0) - np.float32(1.0 - own)), float(np.float32(own))
                names = (f"{prefix}running_mean", f"{prefix}running_var")
                ratio = next((known[name] for name in names if name in known), None)
                # `own` itself among the choices: a graph of float64 towers does not round at all.
                meant = fused if ratio is None else own * ratio
                module.momentum = min(fused, unfused, own, key=lambda momentum: abs(momentum - meant))
            continue
        held = {name: known.get(f"{prefix}{name}", 1.0) for name, _ in module.named_buffers(recurse=False)}
        nearest = {name: _rounding(ratio) for name, ratio in held.items() if ratio != 1.0}
        rounding = {name: ratio for name, ratio in nearest.items() if _is_rounding(held[name], ratio)}
        if rounding:
            _move_as_far(module, rounding)


def _rounding(ratio: float) -> float:
    """The ratio of a momentum of few digits, rounded as a graph does it, to itself: the one that was measured."""
    # 0.001 to 0.999, 0.0001 to 0.0999 and 0.00001 to 0.00999: momenta as people write them, of three digits.
    shares = np.concatenate([np.arange(1, 1000) / scale for scale in (1e3, 1e4, 1e5)])
    # float32 [2997]: over `shares`, in float64, their ratios to what was written.
    fused, unfused = np.float32(1.0) - np.float32(1.0 - shares), np.float32(shares)
    known = np.concatenate([fused / shares, unfused / shares])
    return float(known[np.abs(known - ratio).argmin()])


def _is_rounding(ratio: float, nearest: float) -> bool:
    return abs(ratio - 1.0) <= MOST_ROUNDED or abs(ratio - nearest) <= MEASURED_TO


def _move_as_far(module: nn.Module, ratios: Mapping[str, float]) -> None:
    """Has a module's own statistics move as far as the graph's: wherever it keeps the momentum, rounded it does so."""
    before: dict[str, Tensor] = {}

    def keep(called: nn.Module, inputs: object) -> None:
        before.update((name, called.get_buffer(name).clone()) for name in ratios)

    def scale(called: nn.Module, inputs: object, output: object) -> None:
        with torch.no_grad():
            for name, ratio in ratios.items():
                buffer = called.get_buffer(name)
                # after + (after - before) * (r - 1) = before + r * (after - before): r times as far.
                buffer += (buffer - before[name]) * (ratio - 1.0)

    module.register_forward_pre_hook(keep)
    module.register_forward_hook(scale)
