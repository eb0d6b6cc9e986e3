"""Runs the command line: ``python -m parity``."""

import sys

from parity.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
