"""Runs a case's `batches` in a process of its own and writes them down for both sides."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from parity.trace import TraceWriter, batch_name
from parity.worker.protocol import SideError, claim_standard_streams, serve
from parity.worker.user_code import UserCode, call_as


class Data:
    """Serves "batches": writes a trace whose steps hold ``feed/<input>`` arrays of the whole batch."""

    def __init__(self) -> None:
        self._code = UserCode()

    def batches(self, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        """Writes `steps` batches of `batch_size` to `out`; returns name to ``[dtype, shape]``.

        Where `ragged` is true a batch may be smaller, and the first axis of the shapes is then null.

        Raises:
          SideError: too few batches, or one of another size, name, dtype or shape than the first.
        """
        self._code.enter(arguments["folders"])
        function = self._code.load(arguments["batches"])
        steps, size, ragged = arguments["steps"], arguments["batch_size"], arguments.get("ragged", False)
        writer = TraceWriter(arguments["out"], {"package": "parity"})
        writer.init({})
        inputs: dict[str, Any] = {}
        done = 0
        for batch in _yielded(arguments["batches"], function, steps, size, arguments["seed"]):
            own_size = _size(batch, size) if ragged else size
            arrays = {name: _checked(arguments["batches"], name, value, own_size) for name, value in batch.items()}
            first = None if ragged else size
            found = {name: [str(value.dtype), [first, *value.shape[1:]]] for name, value in arrays.items()}
            inputs = (
                inputs or found
            )  # every batch has to be like the first: graphs and buffers are built for its shapes
            if found != inputs:
                raise SideError(f"{arguments['batches']}: expected every batch like the first, {inputs}, got {found}.")
            writer.step(done, {batch_name(name): value for name, value in arrays.items()})
            done += 1
            progress(done, steps)
            if done == steps:  # asked for no further batch: a generator may go on for ever, or raise at its end
                break
        if done < steps:
            raise SideError(
                f"{arguments['batches']}: expected {steps} batches, got {done}. Yield more, or lower 'steps' in the case."
            )
        writer.close()
        return inputs


def _yielded(
    source: str, function: Callable[..., Any], steps: int, size: int, seed: int
) -> Iterator[Mapping[str, Any]]:
    batches = call_as("batches(steps, batch_size, seed)", function, [steps, size, seed])
    if isinstance(batches, Mapping) or not isinstance(batches, Iterable):
        raise SideError(
            f"{source}: expected a batch for each step, got one {type(batches).__name__}. Yield the batches in a loop."
        )
    for batch in batches:
        if not isinstance(batch, Mapping):
            raise SideError(
                f"{source}: expected batches that are dicts of input name to array, got {type(batch).__name__}. "
                'Yield {"x": x, "y": y}.'
            )
        yield batch


def _size(batch: Mapping[str, Any], largest: int) -> int:
    shape = np.shape(next(iter(batch.values()), ()))
    return int(shape[0]) if shape and 0 < shape[0] < largest else largest


def _checked(source: str, name: str, value: Any, size: int) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    if array.ndim == 0 or array.shape[0] != size:
        raise SideError(
            f"{source}: expected {size} examples along the first axis of {name!r}, got shape {array.shape}. "
            "Yield whole batches, and drop the last one where it is smaller."
        )
    return array


def main() -> None:
    """Serves requests on the standard streams until they end."""
    serve(claim_standard_streams(), {"batches": Data().batches})


if __name__ == "__main__":
    main()
