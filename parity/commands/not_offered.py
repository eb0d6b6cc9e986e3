"""What the command line has by design but this version cannot do yet; each says so in one line."""

import argparse
from typing import Any

OPTIONS = {
    "--precision": "not offered yet: level 1 is float64, level 2 is float32",
    "--opt-level": "not offered yet: both sides run without mixed precision, O0",
}
VERBS = {
    "port": "Write the port by hand and prove it with `parity run`",
    "scan": "Read the legacy source by hand",
}


class Refuse(argparse.Action):
    """Ends the command, saying that an option is not offered yet."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Raises what `parser.error` raises: exit code 2 and one line."""
        parser.error(f"{option_string}: {OPTIONS[option_string]}.")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options, named in the help as what they are."""
    for option in OPTIONS:
        parser.add_argument(option, action=Refuse, help=argparse.SUPPRESS)
    parser.epilog = f"Not offered yet: {', '.join(OPTIONS)}."


def add_verbs(verbs: Any) -> None:
    """Adds the verbs, left out of the list of those that work."""
    for name in VERBS:
        sub = verbs.add_parser(name, add_help=False)
        sub.add_argument("rest", nargs=argparse.REMAINDER)
        sub.set_defaults(run=None)
