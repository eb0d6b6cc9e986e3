"""Runs verbs of the command line in this process, and looks at what they print."""

import argparse
from types import ModuleType
from typing import Any

from .demands import captured, require_text

_PARSERS: dict[str, argparse.ArgumentParser] = {}


def run_verb(verb: ModuleType, *words: Any) -> None:
    """Runs a verb, and looks at what it prints."""
    with captured() as shown:
        verb.run(_parser_of(verb).parse_args([str(word) for word in words]))
    require_text(shown.getvalue())


def _parser_of(verb: ModuleType) -> argparse.ArgumentParser:
    if verb.__name__ not in _PARSERS:
        verb.add_arguments(_PARSERS.setdefault(verb.__name__, argparse.ArgumentParser()))
    return _PARSERS[verb.__name__]
