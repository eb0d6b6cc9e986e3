"""What the command line has by design but this version cannot do yet; each says so in one line."""

import argparse
from typing import Any

VERBS = {
    "port": "Write the port by hand and prove it with `parity run`",
    "scan": "Read the legacy source by hand",
}


def add_verbs(verbs: Any) -> None:
    """Adds the verbs, left out of the list of those that work."""
    for name in VERBS:
        sub = verbs.add_parser(name, add_help=False)
        sub.add_argument("rest", nargs=argparse.REMAINDER)
        sub.set_defaults(run=None)
