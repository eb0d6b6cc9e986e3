"""Proves a port that was written, by the replay of the trace that it was written from, and says so in its docstring."""

import ast
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from parity.experiment.replay import session
from parity.experiment.replay.script import Part, parts_of
from parity.experiment.replay.training import NOT_TRAINED, TRAINED_THE_SAME, TRAINING
from parity.experiment.spec import Progress, silent
from parity.judge.result import Result
from parity.port.errors import PortError
from parity.port.files import write_files
from parity.port.scripts.initial import fresh_values, initial_of, optional_parameters
from parity.port.scripts.proof import test_source
from parity.port.scripts.sections import Program, Section, turns_of
from parity.port.scripts.train import MOST_CHARACTERS_OF_A_LINE, source_of
from parity.port.scripts.updates import TRAIN, not_trained
from parity.port.source.code import identifier
from parity.port.source.program import Missing, Port
from parity.port.training.rates import RATE_ARGUMENT
from parity.trace import GLOBAL_STEP, Trace, quantity_of
from parity.worker.launch import DEFAULT_SILENCE
from parity.worker.process import SideProcess
from parity.worker.reaper import temporary_folder

MODULE, PROGRAM = "port", "train"
OPTIMIZER, SCHEDULE, AVERAGES_FUNCTION = "optimizer", "schedule", "averages"  # functions of the port
WRITTEN_FILE, WRITTEN_MAPPING = f"{MODULE}.py", f"{MODULE}.toml"
RATES_MODULE = "recorded_rates"  # module of the proof
UNPROVEN = "UNPROVEN"
# No trace of training has these: they are named so that nobody takes the verdict for more than it is.
NOT_IN_A_PORT = ("what fills the inputs", "how the script evaluates")
OF_EVALUATION = "eval() follows from the training: moving statistics in norms, no dropout. It was not compared."


def write_port(port: Port, folder: Path, proof: Result | None, trace: Path) -> dict[Path, str]:
    """Leaves a port in a folder; returns what `write_files` does.

    Args:
      port: what was written.
      folder: made if missing.
      proof: what its replay found, None where there was none.
      trace: what it was written from.
    """
    files = {WRITTEN_FILE: port.source(docstring(port, proof)), WRITTEN_MAPPING: port.mapping}
    # Written also where parts are missing: what is left raises by name, and the rest can be read and edited.
    files[f"{PROGRAM}.py"] = source_of(program_of(port), trained(port, proof))
    if not port.missing:
        files["test_port.py"] = test_source(port.script, trace, folder)
    return write_files(folder, files)


def program_of(port: Port) -> Program:
    """Returns what a port's training program is written from."""
    parameters = port.parameters
    mapping = parameters.mapping()
    fresh = fresh_values(parameters)
    buffers = [name for name in mapping if parameters.is_buffer(name)]
    initial = initial_of(
        port.graph, mapping, parameters.kinds, parameters.shapes, fresh, buffers, optional_parameters(parameters)
    )
    statistics = any(parameters.kinds[name] == "stat" for name in buffers)
    functions, suffixes = functions_of(port.body), suffixes_of(port.parts)
    sections = []
    for part in port.parts:
        called = {each: f"{each}{suffixes[part.name]}" for each in (OPTIMIZER, SCHEDULE, AVERAGES_FUNCTION)}
        defined = frozenset(each for each, name in called.items() if name in functions)
        sections.append(Section(suffixes[part.name], part, port.trainings[part.name], defined))
    turns = turns_of(port.parts) if len(sections) > 1 else None
    return Program(port.script, sections, initial, statistics, turns, port.inputs)


def left_of_program(port: Port) -> list[Missing]:
    """Returns what of a port's training program is left to write by hand beside the data side."""
    why = not_trained(program_of(port))
    return [Missing(f"{TRAIN}()", "", f"is left to write, for the script {why}")] if why else []


def suffixes_of(parts: Sequence[Part]) -> dict[str, str]:
    """Returns by section what the names of a port's functions end with: nothing where there is one optimizer."""
    return {part.name: f"_{identifier(part.name)}" if len(parts) > 1 else "" for part in parts}


