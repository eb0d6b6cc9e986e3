"""Feeds a recorded trace to a PyTorch port under DistributedDataParallel, in lockstep, and compares."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parity.case import load_mapping
from parity.judge.join import Join
from parity.judge.numbers import Array
from parity.judge.renaming import Renaming
from parity.judge.result import Result
from parity.mapping import build_mapping, variables_of
from parity.run.compare import compare_traces
from parity.run.states import Tensors, read_all, states_before, translated, translated_batch, write_init, write_states
from parity.sides import launch_torch
from parity.trace import Key, TensorFile, Trace, TraceWriter, format_key, parse_key

REPLAYED = frozenset(["state", "feed", "stat", "loss", "tower_grad", "grad", "slot", "var"])
QUANTITIES = ("state", "feed", "stat", "loss", "tower_grad", "grad", "slot", "var")
RACING = "unordered_statistics"


class ReplayError(ValueError):
    """A trace cannot be replayed; the message says who, what was expected, what came and what to do."""


class Port(NamedTuple):
    """The torch side of a replay.

    Fields:
      model, loss: "module:name".
      optimizer: "module:function" of the model, or None for the twin of the recorded one.
      folders: where to look for the modules.
      silence: seconds without a sign of life after which it is ended.
    """

    model: str
    loss: str
    optimizer: str | None
    folders: list[str]
    silence: float


def replay(recorded: Path, port: Port, mapping_file: Path | None, out: Path) -> Result:
    """Replays a trace on a port: the recorded feeds, from the recorded state before every step.

    Args:
      recorded: a trace as `parity record` leaves it; one that stopped early is used up to its last whole step.
      port: the torch side.
      mapping_file: a case or a file with its [mapping] tables; by default names and shapes decide.
      out: folder for the traces.

    Returns:
      The `Result` of comparing both, with notes on what was not replayed.

    Raises:
      ReplayError: the trace has several optimizers, no steps, uneven shards or an unknown way of combining.
      SideFailed: the port raised.
      MappingError: the variables do not join.
    """
    trace = Trace(recorded, whole=False)
    _check(trace, port)
    reference, notes = _reference(trace, out / "reference")
    entries, named = load_mapping(mapping_file) if mapping_file else ({}, {})
    with contextlib.closing(launch_torch(out / "logs" / "torch.log", port.silence)) as side:
        prepared = side.ask(
            "prepare",
            case=_case(trace, port, out),
            folders=[*port.folders, str(out)],
            precision=trace.facts["precision"],
            round_hyper_parameters=False,
        ).result()
        mapping = build_mapping(variables_of(trace.variables), variables_of(prepared["variables"]), entries)
        names = {quantity: Renaming(quantity, found) for quantity, found in named.items()}
        join = Join(mapping, names, prepared["facts"]["slots"])
        asked = _write_asked(join, reference, out)
        side.ask("run", prepared=prepared["prepared"], **asked).result()
    result = compare_traces(out / "reference", out / "torch", mapping_file)
    result.notes.extend(notes)
    return result


def _check(trace: Trace, port: Port) -> None:
    if not trace.step_numbers:
        raise ReplayError(f"replay: expected recorded steps in {trace.directory}, got none. Record it again.")
    if "sections" in trace.facts:
        raise ReplayError(
            f"replay: expected one optimizer, got {', '.join(trace.facts['sections'])}. "
            "Record runs of one of them at a time, or compare traces with `parity compare`."
        )
    if trace.facts.get("combine") not in ("mean", "sum"):
        raise ReplayError(
            f'replay: expected gradients that are combined by "mean" or "sum", got {trace.facts.get("combine")!r}. '
            "Write both traces and use `parity compare`."
        )
    if trace.facts.get("clipped") and not port.optimizer:
        raise ReplayError(
            "replay: expected gradients that are applied as they are combined, got clipped ones. "
            "Name an optimizer that clips with --optimizer MODULE:FUNCTION."
        )


def _case(trace: Trace, port: Port, out: Path) -> dict[str, Any]:
    if not port.optimizer:
        rates = [_rate(trace, number) for number in trace.step_numbers]
        # The side loads functions by name; this one carries what was recorded.
        (out / "recorded_as_twin.py").write_text(
            "from torch_ddp.recorded_optimizer import recorded_optimizer\n\n\n"
            "def optimizer(model):\n"
            f"    return recorded_optimizer(model, {_without_rate(trace)!r}, {rates!r})\n"
        )
    return {
        "model": port.model,
        "loss": port.loss,
        "optimizer": port.optimizer or "recorded_as_twin:optimizer",
        "ranks": int(trace.facts["towers"]),
        "combine": trace.facts["combine"],
        "backend": "gloo",
        "seed": 0,
    }


def _rate(trace: Trace, number: int) -> float:
    file = trace.step(number)
    if "state/learning_rate" in file:
        return float(file.read("state/learning_rate"))
    return float(trace.facts["optimizer"].get("learning_rate", 0.0))


def _without_rate(trace: Trace) -> dict[str, Any]:
    described = trace.facts["optimizer"]
    return {name: value for name, value in json.loads(json.dumps(described)).items() if name != "learning_rate"}


def _reference(trace: Trace, out: Path) -> tuple[Trace, list[str]]:
    """Leaves the part of a trace that a port can repeat; says what was left out."""
    racing = any(hazard["name"] == RACING for hazard in trace.facts.get("hazards", []))
    left: set[str] = set()
    writer = TraceWriter(out, trace.producer, trace.facts, trace.variables, ())
    writer.init(dict(_kept(trace, trace.init(), racing, left)))
    for number in trace.step_numbers:
        writer.step(number, dict(_kept(trace, trace.step(number), racing, left)))
    writer.close()
    notes = [f"recorded, but not replayed: {', '.join(sorted(left))}"] if left else []
    notes += [f"{each['name']} in the script: {each['evidence']}" for each in trace.facts.get("hazards", [])]
    return Trace(out), notes


def _kept(trace: Trace, file: TensorFile, racing: bool, left: set[str]) -> Iterator[tuple[str, Array]]:
    for text in file.names():
        key = parse_key(text)
        if key.quantity not in REPLAYED or (racing and key.quantity == "stat"):
            left.add(key.quantity)
        elif key.quantity == "feed" and not file.shape(text):
            left.add(f"the scalar feed {key.name}")
        elif key.name.endswith(".values"):
            yield _dense(trace, file, key)
        elif not key.name.endswith(".indices"):
            yield text, file.read(text)


def _dense(trace: Trace, file: TensorFile, key: Key) -> tuple[str, Array]:
    name = key.name[: -len(".values")]
    values = file.read(format_key(key))
    dense = np.zeros(trace.variables[name]["shape"], values.dtype)
    np.add.at(dense, file.read(format_key(key._replace(name=name + ".indices"))), values)
    return format_key(key._replace(name=name)), dense


def _write_asked(join: Join, reference: Trace, out: Path) -> dict[str, Any]:
    steps = reference.step_numbers
    feeds = ((number, translated_batch(join, _batch(reference, number))) for number in steps)
    before = ((number, translated(join, state)) for number, state in states_before(reference, steps))
    return {
        "feeds": str(write_states(out / "feeds", feeds)),
        "start": str(write_init(out / "start", translated(join, read_all(reference.init())))),
        "follow": str(write_states(out / "states", before)),
        "recorded_counters": False,
        "steps": list(steps),
        "quantities": QUANTITIES,
        "out": str(out / "torch"),
    }


def _batch(reference: Trace, number: int) -> Tensors:
    file = reference.step(number)
    towers = int(reference.facts["towers"])
    names = [key.name for key in map(parse_key, file.names()) if key.quantity == "feed" and key.tower == "0"]
    batch: Tensors = {}
    for name in names:
        pieces = [file.read(f"feed/{tower}/{name}") for tower in range(towers) if f"feed/{tower}/{name}" in file]
        if len({piece.shape for piece in pieces}) != 1 or len(pieces) != towers:
            raise ReplayError(
                f"replay: expected equal shards of {name!r} for {towers} towers in step {number}, got "
                f"{', '.join(str(piece.shape) for piece in pieces)}. Record batches that divide."
            )
        batch[f"feed/{name}"] = np.concatenate(pieces)
    return batch


def here() -> list[str]:
    """Returns the folders where a port's modules are looked for: the current one."""
    return [os.getcwd()]
