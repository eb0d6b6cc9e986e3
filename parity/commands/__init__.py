"""The verbs of the command line, one file each."""

from types import ModuleType
from typing import Any, NamedTuple

from parity.commands import bless, compare, doctor, map, record, replay, run, show, teach


class Command(NamedTuple):
    """One verb.

    Fields:
      name: as typed.
      help: one line.
      add_arguments: function of a parser.
      run: function of the parsed arguments; returns the exit code.
    """

    name: str
    help: str
    add_arguments: Any
    run: Any


def _command(module: ModuleType) -> Command:
    name = module.__name__.rpartition(".")[2]
    return Command(name, (module.__doc__ or "").splitlines()[0], module.add_arguments, module.run)


COMMANDS = [_command(module) for module in (run, record, replay, compare, map, show, bless, teach, doctor)]
GIVE_VERDICTS = frozenset(["run", "replay", "compare"])  # they say "verdict: incomparable" where they fail
