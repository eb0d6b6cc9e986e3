"""Leaves the float64 shadow of a recorded trace beside it."""

import os
import shutil
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow as real

from parity.trace import (
    SHADOW,
    SHADOW_EMPTY,
    SHADOW_FILE,
    SHADOW_FORWARD,
    SHADOW_FREE,
    SHADOW_OTHER_ORDER,
    SHADOW_SPREAD,
    SHADOW_TIES,
    SHADOW_TIES_OF_INPUTS,
    DamagedError,
    RecordedGraph,
    TensorFile,
    Trace,
    TraceWriter,
    break_ties,
    break_ties_of_inputs,
    quantity_of,
    read_graph,
    write_json,
)
from parity.trace.arrays import Tensors
from parity.trace.safetensors import Path
from tf_towers.float64.errors import CannotShadow, refuse
from tf_towers.record.observe import DRAWN_INSIDE
from tf_towers.shadow.forward import write_passes
from tf_towers.shadow.free_run import FreeRun
from tf_towers.shadow.ill_conditioned import Aside, EmptyGradients, Mover, fed_aside
from tf_towers.shadow.program import Program, settled, widened
from tf_towers.shadow.random_ops import check_draws

CHANGED = "changed_between_steps"
NOT_FINISHED = "it was not finished"
FAULT = "shadow: expected every step to be computed in float64, got %s: %s. Level 2 only can be judged."
OWN_FOLDERS = (
    SHADOW_FREE,
    SHADOW_SPREAD,
    SHADOW_TIES,
    SHADOW_TIES_OF_INPUTS,
    SHADOW_EMPTY,
    SHADOW_FORWARD,
    SHADOW_OTHER_ORDER,
)
# Hazards by which the script's own gradients were of other weights: they cannot say whether draws are in order.
RACES = ("ungated_loss", "ungated_update")
MOVES = ((SHADOW_TIES, break_ties), (SHADOW_TIES_OF_INPUTS, break_ties_of_inputs))


def make_shadow(directory: Path) -> Dict[str, Any]:
    """Computes every step of a trace in float64, from the recorded state, feeds and draws, into its folder `shadow`.

    Then all of them once more in a row, from the first state and with nobody resetting it: see `FreeRun`. And what rounding
    does where it decides what is computed: see `Aside` and `EmptyGradients`.

    Args:
      directory: a trace as recording leaves it.

    Returns:
      The facts of the shadow: what was written out as plain ops, which constants were taken as the script wrote them.

    Raises:
      CannotShadow: the graph cannot be computed in float64.
      TraceError: there is no such trace, or it has no graph.
      DamagedError: a file of it is not what was written.
    """
    beside = os.path.join(str(directory), SHADOW_FILE)
    trace = Trace(directory, whole=False)
    programs: Dict[int, Program] = {}
    try:
        facts = _made(trace, read_graph(directory), programs)
        # Written before what may take minutes more: a script that is interrupted leaves the steps judged at level 1.
        told = dict({name: facts[name] for name in ("expanded", "constants")}, made=True, reason="")
        write_json(beside, dict(told, free=NOT_FINISHED, rounding=NOT_FINISHED))
        graph = read_graph(directory)
        told["free"] = _train_freely(trace, graph, programs, facts)
        write_json(beside, dict(told, rounding=NOT_FINISHED))
        told["rounding"] = _rounding(trace, graph, programs, facts)
        forward = os.path.join(trace.directory, SHADOW, SHADOW_FORWARD)
        write_json(beside, dict(told, layers=write_passes(forward, _steps(trace, graph, programs))))
    except CannotShadow as error:
        write_json(beside, {"made": False, "reason": str(error)})
        raise
    except DamagedError:
        raise  # recorded again there will be a shadow: no fault of this one is left behind
    except Exception as error:
        # A fault of ours, or of TensorFlow's: trying once more leaves the same.
        write_json(beside, {"made": False, "reason": FAULT % (type(error).__name__, error)})
        raise
    finally:
        for program in programs.values():
            program.close()
    return facts


def _made(trace: Trace, graph: RecordedGraph, programs: Dict[int, Program]) -> Dict[str, Any]:
    for name, why in sorted(trace.facts.get("not_recorded", {}).items()):
        if why.startswith(DRAWN_INSIDE):
            refuse(f"expected every draw to be recorded, got none of {name}, which is {why}")
    for number in trace.step_numbers:
        run = _run_of(trace, graph, number)
        if run not in programs:
            programs[run] = Program(graph, graph.runs[run])
    return _write(trace, graph, programs)


def _write(trace: Trace, graph: RecordedGraph, programs: Dict[int, Program]) -> Dict[str, Any]:
    facts = dict(
        trace.facts,
        side="tf_towers.shadow",
        precision="float64",
        expanded=sorted({each for program in programs.values() for each in program.expanded}),
        constants=_read_otherwise(trace, graph, programs),
        racing=sorted({each for program in programs.values() for each in program.racing}),
    )
    inexact = sorted({each for program in programs.values() for each in program.inexact})
    if inexact:  # as of a live tower, see `inexact_ops`: "" is the loss, and with it stand the gradients
        facts["inexact_in_float64"] = {"places": inexact, "outputs": [""]}
    folder = os.path.join(trace.directory, SHADOW)
    for name in OWN_FOLDERS:
        # An older shadow may have left runs that this one has not: they would be judged as its own.
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    writer = TraceWriter(folder, _producer(), facts, _variables(trace), trace.activations)
    races = any(each["name"] in RACES for each in trace.facts.get("hazards", []))
    writer.init({key: widened(key, value) for key, value in _all(trace.init()).items()})
    other = _other_order(folder, facts)
    for number, state, now, program in _steps(trace, graph, programs):
        computed = program.step(state, now)
        if other is not None:
            other.step(number, {key: np.asarray(value) for key, value in program.others.items() if key in now})
        if program.draws_inside and not races:
            check_draws(number, now, computed)
        writer.step(number, {key: settled(key, now[key], computed) for key in now})
    writer.close()
    if other is not None:
        other.close()
    return facts


