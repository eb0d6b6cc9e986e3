"""Plays the reference from a golden trace: what TensorFlow did once, so that a port's own tests need no TensorFlow."""

import json
import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from parity.case import Case, as_declared
from parity.experiment.sides.densify import DenseTrace
from parity.experiment.sides.tensorflow_side import INITIAL_SLOTS, PREPARED
from parity.experiment.spec import FORWARD, MAPPING, REPETITION, Capability, RunSpec
from parity.trace import Forward, Trace, check_folder, read_json, write_json
from parity.trace.description import fault_of_answer, is_shape

GOLDEN_FORMAT = "tower-parity-golden"
GOLDEN_FORMAT_VERSION = 1
DESCRIPTION = "golden.json"
LEFT_BY_JUDGING = ("beside-*", "inputs-beside-*", "empty-*")  # what judging the port of then took
GOLDEN_PARTS = {"feeds": Path("feeds") / "tf", "start": Path("start") / "tf", "runs": Path("tf")}


class GoldenError(ValueError):
    """A folder is no golden trace, or one of another case; the message says what to do."""


class GoldenSide:
    """Answers as the TensorFlow side of a case did when it was blessed.

    Args:
      folder: as `keep_golden` left it.
      case: what is run; but for the port it is the one that was blessed.

    Raises:
      GoldenError: the folder is no golden trace, or the case differs in something that decides what the reference does.
      DamagedError: a file in it is not what was written.
    """

    def __init__(self, folder: Path, case: Case) -> None:
        self._folder = folder
        self.notes: list[str] = []
        self.capabilities = Capability.NONE
        # All of it, before anything is started: batches and states are read by other processes, from copies.
        check_folder(folder)
        self._known = _load(folder)
        fault = _fault_of_answers(self._known)
        if fault:
            path = folder / DESCRIPTION
            raise GoldenError(f"golden: expected {fault} in {path}, got something else. Bless the case again.")
        now, blessed = of_the_reference(case), self._known["case"]
        # Everything that decides what the reference does: a golden trace of another batch size would call any port
        # different.
        for name in sorted(set(now) | set(blessed)):
            if now.get(name) != blessed.get(name):
                raise GoldenError(
                    f"golden: expected {name} = {json.dumps(blessed.get(name))} as it was blessed in {folder}, "
                    f"got {json.dumps(now.get(name))}. Change the case back, or bless it again."
                )

    def batches(self, out: Path) -> "Future[Any]":
        """Leaves the batches at `out`; answers with what they consist of.

        Raises:
          GoldenError: an input of a batch has no examples, or other numbers of them than another.
        """
        feeds = Trace(self._folder / "feeds")
        for step in map(feeds.step, feeds.step_numbers):
            counts = {name: step.shape(name)[:1] for name in step.names()}
            for name, count in counts.items():
                wanted = next(iter(counts.values()))
                if not count or count != wanted:
                    expected = f"{wanted[0]:,} examples" if wanted and count else "examples"
                    got = f"{count[0]:,}" if count else "one number"
                    raise GoldenError(
                        f"golden: expected {expected} along the first axis of {name} in {self._folder / 'feeds'}, got "
                        f"{got}. Bless the case again."
                    )
        shutil.copytree(self._folder / "feeds", out, dirs_exist_ok=True)
        return _done(self._known["inputs"])

    def prepare(self, precision: str, inputs: Any) -> "Future[Any]":
        """Answers with the variables and facts of then."""
        return _done(self._known["prepared"])

    def initialize(self, out: Path) -> dict[str, list[float]]:
        """Leaves the start at `out`; answers with the initial slots of then."""
        shutil.copytree(self._folder / "start", out, dirs_exist_ok=True)
        return dict(self._known["initial_slots"])

    def run(self, asked: RunSpec) -> "Future[Trace]":
        """Answers with the trace of the run of that name, or of the one that it is a part of."""
        # A step asked for alone is read from the run of all steps that was kept.
        return _done(DenseTrace(self._folder / "runs" / (asked.whole or asked.name)))

    def forward(
        self,
        step: int,
        tower: str,
        asked: RunSpec,
        most: int | None = None,
        gradients: bool = False,
        ends_at: str = "",
    ) -> Forward | None:
        """Returns the forward pass that was kept, where that is of `step` or a later one; of the loss, no gradients."""
        kept = None if gradients or ends_at else self.kept(FORWARD)
        found = None if kept is None else Forward(kept)
        return None if found is None or found.step < step else found

    def kept(self, name: str) -> Path | None:
        """Returns the folder of the run of that name, None where none was kept."""
        folder = self._folder / "runs" / name
        return folder if folder.is_dir() else None

    def run_with_statistics(self, batch_norm_updates: str, inputs: Any, asked: RunSpec) -> None:
        """Answers with nothing: no tower is at hand."""


