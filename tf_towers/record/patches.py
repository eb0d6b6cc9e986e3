"""Replaces attributes of classes and modules, and puts the old ones back."""

_MISSING = object()


class Patches(object):
    """Keeps what was replaced; `undo` puts it back, last first."""

    def __init__(self):
        self._replaced = []

    def add(self, owner, name, value):
        """Replaces ``owner.name`` by `value`."""
        self._replaced.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def wrap(self, owner, name, make):
        """Replaces the function ``owner.name`` by ``make(function)``."""
        self.add(owner, name, make(vars(owner)[name]))

    def undo(self):
        """Puts back everything that was replaced."""
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
