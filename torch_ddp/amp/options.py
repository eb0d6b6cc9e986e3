"""Optimization levels O0 to O3, their options, and which overrides are refused."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from torch_ddp.amp.errors import AmpError

HALF_DTYPES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Properties:
    """Holds the options of one level, after the overrides; the names are those of `apex/amp/frontend.py`.

    Attributes:
        opt_level: "O0" to "O3".
        cast_model_type: dtype of weights and inputs; None or False leaves them alone.
        patch_torch_functions: whether torch functions cast their arguments by the cast lists.
        keep_batchnorm_fp32: whether batch norm stays float32 when the model is cast.
        master_weights: whether the optimizer steps float32 copies of half weights.
        loss_scale: "dynamic", or a static scale above 0.
        half_dtype: torch.float16 or torch.bfloat16.
    """

    opt_level: str
    cast_model_type: torch.dtype | Literal[False] | None
    patch_torch_functions: bool
    keep_batchnorm_fp32: bool | None
    master_weights: bool | None
    loss_scale: float | str
    half_dtype: torch.dtype = torch.float16


def level(opt_level: str, half_dtype: torch.dtype = torch.float16) -> Properties:
    """Returns the options of a level before any override.

    Where Apex scales dynamically, bfloat16 keeps a scale of 1: its exponents are those of float32.

    Args:
        opt_level: "O0" (float32), "O1" (casts around functions), "O2" (half model, float32 master weights) or
            "O3" (half throughout).
        half_dtype: torch.float16 or torch.bfloat16.

    Raises:
        AmpError: the level or the dtype is unknown.
    """
    if half_dtype not in HALF_DTYPES:
        raise AmpError(
            f"amp.initialize: expected half_dtype torch.float16 or torch.bfloat16, got {half_dtype}. Choose one."
        )
    # float16 holds down to 6e-8 (2^-24), float32 and bfloat16 down to 1e-38: what is scaled against is the range, not
    # the digits.
    scaled: float | str = "dynamic" if half_dtype is torch.float16 else 1.0
    levels = {
        # The table of apex/amp/frontend.py, 25.04, lines 104 to 190, with half_dtype where it says float16.
        "O0": Properties("O0", torch.float32, False, None, False, 1.0, half_dtype),
        "O1": Properties("O1", None, True, None, None, scaled, half_dtype),
        "O2": Properties("O2", half_dtype, False, True, True, scaled, half_dtype),
        # No batch norm in float32 and no scale by default: what Apex calls the speed of light, not a way to train.
        "O3": Properties("O3", half_dtype, False, False, False, 1.0, half_dtype),
    }
    if opt_level not in levels:
        raise AmpError(
            f"amp.initialize: expected opt_level 'O0', 'O1', 'O2' or 'O3', got {opt_level!r}. "
            "Write the letter O, not the number zero."
        )
    return levels[opt_level]


def overridden(properties: Properties, overrides: dict[str, Any]) -> Properties:
    """Returns the options with every override that is not None, by Apex's rules.

    A half dtype as `cast_model_type` also becomes the half dtype of the level, with its default loss scale.

    Args:
        properties: the level's own.
        overrides: by name; strings as a command line gives them ("True", "128.0") are understood where Apex does.

    Raises:
        AmpError: an override contradicts the level, or is not of its type.
    """
    parse: dict[str, Callable[[str, object], Any]] = {
        "cast_model_type": _cast_model_type,
        "patch_torch_functions": _patch_torch_functions,
        "keep_batchnorm_fp32": _keep_batchnorm_fp32,
        "master_weights": _master_weights,
        "loss_scale": _loss_scale,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    parsed: dict[str, Any] = {name: parse[name](properties.opt_level, value) for name, value in given.items()}
    wanted = parsed.get("cast_model_type")
    # From the level anew, as its default scale depends on the dtype: bfloat16 needs none.
    if wanted in HALF_DTYPES and wanted is not properties.half_dtype:
        properties = level(properties.opt_level, wanted)
    return replace(properties, **parsed)


def _refuse(name: str, expected: str, got: object, do: str) -> AmpError:
    return AmpError(f"amp.initialize: expected {expected}, got {name}={got}. {do}")


def _cast_model_type(opt_level: str, value: object) -> object:
    if value is False:
        return value
    if not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise _refuse("cast_model_type", "a floating point dtype, None or False", repr(value), "Pass torch.float16.")
    if opt_level == "O1" and value is not torch.float32:
        raise _refuse(
            "cast_model_type",
            "float32 weights with O1, which casts around functions",
            value,
            "Use opt_level 'O2' or 'O3' to cast the model.",
        )
    return value


def _patch_torch_functions(opt_level: str, value: object) -> bool:
    flag = _flag("patch_torch_functions", value)
    if flag and opt_level != "O1":
        raise _refuse(
            "patch_torch_functions", f"False with {opt_level}", value, "Use opt_level 'O1' to cast around functions."
        )
    return flag


def _keep_batchnorm_fp32(opt_level: str, value: object) -> bool:
    if opt_level == "O1":
        raise _refuse(
            "keep_batchnorm_fp32",
            "None with O1, where batch norm stays float32 by itself",
            value,
            "Leave it out.",
        )
    return _flag("keep_batchnorm_fp32", value)


def _master_weights(opt_level: str, value: object) -> bool:
    if opt_level == "O1":
        raise _refuse(
            "master_weights", "None with O1, whose weights are float32 already", value, "Leave it out, or use O2."
        )
    return _flag("master_weights", value)


def _flag(name: str, value: object) -> bool:
    # Strings too: Apex takes them, as scripts hand their command line over unparsed.
    flags: dict[object, bool] = {True: True, False: False, "True": True, "False": False}
    if not isinstance(value, bool | str) or value not in flags:
        raise _refuse(name, "True, False, 'True', 'False' or None", repr(value), "Pass one of them.")
    return flags[value]


def _loss_scale(opt_level: str, value: object) -> float | str:
    if value == "dynamic":
        return "dynamic"
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise _refuse("loss_scale", "'dynamic' or a number", repr(value), "Pass 'dynamic' or 128.0.") from error
