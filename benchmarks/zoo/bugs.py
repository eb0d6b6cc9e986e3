"""Reads a zoo case's list of bugs, and plants them in copies of the case."""

import shutil
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from parity.diagnose.catalogue import CAUSES

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

Kind = Literal["inputs", "forward", "loss", "aggregation", "update", "statistics", "evaluation"]


class Bug(BaseModel):
    """One bug of one case, as its author described it before anything was run.

    Attributes:
      id: its name within the case.
      file: the file of the case that it is planted in.
      find: text that stands there exactly once.
      replace: what stands there instead.
      kind: where in a step it is.
      module: path of the port's module whose output is wrong first, as in ``named_modules()``; "" for no forward bug. A
        report is in place too where it shows one of the planted lines, see `bench.at_its_place`.
      quantity: the quantity in which the sides differ first where layers are left out of account, in a trace's words: "act",
        "stat" (moving statistics), "loss", "tower_grad", "tower_clip", "grad" (combined), "clip", "slot", "var",
        "state" (a rate, a counter), "ema", "metric" or "eval".
      causes: identifiers of causes that say what it is; empty where the catalogue has none.
      words: what a good report would say.
      after: the public bug it is modelled on, in words.
      equivalent: why it changes nothing that can be measured, where that is so; then *same* is right.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    file: str
    find: str
    replace: str
    kind: Kind
    module: str = ""
    quantity: str
    causes: tuple[str, ...] = ()
    words: str
    after: str = ""
    equivalent: str = ""


def bugs_of(case: Path) -> list[Bug]:
    """Returns the bugs of a case's folder; raises ValueError where one cannot be planted."""
    table = tomllib.loads((case / "bugs.toml").read_text(encoding="utf-8"))
    bugs = [Bug.model_validate(entry) for entry in table["bug"]]
    names = [bug.id for bug in bugs]
    if len(set(names)) < len(names):
        raise ValueError(f"{case.name}/bugs.toml: expected ids that differ, got {sorted(names)}")
    for bug in bugs:
        count = (case / bug.file).read_text(encoding="utf-8").count(bug.find)
        unknown = [name for name in bug.causes if name not in CAUSES]
        if unknown:
            raise ValueError(f"{case.name}/{bug.id}: expected causes of parity.diagnose.catalogue, got {unknown}")
        if count != 1:
            raise ValueError(f"{case.name}/{bug.id}: expected its text once in {bug.file}, got {count} times")
    return bugs


def plant(case: Path, bug: Bug, into: Path) -> Path:
    """Copies a case's folder to `into` with the bug in it; returns the copy."""
    shutil.copytree(case, into, ignore=shutil.ignore_patterns("__pycache__"))
    file = into / bug.file
    file.write_text(file.read_text(encoding="utf-8").replace(bug.find, bug.replace), encoding="utf-8")
    return into


def planted_lines(case: Path, bug: Bug) -> range:
    """Returns the numbers, from 1, of the lines that hold what was planted; where text was taken out, of that place."""
    before = (case / bug.file).read_text(encoding="utf-8").partition(bug.find)[0]
    whole = bug.replace.rstrip()
    start = before.count("\n") + 1 + (len(whole) - len(whole.lstrip("\n")))
    return range(start, start + whole.strip("\n").count("\n") + 1)
