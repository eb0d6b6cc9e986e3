"""What ops take, and what their arguments are set to."""

from collections.abc import Mapping, Sequence
from typing import Any

Arguments = Sequence[Any]
Attributes = Mapping[str, Any]


def set_to(name: str, place: str, arguments: Arguments, attributes: Attributes, default: Any = None) -> Any:
    """Returns what an argument is set to, by its name or its place."""
    if name in attributes:
        return attributes[name]
    number = int(place)
    return arguments[number] if number < len(arguments) and arguments[number] is not None else default