def prove(port: Port, trace: Path, silence: float, tick: Progress = silent) -> Result:
    """Replays a trace on the port that was written from it, and runs its training program on what was recorded.

    Args:
      port: the port.
      trace: what it was written from.
      silence: seconds without a heartbeat after which the port is ended.
      tick: called with how far it is.
    """
    # What is proven is the files as they would be written, and they get their names only once that is known.
    with temporary_folder(prefix="parity-port-") as name:
        write_port(port, Path(name), None, trace)
        return prove_folder(Path(name), trace, silence, tick)


def prove_folder(
    folder: Path,
    trace: Path,
    silence: float = DEFAULT_SILENCE,
    tick: Progress = silent,
    side: SideProcess | None = None,
) -> Result:
    """Proves the port in a folder, as it is there: edited or not.

    Args:
      folder: with what `write_port` left.
      trace: what it was written from.
      silence: seconds without a heartbeat after which the port is ended.
      tick: called with how far it is.
      side: a torch process that somebody else ends; by default one is started and ended here.

    Raises:
      PortError: there is no port in the folder.
    """
    parts = parts_of(Trace(trace, whole=False))
    source = _read(folder / WRITTEN_FILE)
    # Read and not imported: a port in a folder is somebody's code, which runs on the torch side alone.
    defined, fed = functions_of(source), functions_of_fed_rates(source)
    suffixes = suffixes_of(parts)
    optimizers, schedules = (
        {name: f"{each}{suffix}" for name, suffix in suffixes.items() if f"{each}{suffix}" in defined}
        for each in (OPTIMIZER, SCHEDULE)
    )
    # The recorded rates take the place of what the script feeds.
    modules = {name: RATES_MODULE if function in fed else MODULE for name, function in optimizers.items()}
    schedules |= {name: _fed_schedule(optimizers[name]) for name, module in modules.items() if module == RATES_MODULE}
    with temporary_folder(prefix="parity-proof-") as out:
        rates = [line for part in parts if modules.get(part.name) == RATES_MODULE for line in _fed(part, optimizers)]
        (Path(out) / f"{RATES_MODULE}.py").write_text("\n".join([f"import {MODULE}", *rates, ""]), encoding="utf-8")
        candidate = session.Port(
            f"{MODULE}:Model",
            {name: f"{MODULE}:loss{suffix}" for name, suffix in suffixes.items()},
            {name: f"{modules[name]}:{function}" for name, function in optimizers.items()},
            [str(folder), out],
            silence,
            program=_program(folder / f"{PROGRAM}.py", suffixes),
            schedules={name: f"{modules.get(name, MODULE)}:{function}" for name, function in schedules.items()},
        )
        return session.replay(trace, candidate, folder / WRITTEN_MAPPING, Path(out) / "replay", tick, side=side)


def _program(file: Path, suffixes: Mapping[str, str]) -> session.TrainingModule | None:
    """The training program in a file, None where there is none or nobody has written how it trains."""
    left = left_to_write(_read(file)) if file.is_file() else {TRAIN}
    # Without an optimizer there is nothing to run; the replay of single steps still judges the rest.
    if left & {TRAIN, *(f"{OPTIMIZER}{suffix}" for suffix in suffixes.values())}:
        return None
    fed = frozenset(name for name, suffix in suffixes.items() if f"{RATE_ARGUMENT}{suffix}" in left)
    return session.TrainingModule(PROGRAM, suffixes, fed)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PortError(
            f"port: expected {path.name} in {path.parent}, got: {error.strerror}. Write it with `parity port`."
        ) from error


def functions_of(source: str) -> set[str]:
    """Returns the names that a source defines at its top level."""
    found = set()
    for each in ast.parse(source).body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Assign):
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return found


def left_to_write(source: str) -> set[str]:
    """Returns the functions of a source that raise `NotImplementedError`."""
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        for each in ast.walk(function)
        if isinstance(each, ast.Raise) and "NotImplementedError" in ast.dump(each)
    }


def functions_of_fed_rates(source: str) -> set[str]:
    """Returns the functions of a source that are to be given the learning rate that a script feeds."""
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    return {each.name for each in functions if RATE_ARGUMENT in [argument.arg for argument in each.args.args]}


def _fed_schedule(optimizer: str) -> str:
    return f"{optimizer}_rate"


