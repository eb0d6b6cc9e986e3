"""Lets the tests of the pages drive the browser that those of the reports drive."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "parity"))  # chromium.py
