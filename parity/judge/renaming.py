"""Names and layouts of what is not a variable: feeds, activations, metrics."""

from collections.abc import Mapping

from parity.judge.numbers import Array
from parity.mapping import MappingEntry, MappingError, parse_transform


class Renaming:
    """Carries names and arrays of one quantity between the sides; what has no entry stays as it is.

    Args:
      quantity: "feed", "act" or "metric"; used in messages.
      entries: the reference's name to what the case says of it.

    Raises:
      MappingError: an entry names several tensors: only variables can be split.
    """

    def __init__(self, quantity: str, entries: Mapping[str, MappingEntry]) -> None:
        for name, entry in entries.items():
            if len(entry.to) != 1:
                raise MappingError(
                    f"mapping: expected one name for {name!r} in [mapping.{quantity}], got {', '.join(entry.to)}. "
                    "Only variables can become several."
                )
        self._entries = dict(entries)
        self._layouts: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        """Returns whether a name of the reference is carried otherwise than as it is."""
        return name in self._entries or name in self._layouts

    @property
    def layouts(self) -> dict[str, str]:
        """Name to transform of those whose layout was taken from the tensors."""
        return dict(self._layouts)

    def take_layout(self, name: str, transform: str) -> None:
        """Has a name of the reference carried by a transform, where no entry says by which."""
        if self._transform(name) is None:
            self._layouts[name] = transform

    def _transform(self, name: str) -> str | None:
        return self._entries[name].transform if name in self._entries else None

    def to_candidate(self, name: str) -> str:
        """Returns the candidate's name of the reference's `name`."""
        return self._entries[name].to[0] if name in self._entries else name

    def forward(self, name: str, array: Array) -> Array:
        """Carries an array of the reference to the candidate's layout."""
        text = self._transform(name) or self._layouts.get(name)
        return parse_transform(text).forward(array)[0] if text else array

    def backward(self, name: str, array: Array) -> Array:
        """Carries an array of the candidate to the layout of the reference's `name`."""
        text = self._transform(name) or self._layouts.get(name)
        return parse_transform(text).backward(array) if text else array
