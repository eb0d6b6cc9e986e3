"""Reads which levels are asked for on the command line."""

import argparse

LEVEL_NAMES = {"1": "function", "2": "float32", "3": "trajectory", "4": "mixed"}


def level_names(text: str) -> list[str]:
    """Returns the names of levels that are given by number or name, e.g. "1,2"."""
    return _named(text, LEVEL_NAMES)


def replayed_level_names(text: str) -> list[str]:
    """The same of those that a replay decides."""
    return _named(text, {number: LEVEL_NAMES[number] for number in ("1", "2")})


def _named(text: str, known: dict[str, str]) -> list[str]:
    names = []
    for part in text.split(","):
        name = known.get(part.strip(), part.strip())
        if name not in known.values():
            raise argparse.ArgumentTypeError(
                f"expected levels among {', '.join([*known, *known.values()])}, got {part!r}"
            )
        names.append(name)
    return names
