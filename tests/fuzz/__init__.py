"""Inputs that nobody would write, for everything that reads what may come from a stranger.

Usage: python -m tests.fuzz --minutes N [--inputs N] [--seed S] [--only READER] [-j N] [--out DIR] [--replay FILE]

Every input follows from a seed, the name of a reader and a number: a worker that dies or hangs has left nothing behind
but the number, and its input is made again. `demands` says what is demanded of each, `readers` who reads.
"""

import sys
from pathlib import Path

if str(Path(__file__).parents[1]) not in sys.path:  # where pytest finds `support`
    sys.path.append(str(Path(__file__).parents[1]))
