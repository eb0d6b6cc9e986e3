"""What mapping needs to know of a variable, and what mapping raises."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class MappingError(ValueError):
    """The variables of the two sides cannot be joined, or an array does not fit its transform.

    Attributes:
      table: a [mapping] table with what is known and guessed, ready to be completed and used; "" where there is none.
    """

    def __init__(self, message: str, table: str = "") -> None:
        super().__init__(message)
        self.table = table


class Variable(NamedTuple):
    """Describes one variable of one side.

    Fields:
      name: the framework's own.
      shape: its axes' sizes.
      dtype: e.g. "float32"; not compared, since each side may hold its own.
      kind: "weight" or "statistic".
      use: what computes with it. TensorFlow: op types joined with "+", e.g. "Conv2D+L2Loss". Torch: the class of its
        module, e.g. "Linear", or "" for a raw parameter. None or "" where unknown.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    kind: str = "weight"
    use: str | None = None

    @property
    def form(self) -> tuple[object, ...]:
        """All that decides what fits it: what is found out of one variable holds of every other one of its form."""
        return self.shape, self.kind, self.use

    def __str__(self) -> str:
        """Returns the name with what decides about it: "conv/kernel [5, 5, 1, 16] (weight, Conv2D)"."""
        return f"{self.name} {list(self.shape)} ({', '.join(filter(None, (self.kind, self.use)))})"


def variables_of(described: Mapping[str, Mapping[str, Any]]) -> list[Variable]:
    """Makes the variables of a trace, in its order, from its description: name to `shape`, `dtype`, `kind`, `use`."""
    return [
        # "" of a raw parameter means as little as no use at all, and compares like it.
        Variable(
            name,
            tuple(entry["shape"]),
            str(entry["dtype"]),
            str(entry["kind"]),
            entry.get("use") or None,
        )
        for name, entry in described.items()
    ]