def golden_steps(folder: Path) -> int | None:
    """Returns the number of updates that a golden trace holds, None where its description lacks it.

    Raises:
      GoldenError: the folder is no golden trace.
    """
    steps = _load(folder)["case"].get("steps")
    return steps if isinstance(steps, int) else None


def keep_golden(case: Case, recorded: Path, golden: Path) -> None:
    """Keeps the reference's part of a run as a golden trace; the description comes last, so that a part is never a whole.

    Args:
      case: what was run.
      recorded: the folder that `run_case` left its traces in.
      golden: folder to make; an older golden trace in it is replaced.

    Raises:
      GoldenError: the folder holds something else.
    """
    require_golden_folder(golden)
    # The old one goes first, the description comes last: a copy that broke off is no golden trace.
    if golden.exists():
        shutil.rmtree(golden)
    golden.mkdir(parents=True, exist_ok=True)
    for part, path in GOLDEN_PARTS.items():
        shutil.copytree(
            recorded / path,
            golden / part,
            ignore=shutil.ignore_patterns(PREPARED, INITIAL_SLOTS, REPETITION, MAPPING, *LEFT_BY_JUDGING),
        )
    # Left by the TensorFlow side when it was prepared for float32.
    known = read_json(str(recorded / GOLDEN_PARTS["runs"] / PREPARED))
    known["initial_slots"] = read_json(str(recorded / GOLDEN_PARTS["runs"] / INITIAL_SLOTS))
    description = {
        "format": GOLDEN_FORMAT,
        "format_version": GOLDEN_FORMAT_VERSION,
        "case": of_the_reference(case),
        **known,
    }
    write_json(golden / DESCRIPTION, description)


def require_golden_folder(golden: Path) -> None:
    """Refuses a place for a golden trace that holds something else.

    Raises:
      GoldenError: it is a file, or a folder of other files.
    """
    if golden.exists() and not golden.is_dir():
        raise GoldenError(f"golden: expected a folder at {golden}, got a file. Name another.")
    if golden.exists() and any(golden.iterdir()) and not (golden / DESCRIPTION).is_file():
        raise GoldenError(f"golden: expected {golden} to be empty or a golden trace, got other files. Name another.")


def of_the_reference(case: Case) -> dict[str, Any]:
    """Returns everything in a case that decides what the reference does, as JSON values."""
    # What the port alone decides is not among them: it may change, that is what a golden trace is for.
    names = ("steps", "batch_size", "towers", "seed", "combine", "batches", "init", "optimizer", "tf")
    case = as_declared(case)
    described = case.model_dump(mode="json", include=set(names), exclude_none=True)
    if case.expect is not None:
        described["loss_factor"] = case.expect.loss_factor
    # Where TensorFlow lies on a machine decides nothing.
    described["tf"].pop("python", None)
    if case.optimizers:
        described["optimizers"] = {name: part.model_dump(exclude_none=True) for name, part in case.optimizers.items()}
    return dict(described)


def _load(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        known = read_json(str(path))
    except OSError:
        raise GoldenError(
            f"golden: expected a golden trace at {folder}, got no {DESCRIPTION}. Bless a case first."
        ) from None
    except ValueError as error:
        raise GoldenError(f"golden: expected JSON in {path}, got {error}. Bless the case again.") from None
    # Each key with its type: a file that was edited by hand is refused in words.
    wanted = {"format": str, "format_version": int, "case": dict, "inputs": dict, "prepared": dict}
    wanted["initial_slots"] = dict
    wrong = [n for n, kind in wanted.items() if not isinstance(known, dict) or not isinstance(known.get(n), kind)]
    if wrong or (known["format"], known["format_version"]) != (GOLDEN_FORMAT, GOLDEN_FORMAT_VERSION):
        raise GoldenError(
            f"golden: expected {path} in format {GOLDEN_FORMAT} {GOLDEN_FORMAT_VERSION}, "
            f"got another ({', '.join(wrong) or 'version'}). Bless the case again."
        )
    return dict(known)


def _fault_of_answers(known: dict[str, Any]) -> str:
    """Returns what the reference's answers in a description should be and are not; "" where they are as it gave them."""
    if not all(isinstance(each, list) and len(each) == 2 and is_shape(each[1]) for each in known["inputs"].values()):
        return "a dtype and a shape for each input"
    return fault_of_answer(known["prepared"], known["initial_slots"])


def _done(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future
