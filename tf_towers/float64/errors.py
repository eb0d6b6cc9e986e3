"""Why there is no float64 shadow of a script."""

from typing import NoReturn


class CannotShadow(ValueError):
    """A graph cannot be computed in float64; the message names the op, and says what is left to judge."""


def refuse(what: str) -> NoReturn:
    """Raises `CannotShadow` for a reason."""
    raise CannotShadow(f"shadow: {what}. Level 2 only can be judged.")
