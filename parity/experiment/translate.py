"""Carries what a port has learnt back into the names and layouts of the TensorFlow graph that it came from."""

from collections.abc import Iterable
from collections.abc import Mapping as Map
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.mapping import Mapping, MappingError
from parity.mapping.trace_map import Join
from parity.trace import (
    EXECUTION_RANK,
    STATE,
    TensorFile,
    Trace,
    TraceError,
    TraceWriter,
    parse_key,
    quantity_of,
    state_after,
    trace_name,
)
from parity.trace.arrays import Array


class Translated(NamedTuple):
    """A state in the reference's names and layouts.

    Fields:
      state: dict of trace name to array.
      missing: the reference's names that the candidate has nothing for: slots, averages and counters.
    """

    state: dict[str, Array]
    missing: list[str]


def translate(
    reference: Trace, candidate: Trace, mapping: Mapping, weights: Path | None = None, step: int | None = None
) -> Translated:
    """Returns what the candidate holds after its last step, or another, as the reference would hold it.

    Args:
      reference: a trace of the TensorFlow side; its initial state says what there is.
      candidate: a trace of the port.
      mapping: joins the variables of the two.
      weights: a safetensors file to take the state from in place of the candidate's last step: a ``state_dict``, or tensors
        under the names of a trace ("var/conv.weight", "state/global_step").
      step: the candidate's step, by default the last one.

    Raises:
      MappingError: a weight or statistic is missing, left over, or has another shape.
      TraceError: the file is no safetensors file, or there is no such step.
    """
    state = of_file(weights, candidate) if weights else state_after(candidate, step)
    join, held = Join(mapping, {}, candidate.facts.get("slots") or []), _Held(state)
    moved: dict[str, Array] = {}
    missing = []
    for key, text in join.ordered(_of_state(reference)):
        value = join.read(key, held)
        if value is not None:
            moved[text] = value
        # Without these the graph computes something else; slots and counters begin anew if they have to.
        elif key.quantity in ("var", "stat"):
            raise MappingError(
                f"translate: expected {', '.join(join.candidates(key))} for {text}, got no such tensor. "
                "Give weights of the whole model."
            )
        else:
            missing.append(text)
    return Translated(moved, missing)


def write_translated(out: Path, reference: Trace, state: Map[str, Array]) -> None:
    """Leaves a trace without steps whose initial state is `state`, with the reference's description of its variables."""
    writer = TraceWriter(out, {"package": "parity"}, {"of": reference.facts.get("side", "")}, reference.variables)
    writer.init(dict(state))
    writer.close()


def of_file(path: Path, candidate: Trace) -> dict[str, Array]:
    """Reads a state of the candidate from a safetensors file; a ``state_dict``'s names get their quantities.

    Args:
      path: the file. DistributedDataParallel's prefix "module." and `num_batches_tracked` are left out.
      candidate: a trace of the same port; its variables say what each name is.

    Raises:
      MappingError: a name is none of the candidate's variables, one of them is missing, or a shape differs.
      TraceError: it is no safetensors file.
    """
    try:
        file = TensorFile(path)
    except TraceError as error:
        raise TraceError(f"{error} A state_dict is written so by safetensors.torch.save_file.") from error
    # A count of batches that torch keeps beside its statistics, and TensorFlow has nothing like.
    found = {name: name for name in file.names() if name.split(".")[-1] != "num_batches_tracked"}
    # Either a trace's names or a state_dict's: a file of both kinds is read as the second.
    if not all(quantity_of(name) in EXECUTION_RANK for name in found):
        found = _with_quantities(found, path, candidate)
    state = {text: np.array(file.read(name)) for text, name in found.items()}
    for text, value in state.items():
        key = parse_key(text)
        wanted = candidate.variables.get(key.name, {}).get("shape")
        if key.quantity in ("var", "stat") and wanted is not None and list(value.shape) != wanted:
            raise MappingError(
                f"translate: expected {key.name} with shape {wanted}, got {list(value.shape)} in {path}. "
                "Give weights of this port."
            )
    return state


def _with_quantities(names: Iterable[str], path: Path, candidate: Trace) -> dict[str, str]:
    """Returns dict of trace name to the file's name."""
    plain = [name for name in names if not _is_counter(name)]
    # DistributedDataParallel puts it in front of all names or of none.
    prefix = "module." if all(name.startswith("module.") for name in plain) else ""
    unknown = [name for name in plain if name.removeprefix(prefix) not in candidate.variables]
    if unknown:
        raise MappingError(
            f"translate: expected the weights of {candidate.directory} in {path}, got also {', '.join(unknown)}. "
            "Save the state_dict of the port itself."
        )
    kinds = {name: "var" if entry["kind"] == "weight" else "stat" for name, entry in candidate.variables.items()}
    found = {trace_name(kinds[own], own): name for own, name in ((name.removeprefix(prefix), name) for name in plain)}
    return {**found, **{name: name for name in names if _is_counter(name)}}


def _is_counter(name: str) -> bool:
    # A file of weights may hold them too, e.g. state/global_step.
    return "/" in name and quantity_of(name) == "state"


def _of_state(reference: Trace) -> list[str]:
    return reference.init().names(*STATE)


class _Held(dict[str, Array]):
    """Lets `Join` read arrays as it reads a file of them."""

    def read(self, name: str) -> Array:
        """Returns one array."""
        return self[name]
