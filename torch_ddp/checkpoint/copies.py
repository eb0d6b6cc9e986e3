"""Copies of a training's state: of live tensors while it trains on, of a file's without holding both in memory."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor


def snapshot(state: Any) -> Any:
    """Returns a state whose tensors are copies on the CPU, which training on does not change.

    Args:
      state: tensors, numbers, strings, and containers of them.
    """
    return replaced(state, lambda tensor: tensor.detach().to("cpu", copy=True))


def own_copy(mapped: Callable[[], Any], most_bytes: int) -> Any:
    """Returns a state whose tensors are copies of a file's, with at most so much of the file in memory beside them.

    What is read of a mapped file stays in the memory of this process until nothing views it. So the tensors are copied some
    at a time, each time from a map of their own.

    Args:
      mapped: maps the file and returns the state, the same each time.
      most_bytes: size of the tensors that are copied from one map, but for one tensor that is larger.
    """
    copies: list[Tensor] = []
    while _copy_more(mapped(), copies, most_bytes):
        pass
    waiting = iter(copies)
    return replaced(mapped(), lambda tensor: next(waiting))


def _copy_more(state: Any, copies: list[Tensor], most_bytes: int) -> bool:
    # In a function of its own, for each view that outlives it would hold the whole map.
    size = 0
    for tensor in list(tensors_of(state))[len(copies) :]:
        if size and size + tensor.nbytes > most_bytes:
            return True
        copies.append(tensor.clone())
        size += tensor.nbytes
    return False


def tensors_of(state: Any) -> Iterator[Tensor]:
    """Yields the tensors of a state, in the order in which `replaced` comes to them."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from tensors_of(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from tensors_of(value)


def replaced(state: Any, by: Callable[[Tensor], Any]) -> Any:
    """Returns a state with other values in the place of its tensors.

    Args:
      state: tensors, numbers, strings, and containers of them; left as it is.
      by: gives a tensor's replacement.
    """
    if isinstance(state, Tensor):
        return by(state)
    if isinstance(state, dict):
        # Its own type: an OrderedDict with attributes is what a module's state_dict is.
        values = {key: replaced(value, by) for key, value in state.items()}
        return values if type(state) is dict else _like(state, values)
    if isinstance(state, list | tuple):
        items = [replaced(value, by) for value in state]
        return items if isinstance(state, list) else _tuple_like(state, items)
    return state


def _like(state: dict[Any, Any], values: dict[Any, Any]) -> dict[Any, Any]:
    same = state.copy()
    same.update(values)
    return same


def _tuple_like(state: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    return type(state)(*items) if hasattr(state, "_fields") else tuple(items)
