"""Faults of the machine at moments of the commands: what each leaves, says and ends with.

Usage: [FAULTS_PATIENCE=N] python -m tests.faults [--only PATTERN] [--list] [-j N] [--out FILE] [--inputs DIR]

A cell is a command, a moment of it and a fault, written ``run/reference/kill``. Moments are not slept for: `hooks` stops the
process that gets there, and the fault comes while it stands. `commands` has what is run, `moments` where it is stopped,
`faults` what happens then, `cells` which of their combinations are tried and what each may end with, `observation` what is
looked for afterwards.
"""

import sys
from pathlib import Path

if str(Path(__file__).parents[1]) not in sys.path:  # where pytest finds `support`
    sys.path.append(str(Path(__file__).parents[1]))
