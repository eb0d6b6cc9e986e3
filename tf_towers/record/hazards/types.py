"""What a recorder tells of a script that its port has to know."""

from typing import NamedTuple


class Hazard(NamedTuple):
    """One thing about a script that its port has to know.

    Fields:
      name: short, stable, e.g. "sum_not_mean".
      evidence: what was seen, with names and numbers.
      meaning: what it means for the port.
    """

    name: str
    evidence: str
    meaning: str
