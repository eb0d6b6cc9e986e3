"""Casts a model's weights, inputs and outputs; recurrent layers take half inputs beside float32 weights."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.options import HALF_DTYPES

CAST_ALIKE = {*HALF_DTYPES, torch.float32}


def checking_any_dtype(check_input: Callable[..., None], casting: Callable[[], bool]) -> Callable[..., None]:
    """Returns a `check_input` for `torch.nn.RNNBase` that lets inputs pass which differ from the weights in dtype.

    The layer compares both before it reaches the function whose arguments are cast. For the class, so that layers pass
    too which `initialize` was not given.

    Args:
        check_input: the one there is.
        casting: asked on the calling thread, whether casts are on.
    """

    @wraps(check_input)  # TorchScript reads the source of what is wrapped
    def check(layer: nn.RNNBase, input: Tensor, batch_sizes: Any) -> None:
        # A float32 layer may meet half inputs and the other way round: the call behind this check casts both
        # alike.
        weights: Any = layer._flat_weights
        dtypes = {input.dtype, weights[0].dtype}
        if len(dtypes) == 2 and dtypes <= CAST_ALIKE and casting():
            # Its shape is still checked.
            input = torch.empty(input.shape, dtype=weights[0].dtype, device="meta")
        check_input(layer, input, batch_sizes)

    return check


WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel)


def check_model(model: nn.Module, any_dtype: bool, hooks: bool) -> None:
    """Refuses what Apex refuses: wrapped models, and weights or buffers that are not float32; and what takes no hooks.

    Args:
        model: as the user gave it.
        any_dtype: lets other floating point dtypes pass.
        hooks: whether inputs or outputs will be cast around its calls.

    Raises:
        AmpError: the model is one of these.
    """
    if isinstance(model, WRAPPERS):
        raise AmpError(
            f"amp.initialize: expected a bare model, got {type(model).__name__}. "
            "Wrap what amp.initialize returns, not what goes in."
        )
    if hooks and isinstance(model, torch.jit.ScriptModule):
        raise AmpError(
            f"amp.initialize: expected a module that takes hooks, got {type(model).__name__}, which torch.jit made. "
            "Put it inside a torch.nn.Module that calls it, or use opt_level 'O1', which casts around functions outside it."
        )
    for name, tensor in [] if any_dtype else [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and tensor.dtype is not torch.float32:
            raise AmpError(
                f"amp.initialize: expected float32 weights and buffers, got {tensor.dtype} in {name!r}. "
                "Leave out .half(): the opt_level casts. For another dtype pass allow_incoming_model_not_fp32=True."
            )


def cast_weights(model: nn.Module, dtype: torch.dtype, keep_batchnorm_fp32: bool) -> None:
    """Casts floating point weights and buffers in place.

    Args:
        model: whose parameters stay the same objects.
        dtype: to cast to.
        keep_batchnorm_fp32: leaves batch norms with weights alone, and only them, as `convert_network` of Apex does.
    """
    for module in model.modules():
        # Without weights (affine=False) Apex casts them like any other layer, and instance, layer and group norms
        # always.
        if keep_batchnorm_fp32 and isinstance(module, _BatchNorm) and module.affine:
            continue
        # _apply changes .data, so that parameters stay the objects that optimizers hold; its gradients are cast with
        # them.
        module._apply(_to(dtype), recurse=False)  # type: ignore[no-untyped-call]


def _to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor


def cast_values(value: Any, dtype: torch.dtype) -> Any:
    """Returns a structure with its floating point tensors cast.

    Args:
        value: tensors in lists, tuples, named tuples, dicts, what else is registered as a pytree, and any other mapping
            or iterable, which becomes another of its type. Objects with a method `to`, such as packed sequences, are cast
            by it; the rest stays, iterators too, which can be read only once.
        dtype: to cast to.

    Raises:
        AmpError: a container holds tensors to be cast, and its type cannot be called with an iterable to make another.
    """
    # Apex rebuilds containers by type(value)(generator), which breaks named tuples; pytrees know how each is made.
    leaves, structure = tree_flatten(value, is_leaf=_casts_itself)
    cast = [_cast_leaf(leaf, dtype) for leaf in leaves]
    # The object itself where nothing is to be cast: not every container can be made anew.
    return value if _same(leaves, cast) else tree_unflatten(cast, structure)


def _same(items: Sequence[object], others: Sequence[object]) -> bool:
    return all(item is other for item, other in zip(items, others, strict=True))


def _casts_itself(value: object) -> bool:
    return not isinstance(value, torch.Tensor | nn.Module) and callable(getattr(value, "to", None))


def _cast_leaf(leaf: Any, dtype: torch.dtype) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.to(dtype) if leaf.is_floating_point() else leaf
    if _casts_itself(leaf):
        return leaf.to(dtype)
    if isinstance(leaf, Mapping):
        return _cast_mapping(leaf, dtype)
    # The order of `applier` in apex/amp/_initialize.py, 25.04, which leaves text and numpy's arrays alone.
    if isinstance(leaf, Iterable) and not isinstance(leaf, str | bytes | bytearray | np.ndarray | Iterator | nn.Module):
        return _cast_iterable(leaf, dtype)
    return leaf


def _cast_mapping(value: Mapping[Any, Any], dtype: torch.dtype) -> Any:
    keys, items = list(value.keys()), list(value.values())
    cast = [cast_values(item, dtype) for item in items]
    if _same(items, cast):
        return value
    if not isinstance(value, MutableMapping):
        return dict(zip(keys, cast, strict=True))
    # Apex makes a plain dict of it, and what reads `output.logits` fails. A copy may hold more than its items.
    other = copy.copy(value)
    for key, item in zip(keys, cast, strict=True):
        other[key] = item
    # An output whose items are attributes too, such as those of transformers.
    replaced = {id(item): new for item, new in zip(items, cast, strict=True)}
    for name, held in getattr(other, "__dict__", {}).items():
        if id(held) in replaced:
            vars(other)[name] = replaced[id(held)]
    return other


def _cast_iterable(value: Iterable[Any], dtype: torch.dtype) -> Any:
    items = list(value)
    cast = [cast_values(item, dtype) for item in items]
    if _same(items, cast):
        return value
    make: Any = type(value)
    try:
        return make(cast)
    except TypeError as error:
        raise AmpError(
            f"amp: expected a container of tensors whose type makes another from an iterable, got {make.__name__} "
            f"({error}). Pass or return a list, a tuple or a dict."
        ) from error


@dataclass(frozen=True)
class CastInputs:
    """A forward pre-hook that casts the arguments of a model."""

    dtype: torch.dtype

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Returns the cast arguments."""
        return cast_values(args, self.dtype), cast_values(kwargs, self.dtype)


