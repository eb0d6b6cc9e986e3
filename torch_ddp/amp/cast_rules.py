"""What a call of torch's functions is cast to, and the casts of weights that are kept for a step."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from torch_ddp.amp.cast_lists import BANNED, Rule
from torch_ddp.amp.errors import BannedFunctionError
from torch_ddp.amp.options import HALF_DTYPES

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Cast = Callable[[Tensor], Tensor]
SEQUENCES = (list, tuple)
NESTED = (Tensor, list, tuple)


# Torch reads their arguments in two thirds of the time that it takes for those of `to`, which has four signatures.
TO_HALF: dict[torch.dtype, Cast] = {torch.float16: Tensor.half, torch.bfloat16: Tensor.bfloat16}
# A weight, its version and address when it was cast, and its half copy. A tuple without names, as every product makes two.
_Copy = tuple[Tensor, int, int, Tensor]


class WeightCache:
    """Casts weights to the half dtype and keeps the copies until `clear`.

    One copy per iteration saves the casts and sums the gradients of all uses in half precision, as Apex does. A copy
    is made anew where the weight has been written to since, and where it was made without a graph (in evaluation)
    and is now needed with one.
    """

    def __init__(self, half: torch.dtype) -> None:
        self.half = half
        self._to_half = TO_HALF[half]
        # By id, with the weight kept in the entry: an id is given anew only once its tensor is gone.
        self._copies: dict[int, _Copy] = {}

    def clear(self) -> None:
        """Forgets every copy."""
        self._copies.clear()

    def cast(self, tensor: Tensor) -> Tensor:
        """Returns the tensor in the half dtype, from the cache where it is a float32 weight."""
        if tensor.dtype is self.half:
            return tensor
        # A compiled graph casts anew, and its compiler shares the casts.
        if torch.compiler.is_compiling():
            return tensor.to(self.half)
        copy = self._good_copy(tensor)
        return self._cast_anew(tensor) if copy is None else copy

    def _cast_anew(self, tensor: Tensor) -> Tensor:
        half = self._to_half(tensor)
        # A copy made in inference mode could not be saved for a backward pass later.
        if _is_weight(tensor) and not torch.is_inference_mode_enabled():
            self._copies[id(tensor)] = (tensor, tensor._version, tensor.data_ptr(), half)
        return half

    def cast_together(self, weights: Sequence[object]) -> None:
        """Casts weights that fill one storage into one storage, which `cast` then gives the parts of.

        cuDNN takes the weights of a recurrent layer in one piece, as `flatten_parameters` lays them; cast one by one, it
        copies them together again in every call, and warns of it.

        Args:
          weights: in any order; nothing is done unless they are float32 weights that fill one storage.
        """
        tensors = [weight for weight in weights if isinstance(weight, Tensor) and _is_weight(weight)]
        if not 1 < len(tensors) == len(weights) or torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
            return
        tensors.sort(key=Tensor.storage_offset)
        if not _fill_one_storage(tensors) or all(self._good_copy(tensor) is not None for tensor in tensors):
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).to(self.half)
        # One split: its backward pass joins the gradients once, where slices would each fill the whole.
        for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            self._copies[id(tensor)] = (tensor, tensor._version, tensor.data_ptr(), part.view(tensor.shape))

    def _good_copy(self, tensor: Tensor) -> Tensor | None:
        copy = self._copies.get(id(tensor))
        return copy[3] if copy is not None and _still_good(copy, tensor) else None

    def cast_all(self, args: tuple[Any, ...]) -> list[Any]:
        """Returns positional arguments in the half dtype, by the rule HALF; lists among them as `cast_arguments` does.

        One loop without calls, as this runs for every product: of a layer in a cold cache the calls alone cost as much as
        its casts.

        Args:
            args: of one call.
        """
        half, copies, cast = self.half, self._copies, []
        for arg in args:
            if isinstance(arg, Tensor):
                dtype = arg.dtype
                if dtype is torch.float32:
                    copy = copies.get(id(arg))
                    arg = copy[3] if copy is not None and _still_good(copy, arg) else self._cast_anew(arg)
                elif dtype is not half and dtype in HALF_DTYPES:
                    arg = arg.to(half)
            elif isinstance(arg, SEQUENCES):
                self.cast_together(arg)
                arg = _mapped(self._narrow, arg)
            cast.append(arg)
        return cast

    def _narrow(self, tensor: Tensor) -> Tensor:
        return tensor if tensor.dtype is torch.float64 else self.cast(tensor)


def _is_weight(tensor: Tensor) -> bool:
    return isinstance(tensor, Parameter) and tensor.dtype is torch.float32 and tensor.is_leaf


def _fill_one_storage(tensors: Sequence[Tensor]) -> bool:
    """Returns whether tensors, by their offsets, lie back to back from the beginning of one storage."""
    ends = accumulate(tensor.numel() for tensor in tensors)
    begins = [tensor.storage_offset() for tensor in tensors]
    return (
        begins == [0, *ends][: len(begins)]
        and len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1
        and all(tensor.is_contiguous() for tensor in tensors)
    )


def _still_good(copy: _Copy, tensor: Tensor) -> bool:
    _, version, address, half = copy
    # `tensor.data = other` changes the address and not the version, an optimizer's step the version and not the
    # address.
    if version != tensor._version or address != tensor.data_ptr():
        return False
    # Apex asks the graph for the weight instead, by next_functions[1][0], which torch 1.10 and newer answer with an
    # IndexError.
    return half.requires_grad or not (tensor.requires_grad and torch.is_grad_enabled())


def cast_arguments(rule: Rule, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], to_half: Cast) -> Arguments:
    """Returns the arguments as the rule wants them.

    A call that writes into `out` is left alone: the result would go into a cast copy of it.

    Args:
        rule: what to do.
        name: of the function, for messages.
        args: tensors may sit in lists and tuples of any depth.
        kwargs: likewise.
        to_half: casts one tensor to half precision.

    Raises:
        BannedFunctionError: the function refuses half precision, and an argument is in it.
    """
    if kwargs.get("out") is not None:
        return args, kwargs
    if rule is Rule.HALF or rule is Rule.FLOAT:
        return _cast_all(to_half if rule is Rule.HALF else _to_float, args, kwargs)
    if rule is Rule.WIDEST:
        return _widest(args, kwargs)
    if rule is Rule.LIKE_FIRST:
        return _like_first(args, kwargs)
    if _floating(args, kwargs).intersection(HALF_DTYPES):
        raise BannedFunctionError(_refusal(rule, name))
    return args, kwargs


def _add_floating(value: object, into: set[torch.dtype]) -> None:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            into.add(value.dtype)
    elif isinstance(value, SEQUENCES):
        for part in value:
            _add_floating(part, into)


def _floating(args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[torch.dtype]:
    found: set[torch.dtype] = set()
    for arg in args:
        _add_floating(arg, found)
    for arg in kwargs.values():
        _add_floating(arg, found)
    return found


def _refusal(rule: Rule, name: str) -> str:
    if rule is Rule.BANNED:
        return f"amp: expected float32 arguments of {name}, which is unsafe in half precision, got half. {BANNED[name]}"
    return (
        f"amp: expected a float32 tensor for {name}, which must run in float32 and cannot change the type of its tensor "
        f"in place, got half. Call {name.rstrip('_')}, or cast the tensor with .float() before."
    )


def _cast_all(cast: Cast, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    def narrow(tensor: Tensor) -> Tensor:
        # Apex has never known float64. Left alone, models in double stay in double, as under autocast.
        return tensor if tensor.dtype is torch.float64 else cast(tensor)

    # Tensors themselves here, without another call: there is no more frequent line under O1.
    mapped = [
        (narrow(arg) if arg.is_floating_point() else arg) if isinstance(arg, Tensor) else _mapped(narrow, arg)
        for arg in args
    ]
    return tuple(mapped), {key: _mapped(narrow, arg) for key, arg in kwargs.items()} if kwargs else kwargs


def _map_call(cast: Cast, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    return tuple([_mapped(cast, arg) for arg in args]), {key: _mapped(cast, arg) for key, arg in kwargs.items()}


def _mapped(cast: Cast, value: Any) -> Any:
    if isinstance(value, Tensor):
        return cast(value) if value.is_floating_point() else value
    if not isinstance(value, SEQUENCES):
        return value
    if isinstance(value, list):
        return [_mapped(cast, part) for part in value]
    # Tuples of numbers, sizes and strides, come most often, and are handed on as they are.
    if any(isinstance(part, NESTED) for part in value):
        parts = [_mapped(cast, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _to_float(tensor: Tensor) -> Tensor:
    return tensor.float()


def _widest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    dtypes = _floating(args, kwargs)
    # float16 and bfloat16 are promoted to float32, as by torch; Apex knows no bfloat16 and raises.
    if len(dtypes) < 2:
        return args, kwargs
    widest = reduce(torch.promote_types, dtypes)

    def promote(tensor: Tensor) -> Tensor:
        return tensor.to(widest)

    return _map_call(promote, args, kwargs)


def _like_first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    first = args[0] if args else None
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return args, kwargs
    # The result goes into the first argument, whose dtype cannot change: the others are cast to it, but for float64.
    rest, named = _cast_all(lambda tensor: tensor.to(first.dtype), args[1:], kwargs)
    return (first, *rest), named
