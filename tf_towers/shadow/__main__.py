"""Computes a recorded trace once more in float64.

Usage: python -m tf_towers.shadow TRACE
"""

import sys
from typing import Sequence


def main(arguments: Sequence[str]) -> int:
    """Makes the shadow and says so on stderr; returns the exit code: 2 where there is none."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tf_towers.shadow TRACE\n")
        return 2
    from parity.trace import DamagedError, TraceError
    from tf_towers.float64.errors import CannotShadow
    from tf_towers.shadow.build import make_shadow

    try:
        facts = make_shadow(arguments[0])
    except (CannotShadow, TraceError, DamagedError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    written_out = ", ".join(facts["expanded"]) or "none"
    sys.stderr.write(f"shadow: in float64 beside the trace; ops written out as plain ones: {written_out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
