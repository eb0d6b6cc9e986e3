"""Runs a loss with some of its outputs given: what comes after them is computed from the given values."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from torch_ddp.errors import TorchDdpError

Place = tuple[int, int]  # the number of a call, and which part of what it returns


class _Recording(TorchFunctionMode):
    # Keeps what every call of a torch function returns, so that an output can be traced to the call that made it.
    def __init__(self) -> None:
        super().__init__()
        self.results: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # Calls are told by their number among those that make tensors: both passes have to count alike.
        if _makes_tensors(result):
            self.results.append(result)
        return result

    def place(self, output: Tensor) -> Place | None:
        for call, result in enumerate(self.results):
            for part, value in enumerate(_parts(result)):
                # By identity: two outputs may be equal numbers.
                if value is output:
                    return call, part
        return None


class _Replacing(TorchFunctionMode):
    # Puts given values in the place of what some calls return; gradients pass through, or end there.
    def __init__(self, given: Mapping[Place, Tensor], cut: bool) -> None:
        super().__init__()
        self._given = given
        self._cut = cut
        self._calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not _makes_tensors(result):
            return result
        call, self._calls = self._calls, self._calls + 1
        parts = [self._replaced((call, part), value) for part, value in enumerate(_parts(result))]
        return tuple(parts) if type(result) is tuple else parts[0]

    def _replaced(self, place: Place, value: Any) -> Any:
        if place not in self._given:
            return value
        # Multiplied by 0 rather than detached: DDP waits for the gradient of every parameter.
        own = value * 0.0 if self._cut else value - value.detach()
        return self._given[place] + own


def with_given_outputs(
    loss: Callable[..., Any], model: nn.Module, inputs: Mapping[str, Tensor], given: Mapping[str, Tensor], cut: bool
) -> Any:
    """Calls ``loss(model, **inputs)`` as if some of its outputs had the given values.

    A first call without gradients, whose effects on buffers and on the generator are undone, shows which torch function
    makes each output; the second has its result replaced. So what the port computes from an output is judged apart from how
    it came by it.

    Args:
      loss: returns a scalar and a dict of name to tensor.
      model: with buffers, or without.
      inputs: of the loss.
      given: name of an output to its value, of the same shape.
      cut: whether no gradient passes the given outputs (then it is zero, not missing, before them).

    Raises:
      TorchDdpError: an output does not exist, has another shape, or is made by no torch function.
    """
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    # The first pass draws as the second does, or dropout would give other outputs than were asked for.
    generator = torch.get_rng_state()
    with torch.no_grad(), _Recording() as recording:
        returned = loss(model, **inputs)
    outputs = returned[1] if isinstance(returned, tuple) else {}
    places = {_placed(recording, name, outputs.get(name), value): value for name, value in given.items()}
    torch.set_rng_state(generator)
    with torch.no_grad():
        for name, value in model.named_buffers():
            value.copy_(buffers[name])
    with _Replacing(places, cut):
        return loss(model, **inputs)


def _placed(recording: _Recording, name: str, output: Tensor | None, value: Tensor) -> Place:
    place = None if output is None or output.shape != value.shape else recording.place(output)
    if place is None:
        raise TorchDdpError(
            f"given: expected the loss to return an output {name!r} of shape {tuple(value.shape)}, made by a torch "
            "function, got none. Leave it out."
        )
    return place


def _makes_tensors(result: Any) -> bool:
    return isinstance(result, Tensor) or (type(result) is tuple and any(isinstance(part, Tensor) for part in result))


def _parts(result: Any) -> tuple[Any, ...]:
    return result if type(result) is tuple else (result,)
