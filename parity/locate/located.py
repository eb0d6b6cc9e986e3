"""A first difference whose layer is known."""

from typing import NamedTuple

from parity.judge.result import FirstDifference
from parity.locate.matching import Pass
from parity.locate.search import Location


class Located(NamedTuple):
    """A first difference whose layer is known.

    Fields:
      first: the difference at its layer; as it was found where it is in none.
      place: what is known of the layer.
      passes: the forward passes of the reference and of the candidate that show it.
    """

    first: FirstDifference
    place: Location
    passes: tuple[Pass, Pass] | None = None