def _fed(part: Part, optimizers: Mapping[str, str]) -> list[str]:
    """Lines that feed the recorded learning rates to an optimizer, as the script does; they are no part of the port."""
    function, rates = optimizers[part.name], [part.rate(number) for number in part.steps]
    return [
        f"def {_fed_schedule(function)}(step):",
        # Asked for step 0 too, which every optimizer is built for: also of a script that was recorded later.
        f"    return {rates}[min(max(step - {_first_count(part)}, 0), {len(rates) - 1})]",
        f"def {function}(model):",
        f"    return {MODULE}.{function}(model, {rates[0]})",
    ]


def _first_count(part: Part) -> int:
    """The number of updates before the first recorded step."""
    return int(part.before(part.steps[0]).get(GLOBAL_STEP, 0))


def docstring(port: Port, proof: Result | None) -> str:
    """Returns the docstring of a port: where it comes from, what is proven of it and what is not."""
    facts = port.parts[0].trace.facts
    steps = len(port.parts[0].trace.step_numbers)
    lines = [
        f"The towers of {port.script}: each rank computes one.",
        "",
        f"Written by `parity port` from a trace of {facts.get('framework', 'TensorFlow')}: {port.parts[0].towers} towers, "
        f"{steps} steps, {port.ops} ops.",
        *_verdict(port, proof),
        *(trained(port, proof) if proof is not None and proof.verdict == "same" else []),
        *port.assumed,
        *port.plainly,
        *unjudged(port, proof),
        OF_EVALUATION,
        f"Not in here: {', '.join(NOT_IN_A_PORT)}.",
        "",
    ]
    return "\n".join(wrapped for line in lines for wrapped in textwrap.wrap(line, MOST_CHARACTERS_OF_A_LINE) or [""])


def trained(port: Port, proof: Result | None) -> list[str]:
    """Returns the lines that say what is proven of a port's training program."""
    if port.missing:
        return [f"{UNPROVEN}: train() was not run, for it lacks the optimizer or other parts."]
    notes = [note for level in proof.levels.values() for note in level.notes] if proof else []
    # Of several optimizers each has a note of its own, which begins with its section.
    found = [note for note in notes if TRAINED_THE_SAME.partition("{")[0] in note]
    if found and proof is not None and proof.verdict == "same":
        proven = f"Proven to train as the script's float64 shadow does, {'; '.join(found)}."
        return textwrap.wrap(proven, MOST_CHARACTERS_OF_A_LINE)
    left = left_of_program(port)
    if left:
        return [f"{UNPROVEN}: {left[0].what} {left[0].why}."]
    why = next((note for note in notes if NOT_TRAINED.partition("{")[0] in note), "train() was not run")
    return [
        f"{UNPROVEN}: {why}."
        if proof is None or proof.verdict == "same"
        else f"{UNPROVEN}: its replay says {proof.verdict}."
    ]


def unjudged(port: Port, proof: Result | None) -> list[str]:
    """Returns sentences on what a port has and its proof has not judged."""
    checks = [check for level in proof.levels.values() for check in level.checks] if proof is not None else []
    if any(check.run == TRAINING and quantity_of(check.key) == "ema" for check in checks):
        return []
    named = [f"{each.averages}()" for each in port.trainings.values() if each.averages]
    return [f"Not judged: {', '.join(named)}, the moving averages of the weights."] if named else []


def _verdict(port: Port, proof: Result | None) -> list[str]:
    if port.missing:
        return [f"{UNPROVEN}: {len(port.missing)} parts are left to write; `parity port` names them."]
    if proof is None:
        return [f"{UNPROVEN}: nothing was compared. `parity port` without --no-prove does."]
    if proof.verdict != "same":
        return [f"{UNPROVEN}: its replay says {proof.verdict}."]
    judged = [level for level in proof.levels.values() if level.verdict == "same"]
    checks = sum(check.run != TRAINING for level in judged for check in level.checks)
    trainings = [*port.trainings.values()]
    own = "its own optimizer" + (" and schedule" if any(each.schedule for each in trainings) else "")
    own += " and the rates that the script feeds" if any(each.fed for each in trainings) else ""
    return [
        f"Proven same in lockstep with the script, levels {' and '.join(level.name for level in judged)}: {checks} tensors,",
        f"losses, gradients, slots, statistics and weights, with {own}.",
    ]
