"""Where the script makes what a port has: comments behind its layers, blocks and functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parity.port.source.form import LINE_WIDTH
from parity.port.tower.regions import Frame
from parity.trace.escape import one_line

CONSTRUCTOR_INDENT = 8  # characters of indentation of a statement of a constructor


@dataclass
class Citations:
    """Comments on where things are made. Each function of the script is named where it is met first.

    Args:
      owner: a line of the script's function that the class is; None where it is none.
      named: the functions that other classes have named, by file and name; grows.
    """

    owner: Frame | None
    named: set[tuple[str, str]] = field(default_factory=set)
    _before: str = ""

    def __post_init__(self) -> None:
        if self.owner is not None:
            self.named.add(function_of(self.owner))
            self._before = _place(self.owner)

    def of(self, stack: Sequence[Frame], statement: str) -> str:
        """Returns the comment behind a statement, "" for none.

        A line that says no more than that of the statement before is left out, and one for which there is no room: only a
        function's name is worth a line of its own.

        Args:
          stack: the lines of the script that a layer was made in, outermost first; of a block those of all its layers.
          statement: that makes it.
        """
        level = self._level(stack)
        inner = stack[level + 1 :] if level is not None else stack[-1:]
        new = [each for each in inner if not each.function.startswith("<") and function_of(each) not in self.named]
        self.named.update(map(function_of, new))
        found = ", ".join(map(cited, new))
        line = _place(stack[level if level is not None else -1]) if stack else ""
        if not new and line != self._before:
            found = line
        self._before = line
        cited_statement = f"{statement}  # {one_line(found)}" if found else statement
        return without_room(cited_statement).removeprefix(statement)

    def _level(self, stack: Sequence[Frame]) -> int | None:
        """Where in a stack the class's own function is."""
        own = function_of(self.owner) if self.owner is not None else None
        return max((level for level, each in enumerate(stack) if function_of(each) == own), default=None)


def function_of(frame: Frame) -> tuple[str, str]:
    """Returns file and name of the function that a line is in."""
    return frame.file, frame.function


def cited(frame: Frame) -> str:
    """Returns a line of the script with its function."""
    return f"{_place(frame)} {frame.function}()"


def comment(frame: Frame | None) -> str:
    """Returns the comment that a class or function has behind its name."""
    return f"  # {one_line(cited(frame))}" if frame is not None else ""


def common(stacks: Iterable[Sequence[Frame]]) -> list[Frame]:
    """Returns the frames, from the outermost on, that several stacks begin with.

    The last of them is the first line of the function where they part, as that of a scope with several calls in it.
    """
    own = [[*stack] for stack in stacks]
    found: list[Frame] = []
    for same in zip(*own, strict=False):
        if len({function_of(each) for each in same}) > 1:
            break
        found.append(min(same, key=lambda frame: frame.line))
        if len(set(same)) > 1:
            break
    return found


def without_room(statement: str) -> str:
    """Returns a statement of a constructor without its comment, where that is a line alone and does not fit behind it."""
    code, separator, found = statement.rpartition("  # ")
    fits = CONSTRUCTOR_INDENT + len(statement) <= LINE_WIDTH
    return statement if fits or not separator or found.endswith("()") else code


def _place(frame: Frame) -> str:
    return f"{frame.file}:{frame.line}"
