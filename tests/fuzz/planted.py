"""Readers with a fault each, by which is shown that the driver finds it."""

import os
import time
from random import Random

from .demands import require_text
from .inputs import ALONE, Files, Place
from .readers import Reader, alone


def _raises(place: Place, files: Files) -> None:
    if files[ALONE] == b"fault":
        raise KeyError("facts")


def _hangs(place: Place, files: Files) -> None:
    while files[ALONE] == b"fault":
        time.sleep(0.1)


def _allocates(place: Place, files: Files) -> None:
    if files[ALONE] == b"fault":
        bytearray(2 << 30)


def _writes(place: Place, files: Files) -> None:
    if files[ALONE] == b"fault":
        (place.folder.parent.parent / "outside").write_bytes(b"")


def _runs(place: Place, files: Files) -> None:
    if files[ALONE] == b"fault":
        os.system("true")


def _ends(place: Place, files: Files) -> None:
    if files[ALONE] == b"fault":
        os.abort()


def _tells(place: Place, files: Files) -> None:
    if files[ALONE] == b"fault":
        require_text("a name \x1b[2J")


def _seldom(draw: Random, known: object) -> Files:
    return {ALONE: b"fault" if draw.random() < 0.02 else b"right"}


FAULTS = {
    "raises": _raises,
    "hangs": _hangs,
    "allocates": _allocates,
    "writes": _writes,
    "runs": _runs,
    "ends": _ends,
    "tells": _tells,
}
PLANTED = tuple(Reader(f"planted-{name}", alone(b"right"), _seldom, read) for name, read in FAULTS.items())
