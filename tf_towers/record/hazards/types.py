"""What a recorder tells of a script that its port has to know."""

import collections

Hazard = collections.namedtuple("Hazard", ["name", "evidence", "meaning"])
Hazard.__doc__ = """One thing about a script that its port has to know.

Fields:
  name: short, stable, e.g. "sum_not_mean".
  evidence: what was seen, with names and numbers.
  meaning: what it means for the port.
"""
