"""The quantities that a run records, by what it is for."""

from parity.trace import QUANTITIES


def _but(*left_out: str) -> tuple[str, ...]:
    return tuple(quantity for quantity in QUANTITIES if quantity not in left_out)


# Draws are fed, and inference is asked for where there is any.
EVERYTHING = _but("noise", "eval")
FREE = _but("noise", "eval", "feed", "act", "tower_grad", "tower_clip")
SPREAD = _but("noise", "eval", "state", "feed")
WEIGHTS, FEEDS = frozenset(["var"]), frozenset(["feed"])
