"""The command: see the package."""

import argparse
import sys
import warnings
from pathlib import Path

from .campaign import Campaign, Reading, scratch
from .inputs import from_json
from .planted import PLANTED
from .readers import READERS


def main(arguments: list[str] | None = None) -> int:
    """Runs, and returns 0 where nothing was found, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Reads inputs that nobody would write.")
    parser.add_argument("--minutes", type=float, default=1.0, metavar="N", help="how long (default: 1)")
    parser.add_argument("--inputs", type=int, metavar="N", help="end after so many inputs")
    parser.add_argument("--findings", type=int, metavar="N", help="end after so many different ones")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all inputs (default: 0)")
    known = {reader.name: reader for reader in (*READERS, *PLANTED)}
    parser.add_argument(
        "--only", action="append", choices=known, metavar="READER", help=f"one of {', '.join(known)}; may be repeated"
    )
    parser.add_argument("-j", dest="workers", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument(
        "--most-seconds", type=float, default=10.0, metavar="S", help="after which a reader hangs (default: 10)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="leave findings with their inputs here")
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="read one such input again; its reader is the file's name, or --only",
    )
    asked = parser.parse_args(arguments)
    if asked.replay:
        name = asked.only[0] if asked.only else asked.replay.name.rpartition("-")[0]
        with scratch() as folder:
            outcome = Reading(folder).look(known[name], from_json(asked.replay.read_text()))
        print(f"{outcome.kind}: {outcome.what}\n{outcome.detail}")
        return int(outcome.kind == "finding")
    campaign = Campaign(
        [known[name] for name in asked.only or [each.name for each in READERS]],
        asked.seed,
        asked.workers,
        asked.most_seconds,
    )
    campaign.run(60 * asked.minutes, asked.inputs, asked.findings)
    print(campaign.table())
    for found in campaign.findings.values():
        print(f"{found.reader} input {found.number}, {found.count} times: {found.outcome.what}")
    if asked.out and campaign.findings:
        campaign.leave(asked.out)
        print(f"findings with their inputs: {asked.out}")
    return int(bool(campaign.findings))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
