"""The call with which amp begins."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from torch_ddp.amp.checkpoint import follow_loaded_weights
from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import MAXIMUM_SCALE, LossScaler
from torch_ddp.amp.model import CastOutputs, cast_model, check_model
from torch_ddp.amp.native import GradScalerAsLossScaler, autocast_model, device_type_of
from torch_ddp.amp.optimizer import check_fresh, patch_optimizer
from torch_ddp.amp.options import Properties, level, overridden
from torch_ddp.amp.session import Casts, Session, begin, join_threads


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | bool | None = None,
    patch_torch_functions: bool | str | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | str | None = None,
    loss_scale: float | str | None = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = MAXIMUM_SCALE,
    *,
    half_dtype: torch.dtype = torch.float16,
    precision: str = "apex",
    allow_banned: bool = False,
    allow_incoming_model_not_fp32: bool = False,
) -> Any:
    """Prepares models and optimizers for mixed precision, in place, with the arguments and rules of Apex.

    The session it begins replaces the one before, with its scalers and casts. Call it once, before
    DistributedDataParallel wraps a model. Where a script calls it twice, for two models, the first optimizer trains along
    from its next `scale_loss`.

    Args:
        models: a module, or a list or tuple of modules, with float32 weights.
        optimizers: an optimizer, or a list or tuple of optimizers, or None.
        enabled: False makes this and all other calls of amp do nothing.
        opt_level: "O0", "O1", "O2" or "O3"; see `Properties`.
        cast_model_type: overrides the level's dtype of weights and inputs; False leaves the model alone.
        patch_torch_functions: overrides whether torch functions cast; True only with O1.
        keep_batchnorm_fp32: overrides whether batch norm stays float32; not with O1.
        master_weights: overrides whether the optimizer steps float32 masters; not with O1.
        loss_scale: overrides the loss scale: "dynamic" or a number above 0.
        cast_model_outputs: dtype of the models' outputs; None is float32 where models are cast, else as they come.
        num_losses: how many losses have a scaler of their own.
        verbosity: 0 is silent, 1 prints the level and every overflow.
        min_loss_scale: floor of dynamic scales; None is none.
        max_loss_scale: cap of dynamic scales.
        half_dtype: torch.float16 or torch.bfloat16.
        precision: "apex" for Apex's cast lists and loss scaling; "native" for `torch.autocast` within the models'
            calls and `torch.amp.GradScaler`, with O0 and O1 only.
        allow_banned: runs functions that O1 bans in float32.
        allow_incoming_model_not_fp32: accepts weights of other dtypes.

    Returns:
        The models, or models and optimizers, in the form given.

    Raises:
        AmpError: an argument is refused; the message says what to pass.
    """
    several_models = _listed(models, _is_model, "models", "Module")
    several_optimizers = [] if optimizers is None else _listed(optimizers, _is_optimizer, "optimizers", "Optimizer")
    given = models if optimizers is None else (models, optimizers)
    properties = overridden(
        level(opt_level, half_dtype),
        {
            "cast_model_type": cast_model_type,
            "patch_torch_functions": patch_torch_functions,
            "keep_batchnorm_fp32": keep_batchnorm_fp32,
            "master_weights": master_weights,
            "loss_scale": loss_scale,
        },
    )
    # Its refusals come first: they concern arguments alone.
    native = _native(precision, properties, min_loss_scale, max_loss_scale)
    if not enabled:
        begin(Session(properties, [], enabled=False))
        return given
    # Everything is checked before anything is changed: a refused call leaves models and optimizers as they were.
    hooks = bool(properties.cast_model_type) or cast_model_outputs is not None or native
    _check(several_models, several_optimizers, num_losses, allow_incoming_model_not_fp32, hooks)
    limits = (min_loss_scale, max_loss_scale)
    scalers = [_scaler(properties, native, several_models, *limits) for _ in range(num_losses)]
    casts = Casts(properties.half_dtype, allow_banned) if properties.patch_torch_functions and not native else None
    for model in several_models:
        _prepare_model(model, properties, cast_model_outputs, native)
    for optimizer in several_optimizers:
        _prepare_optimizer(optimizer, properties)
    # Last, when nothing can fail any more: the session before goes on until then.
    begin(Session(properties, scalers, casts=casts, optimizers=several_optimizers, verbosity=verbosity))
    if verbosity:
        print(f"amp: {_described(properties, precision)}")
    return given


def _check(models: list[nn.Module], optimizers: list[Any], num_losses: int, any_dtype: bool, hooks: bool) -> None:
    if num_losses < 1:
        raise AmpError(f"amp.initialize: expected num_losses to be at least 1, got {num_losses}. Count the losses.")
    for model in models:
        check_model(model, any_dtype, hooks)
    for optimizer in optimizers:
        check_fresh(optimizer)


def _scaler(
    properties: Properties, native: bool, models: list[nn.Module], minimum: float | None, maximum: float
) -> LossScaler:
    if native and properties.loss_scale == "dynamic":
        return GradScalerAsLossScaler(device_type_of(models[0]) if models else "cpu")
    return LossScaler(properties.loss_scale, minimum, maximum)


def _listed(given: Any, accepted: Callable[[Any], bool], name: str, kind: str) -> list[Any]:
    several: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    for one in several:
        if not accepted(one):
            raise AmpError(
                f"amp.initialize: expected {name} to be one torch {kind} or a list of them, got {type(one).__name__}. "
                "Pass the objects themselves."
            )
    return list(several)


def _is_model(one: Any) -> bool:
    return isinstance(one, nn.Module)


def _is_optimizer(one: Any) -> bool:
    # Wrappers such as LARC need not be subclasses.
    needed = ("param_groups", "state", "step", "zero_grad", "state_dict", "load_state_dict")
    return not isinstance(one, type) and all(hasattr(one, name) for name in needed)


def _native(precision: str, properties: Properties, minimum: float | None, maximum: float) -> bool:
    if precision not in ("apex", "native"):
        raise AmpError(f"amp.initialize: expected precision 'apex' or 'native', got {precision!r}. Choose one.")
    if precision == "apex":
        return False
    if properties.opt_level not in ("O0", "O1"):
        raise AmpError(
            f"amp.initialize: expected O0 or O1 with precision='native', got {properties.opt_level}. "
            "torch has no master weights; use precision='apex'."
        )
    if minimum is not None or maximum != MAXIMUM_SCALE:
        raise AmpError(
            f"amp.initialize: expected no min_loss_scale or max_loss_scale with precision='native', got {minimum} and "
            f"{maximum}. GradScaler has neither; use precision='apex'."
        )
    return True


def _prepare_model(model: nn.Module, properties: Properties, outputs: torch.dtype | None, native: bool) -> None:
    if properties.cast_model_type:
        cast_model(model, properties.cast_model_type, bool(properties.keep_batchnorm_fp32), outputs)
        model.register_load_state_dict_post_hook(follow_loaded_weights)  # type: ignore[no-untyped-call]
    # At O1 models return whatever their last function gives; with autocast the outputs are cast by its own hook.
    elif outputs is not None and not native:
        model.register_forward_hook(CastOutputs(outputs), prepend=True)
    if properties.patch_torch_functions and native:
        autocast_model(model, properties.half_dtype, outputs)
    # A scripted module takes no hooks, and runs on threads that were there before without casts, as it does inside.
    elif properties.patch_torch_functions and not isinstance(model, torch.jit.ScriptModule):
        join_threads(model)


def _prepare_optimizer(optimizer: torch.optim.Optimizer, properties: Properties) -> None:
    if properties.cast_model_type and not properties.master_weights:
        # Without masters the weights are half, and so must momentum be that was there before; Apex does it by the
        # same call.
        optimizer.load_state_dict(optimizer.state_dict())  # casts the state to the dtype of the weights
    patch_optimizer(optimizer, bool(properties.master_weights))


def _described(properties: Properties, precision: str) -> str:
    values = ", ".join(f"{name}={value}" for name, value in vars(properties).items())
    return f"{values}, precision={precision}"
