"""A program that was recorded like a trace, whose runs lie beside its own: what `parity compare` judges without a launch."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest import mock

from support.made_recording import made_recording
from support.made_sides import Habits, MadeProcess

from parity.cli import compare
from parity.experiment.replay import program
from parity.experiment.replay.program import RUNS, digest_of, port_of
from parity.experiment.replay.script import launched_part
from parity.experiment.replay.session import replay
from parity.experiment.sides.kept_program import DESCRIPTION_FILE
from parity.trace import Trace

from . import seeds
from .file_mutations import mutated_below
from .inputs import Files, Place, read_folder
from .verbs import run_verb

DESCRIBED = f"b/{RUNS}/{DESCRIPTION_FILE}"


def kept(folder: Path) -> list[Files]:
    """Returns a recorded script with programs that were recorded like it: one does the same, one does not."""
    shutil.rmtree(folder, ignore_errors=True)
    recorded = Path(made_recording(folder / "made", facts=(("script", "train.py"),)))
    script = _below("a", seeds.unsigned(read_folder(recorded)))
    # Of the recording as it is without checksums, by which the program's is known again.
    digest = digest_of(Place(folder / "unsigned").lay(script) / "a")
    found = []
    for habits in (Habits(backwards=True), Habits(backwards=True, rate=1.5)):
        side = MadeProcess("torch", habits)
        runs = folder / f"replayed-{len(found)}"
        replay(recorded, port_of(launched_part(Trace(recorded)), 1.0), None, runs, side=side)
        described = json.dumps({**_described(side), "reference": digest}).encode()
        files = _below(f"b/{RUNS}", seeds.unsigned(read_folder(runs)))
        own = _below("b", seeds.unsigned(read_folder(runs / "torch-float32")))
        found.append({**script, **own, **files, DESCRIBED: described})
    return found


def _below(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": entry for name, entry in files.items()}


def _described(side: MadeProcess) -> dict[str, object]:
    asked = next(arguments for request, arguments in side.asked if request == "prepare")
    answered = side.ask("prepare", **asked).result()
    described = {name: answered[name] for name in ("facts", "variables", "initial_slots", "own_values")}
    return {**described, "slots": answered["facts"]["slots"], "sections": {}, "notes": ["it shuffles"]}


def mutated_kept(draw: Random, known: Sequence[Files]) -> Files:
    """Returns an input whose program has left other runs."""
    files = draw.choice(known)
    if draw.random() < 0.5:
        return mutated_below(draw, files, f"b/{RUNS}", known, (DESCRIPTION_FILE,))
    return mutated_below(draw, files, "b", known)


def compare_kept(place: Place, files: Files) -> None:
    """Judges the program by what it has left."""
    folder = place.lay(files)
    # That folder's owner is a process of its own, which is there to outlive this one, and no part of the reader.
    with mock.patch.object(program, "temporary_folder", tempfile.TemporaryDirectory):
        run_verb(compare, folder / "a", folder / "b")
