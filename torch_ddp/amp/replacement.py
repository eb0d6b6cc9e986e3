"""A function of another module, replaced for a while."""

from collections.abc import Callable
from typing import Any


class Replacement:
    """Replaces an attribute between `watch` and `release`."""

    def __init__(self, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Prepares the replacement.

        Args:
            owner: a module or class.
            name: of its attribute.
            wrap: returns what takes the place of the function that it is called with; once released, that must do as
                the function does.
        """
        self._owner, self._name, self._wrap = owner, name, wrap
        self._original: Callable[..., Any] | None = None
        self._wrapper: Callable[..., Any] | None = None

    def watch(self) -> None:
        """Puts it in place."""
        self._original = getattr(self._owner, self._name)
        self._wrapper = self._wrap(self._original)
        setattr(self._owner, self._name, self._wrapper)

    def release(self) -> None:
        """Puts the former one back, unless somebody wrapped ours since: then ours stays and does what that did."""
        if self._original is not None and getattr(self._owner, self._name) is self._wrapper:
            setattr(self._owner, self._name, self._original)
