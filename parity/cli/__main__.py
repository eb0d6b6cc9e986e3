"""Runs the command line: ``python -m parity.cli``."""

import sys

from parity.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