def _other_order(folder: str, facts: Dict[str, Any]) -> Optional[TraceWriter]:
    """Opens what a step leaves in the other order, where the script races for a counter or a slot."""
    if not facts["racing"]:
        return None
    other = TraceWriter(os.path.join(folder, SHADOW_OTHER_ORDER), _producer(), facts)
    other.init({})
    return other


def _steps(
    trace: Trace, graph: RecordedGraph, programs: Dict[int, Program]
) -> Iterator[Tuple[int, Tensors, Tensors, Program]]:
    """Yields number, recorded state before it, recorded values and program of each step."""
    before = _all(trace.init())
    for number in trace.step_numbers:
        now = _all(trace.step(number))
        # Counters are recorded as they were before the step, everything else that is kept as it was after it.
        # State that no graph variable holds, as a fed rate, is no part of what the step starts from.
        counters = {key: now[key] for key in now if key in graph.variables and quantity_of(key) == "state"}
        yield number, dict(before, **counters), now, programs[_run_of(trace, graph, number)]
        before = dict(before, **now)


def _read_otherwise(trace: Trace, graph: RecordedGraph, programs: Dict[int, Program]) -> Dict[str, List[float]]:
    read = {name: value for program in programs.values() for name, value in program.constants.items()}
    # Reversed, so that the first step of each run is what stays.
    first = {_run_of(trace, graph, number): number for number in reversed(trace.step_numbers)}
    for run, number in first.items():
        read.update(programs[run].settings(_all(trace.step(number))))
    return read


def _train_freely(trace: Trace, graph: RecordedGraph, programs: Dict[int, Program], facts: Dict[str, Any]) -> str:
    """Leaves the run that nobody resets; returns why there is none, or ""."""
    if _changes_between(trace):
        return "the script writes variables between its steps, which is not recorded"
    _run_freely(os.path.join(trace.directory, SHADOW), _as_it_is, trace, graph, programs, facts)
    return ""


def _as_it_is(tensors: Tensors, seed: int, towards: float = 1.0) -> Tensors:
    return tensors


def _changes_between(trace: Trace) -> bool:
    return any(hazard["name"] == CHANGED for hazard in trace.facts.get("hazards", []))


def _run_freely(
    folder: str, moved: Mover, trace: Trace, graph: RecordedGraph, programs: Dict[int, Program], facts: Dict[str, Any]
) -> None:
    start = moved(_all(trace.init()), 0)
    run = FreeRun(folder, start, graph.variables, _producer(), facts, _variables(trace))
    for number in trace.step_numbers:
        now = fed_aside(_all(trace.step(number)), number, moved)
        run.step(number, now, programs[_run_of(trace, graph, number)])
    run.close()


def _rounding(trace: Trace, graph: RecordedGraph, programs: Dict[int, Program], facts: Dict[str, Any]) -> str:
    """Leaves what rounding does where it decides what is computed; returns why that could not be done, or ""."""
    shadow = Trace(os.path.join(trace.directory, SHADOW))
    folders = {name: os.path.join(shadow.directory, name) for name, _ in MOVES}
    asides = {name: Aside(folders[name], moved, _producer(), facts, _variables(trace)) for name, moved in MOVES}
    empty = EmptyGradients(os.path.join(shadow.directory, SHADOW_EMPTY), _producer(), facts)
    try:
        for number, state, now, program in _steps(trace, graph, programs):
            for aside in asides.values():
                aside.step(number, state, now, program)
            empty.step(number, state, now, _all(shadow.step(number)), program)
        for name, moved in MOVES:
            if asides[name].found and not _changes_between(trace):
                _run_freely(folders[name], moved, trace, graph, programs, facts)
    except CannotShadow as error:
        return str(error)  # e.g. of a loop whose draws depend on what is computed
    for aside in asides.values():
        aside.close()
    empty.close()
    return ""


def _producer() -> Dict[str, str]:
    return {"package": "tf_towers.shadow", "framework": "tensorflow " + real.__version__}


def _variables(trace: Trace) -> Dict[str, Dict[str, Any]]:
    return {name: dict(entry, dtype=_wider(entry["dtype"])) for name, entry in trace.variables.items()}


def _run_of(trace: Trace, graph: RecordedGraph, number: int) -> int:
    runs = trace.facts.get("run_of_step", [])
    if number < len(runs):
        return runs[number]
    names = set(trace.step(number).names())
    fitting = [place for place, run in enumerate(graph.runs) if set(run["values"]) <= names]
    # Where run_of_step does not say: the largest run whose values the step has.
    return max(fitting, key=lambda place: len(graph.runs[place]["values"]))


def _wider(dtype: str) -> str:
    return "float64" if dtype in ("float32", "float16", "bfloat16") else dtype


def _all(file: TensorFile) -> Tensors:
    return {name: file.read(name) for name in file.names()}
