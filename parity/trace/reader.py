"""Reads a trace lazily: memory is bounded by the largest tensor, not by the trace (Python 3.7 and up)."""

import bisect
import contextlib
import functools
import glob
import operator
import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from parity.trace.arrays import Array, Tensors
from parity.trace.bounded import read_json
from parity.trace.checksum import LEAST_AHEAD, Following, check_ahead, is_checked
from parity.trace.description import FACTS, fault_of_description
from parity.trace.errors import MissingError, TraceError
from parity.trace.keys import GLOBAL_STEP, SKIPPED, STATE_OF_A_STEP, is_computed, select, trace_name
from parity.trace.safetensors import Headers, TensorFile
from parity.trace.writer import FORMAT, FORMAT_VERSION, step_file

# Elements of a table whose variable a trace describes and does not hold, 64 MB in float32.
MOST_UNHELD = 1 << 24


class Trace(object):
    """Opens a trace directory and validates its description; tensors are read when asked for.

    Args:
      directory: a trace as `TraceWriter` leaves it.
      whole: refuse a trace whose writer did not finish (default), or read it up to its last whole step.

    Attributes:
      facts: dict of everything that may differ on purpose; of those that are read here, the ones that are known.
      variables: dict of variable name to its description (`shape`, `dtype`, `kind`, ...), in the order in which they were
        written.
      activations: names in order of execution.
      step_numbers: the recorded steps, ascending.
      complete: whether the writer finished.

    Raises:
      MissingError: there is no trace, or its writer did not finish it.
      TraceError: not a trace, of another format version, or cut short.
      DamagedError: its description is not what was written. A file of tensors says so when it is opened.
    """

    # While files are checked as they are read: those that were opened. Of the class, for traces that open none themselves.
    _followed: Optional[Dict[str, Following]] = None

    def __init__(self, directory: "Union[str, os.PathLike[str]]", whole: bool = True) -> None:
        self.directory = str(directory)
        self._headers = Headers()
        self._tables: Dict[str, Tuple[int, ...]] = {}
        meta = _load(self.directory)
        # One that is None is not known: the same as one that is not there.
        facts = meta["facts"].items()
        self.facts: Dict[str, Any] = {name: fact for name, fact in facts if fact is not None or name not in FACTS}
        self.variables = _in_order(meta["variables"], meta.get("variable_order") or [])
        self.activations: List[str] = meta["activations"]
        self.producer: Dict[str, Any] = meta["producer"]
        self.complete: bool = meta["complete"]
        self.step_numbers: List[int] = meta["step_numbers"]
        # Step files appear by rename, so the steps of a writer that was killed are whole, each of them; which there
        # are, only the folder says, for `trace.json` is written at the beginning and at the end.
        if not self.complete:
            if whole:
                raise MissingError(
                    f"trace: expected {self.directory} to be complete, "
                    "got a trace whose writer stopped early. Record it again."
                )
            self.step_numbers = _steps_present(self.directory)
        missing = [number for number in self.step_numbers if not os.path.isfile(self._path(step_file(number)))]
        if missing:
            raise TraceError(
                f"trace: expected {self.directory} to hold {len(self.step_numbers)} steps, "
                f"got no file for step {missing[0]}. Record it again."
            )

    def init(self) -> TensorFile:
        """Returns the state before the first step as a lazy `TensorFile`."""
        self._check_ahead(0)
        return self._open("init.safetensors")

    def step(self, number: int) -> TensorFile:
        """Returns the quantities of step `number` as a lazy `TensorFile`."""
        file = self._open(step_file(number))
        self._check_ahead(bisect.bisect_right(self.step_numbers, number))
        return file

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Has large files be checked while they are read, and not before; what was read counts once the block has ended.

        Raises:
          DamagedError: at the end of the block, or of a `settle` in it: a file that was opened is not what was written.
            Whatever else the block has raised follows from that.
        """
        self._followed = {}
        try:
            yield
        except Exception:
            self.settle()
            raise
        else:
            self.settle()
        finally:
            self._followed = None

    def settle(self) -> None:
        """Ends the checking of all files that were opened while it follows the reading.

        Raises:
          DamagedError: one is not what was written.
        """
        while self._followed:
            self._followed.popitem()[1].settle()

    def _open(self, name: str) -> TensorFile:
        path = self._path(name)
        following = None
        if self._followed is not None:
            following = self._followed.get(path)
            with contextlib.suppress(OSError):  # who opens it says so
                if (
                    following is None
                    and os.path.getsize(path) >= LEAST_AHEAD
                    and os.path.isfile(path)
                    and not is_checked(path)
                ):
                    following = self._followed[path] = Following(path)
        return TensorFile(path, self._headers, following)

    def _check_ahead(self, following: int) -> None:
        # Steps are mostly read in a row, from the state before the first: the next one is checked while this one is judged.
        if following < len(self.step_numbers) and self._followed is None:
            check_ahead(self._path(step_file(self.step_numbers[following])))

    def table_shape(self, variable: str) -> Tuple[int, ...]:
        """Returns the shape of a variable, of which the rows of a sparse gradient are rows.

        Args:
          variable: its name.

        Raises:
          TraceError: none of this name is described, or what the trace holds of it has another shape: a few rows would
            become a table of any size.
        """
        if variable not in self._tables:
            shape = tuple(self.variables.get(variable, {}).get("shape", ()))
            init, weight = self.init(), trace_name("var", variable)
            held = init.shape(weight) if weight in init else None
            if (
                not shape
                or (held is None and functools.reduce(operator.mul, shape, 1) > MOST_UNHELD)
                or (held not in (None, shape))
            ):
                raise TraceError(
                    f"trace: expected {self.directory} to hold the variable {variable[:80]!r} that has sparse gradients, in "
                    f"the shape that it describes, {list(shape)}. Record it again."
                )
            self._tables[variable] = shape
        return self._tables[variable]

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


UNSAID_OF_VARIABLE: Dict[str, Any] = {"shape": [], "dtype": "float32", "kind": "weight"}


def _in_order(variables: Dict[str, Dict[str, Any]], order: List[str]) -> Dict[str, Dict[str, Any]]:
    # JSON's keys are sorted when they are written.
    named = {name: variables[name] for name in order if name in variables}
    named.update(variables)
    for entry in named.values():
        # What a recording of little does not say is what most variables are.
        for what, value in UNSAID_OF_VARIABLE.items():
            entry.setdefault(what, value)
    return named


def _trace_below(directory: str) -> str:
    """Returns a trace in a folder of traces, such as the one that `parity run --out` leaves, or ""."""
    found = []
    for depth in ("*", os.path.join("*", "*")):
        found += glob.glob(os.path.join(glob.escape(directory), depth, "trace.json"))
    folders = sorted(os.path.dirname(path) for path in found)
    # Names of a run's lockstep traces begin with the precision; beside them lie batches and states, which no one means.
    lockstep = [folder for folder in folders if os.path.basename(folder).startswith("float")]
    return (lockstep or folders or [""])[0]


def _load(directory: str) -> Dict[str, Any]:
    path = os.path.join(directory, "trace.json")
    try:
        meta = read_json(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        near = _trace_below(directory)
        write = f", e.g. {near}." if near else "."
        raise MissingError(
            f"trace: expected {directory} to be a trace, got no trace.json in it. Name the folder that holds it{write}"
        ) from error
    except OSError as error:
        raise TraceError(f"trace: expected to read {path}, got: {error.strerror}. Fix that and run again.") from error
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"trace: expected JSON in {path}, got {error}. Record the trace again.") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise TraceError(f"trace: expected the format {FORMAT!r} in {path}, got something else.")
    if meta.get("format_version") != FORMAT_VERSION:
        raise TraceError(
            "trace: expected format version {} in {}, got {!r}. Read it with the version that wrote it.".format(
                FORMAT_VERSION, path, meta.get("format_version")
            )
        )
    wanted = {
        "facts": dict,
        "variables": dict,
        "activations": list,
        "producer": dict,
        "step_numbers": list,
        "steps": int,
        "complete": bool,
    }
    for name, kind in wanted.items():
        if not isinstance(meta.get(name), kind):
            raise TraceError(
                f"trace: expected {name!r} in {path} to be a {kind.__name__}, got {meta.get(name)!r}. Record it again."
            )
    before = -1
    for number in meta["step_numbers"]:
        if type(number) is not int or number <= before:
            raise TraceError(
                f"trace: expected step numbers from 0 in {path}, got {number!r} behind {before}. Record it again."
            )
        before = number
    fault = fault_of_description(meta)
    if fault:
        raise TraceError(f"trace: expected {fault} in {path}, got something else. Record it again.")
    return meta


_STEP_FILE = re.compile(r"step-([0-9]{6,18})\.safetensors")


def _steps_present(directory: str) -> List[int]:
    numbers = []
    for name in os.listdir(directory):
        found = _STEP_FILE.fullmatch(name)
        if found:
            numbers.append(int(found.group(1)))
    return sorted(numbers)


COUNTERS_AFTER = "counters_after"  # the fact that holds the counters after the last step, which no step records


def state_after(trace: Trace, step: Optional[int] = None) -> Tensors:
    """Returns the state that a recorded step left: weights, statistics, slots, averages and counters.

    A step records the counters as they were before it. Those after it are the next step's, or after the last one those that
    the trace's facts hold; where neither is there, the step count alone is known, one more.

    Args:
      trace: a trace.
      step: its number; by default the last one, or the initial state of a trace without steps.

    Returns:
      Dict of trace name ("var/…", "slot/…", "state/…") to array.

    Raises:
      TraceError: there is no such step.
    """
    if step is None and not trace.step_numbers:
        file = trace.init()
        return {name: np.array(file.read(name)) for name in file.names()}
    number = trace.step_numbers[-1] if step is None else step
    if number not in trace.step_numbers:
        steps = f"{trace.step_numbers[0]} to {trace.step_numbers[-1]}" if trace.step_numbers else "none"
        raise TraceError(f"trace: expected a step of {trace.directory} ({steps}), got {number}. Name one of them.")
    file = trace.step(number)
    state = {name: np.array(file.read(name)) for name in file.names(*STATE_OF_A_STEP)}
    state.update(_counters(trace, number))
    return state


def _counters(trace: Trace, number: int) -> Tensors:
    now = trace.step(number)
    # Rate and "skipped" are computed in the step that records them: no state has them.
    names = [name for name in now.names("state") if not is_computed(name)]
    if number + 1 in trace.step_numbers:
        following = trace.step(number + 1)
        return {name: np.array(following.read(name)) for name in names if name in following}
    # Counters that a reader knows nothing of, such as the powers of Adam's betas, are left out rather than guessed.
    after = (trace.facts.get(COUNTERS_AFTER) or {}) if number == trace.step_numbers[-1] else {}
    found = {name: _counter(name, after[name], now.read(name).dtype) for name in names if name in after}
    if GLOBAL_STEP in names and GLOBAL_STEP not in found:
        skipped = SKIPPED in now and bool(now.read(SKIPPED))
        found[GLOBAL_STEP] = np.array(now.read(GLOBAL_STEP)) + (0 if skipped else 1)
    return found


def _counter(name: str, value: Any, dtype: Any) -> Array:
    try:
        return np.array(value, dtype)
    except (ValueError, OverflowError):  # ragged, or more than the dtype holds
        raise TraceError(
            f"trace: expected {COUNTERS_AFTER!r} to hold {name} as {dtype}, got {str(value)[:40]}. Record it again."
        ) from None


def counters_after(state: "Dict[str, Any]") -> Dict[str, List[Any]]:
    """Returns the counters of a state as the fact that `state_after` looks for: JSON values by trace name."""
    counters = {name: value for name, value in select(state, "state").items() if not is_computed(name)}
    # JSON has no word for inf and nan; a loss scale may have become either.
    return {name: np.asarray(value).tolist() for name, value in counters.items() if np.all(np.isfinite(value))}