@dataclass(frozen=True)
class CastOutputs:
    """A forward hook that casts what a model returns."""

    dtype: torch.dtype

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        """Returns the cast output."""
        return cast_values(output, self.dtype)


def save_in_float32(module: nn.Module, state_dict: dict[str, Any], prefix: str, metadata: object) -> None:
    """Casts the half entries of a model's state dict to float32: a state dict post-hook, as in Apex.

    Args:
        module: whose state it is.
        state_dict: changed in place.
        prefix: of the module's names; other entries stay.
        metadata: unused.
    """
    for name, value in state_dict.items():
        # Other modules' entries are in the same dictionary already, some of them half on purpose.
        if name.startswith(prefix) and isinstance(value, torch.Tensor) and value.dtype in HALF_DTYPES:
            state_dict[name] = value.float()


def cast_model(model: nn.Module, dtype: torch.dtype, keep_batchnorm_fp32: bool, outputs: torch.dtype | None) -> None:
    """Casts a model's weights and installs the hooks for its inputs, outputs and state dict.

    Args:
        model: changed in place.
        dtype: of weights and inputs.
        keep_batchnorm_fp32: see `cast_weights`.
        outputs: dtype of the outputs; None is float32.
    """
    cast_weights(model, dtype, keep_batchnorm_fp32)
    # Hooks, where Apex replaced `model.forward`: a replaced forward stays bound to the first model in its deep
    # copies. The one for outputs comes first, so that hooks of the user see what callers see.
    model.register_forward_pre_hook(CastInputs(dtype), with_kwargs=True)
    model.register_forward_hook(CastOutputs(outputs or torch.float32), prepend=True)
    model.register_state_dict_post_hook(save_in_float32)  # type: ignore[no-untyped-call]
