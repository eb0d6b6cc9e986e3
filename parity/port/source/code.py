"""Python expressions as text that know how tightly they bind."""

import math
import re
from typing import NamedTuple

import numpy as np

from parity.trace import escape
from parity.trace.arrays import Array

COMPARISON, SUMMED, MULTIPLIED, SIGNED, RAISED_TO, ATOM = range(6)  # how tightly it binds
SIMPLE = re.compile(r"-?(\d[\w.]*(e-\d+)?|[A-Za-z_][\w.]*)")  # a name, an attribute, a number
BINDING = {
    "+": SUMMED,
    "-": SUMMED,
    **dict.fromkeys(["*", "/", "//", "%", "@"], MULTIPLIED),
    "**": RAISED_TO,
}


class Code(NamedTuple):
    """An expression.

    Fields:
      text: the expression.
      binds: how tightly its outermost operator does.
    """

    text: str
    binds: int = ATOM

    def within(self, binds: int) -> str:
        """Returns the text for an operand of an operator that binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"


def call(function: str, *arguments: "Code | str", **named: object) -> Code:
    """Returns a call; arguments that are None are left out."""
    written = [each.text if isinstance(each, Code) else each for each in arguments]
    written += [f"{name}={value}" for name, value in named.items() if value is not None]
    return Code(f"{function}({', '.join(written)})")


def method(of: Code, name: str, *arguments: "Code | str", **named: object) -> Code:
    """Returns the call of a method."""
    return call(f"{of.within(ATOM)}.{name}", *arguments, **named)


def infix(first: Code, sign: str, second: Code) -> Code:
    """Returns two operands joined by an operator that groups from the left."""
    own = BINDING.get(sign, COMPARISON)
    left, right = first.within(own + (own in (COMPARISON, RAISED_TO))), second.within(own + 1)
    # As ruff format writes powers of names and numbers.
    hugged = sign == "**" and SIMPLE.fullmatch(left) and SIMPLE.fullmatch(right)
    return Code(f"{left}{sign}{right}" if hugged else f"{left} {sign} {right}", own)


def number(value: float) -> Code:
    """Returns a number as a reader would write it, exactly."""
    if math.isnan(value) or math.isinf(value):
        return Code(f'float("{value}")')
    text = repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else _shortest(float(value))
    return Code(text, SIGNED if text.startswith("-") else ATOM)


def _shortest(value: float) -> str:
    """The decimal number, or the fraction of small numbers where that is the same and shorter."""
    text = repr(value).replace("e+", "e")
    if len(text) < 12:
        return text
    for divisor in range(3, 1001):
        for dividend in (1, 2):
            if dividend / divisor == value:
                return f"({dividend} / {divisor})"
    return text


def whole(value: int) -> Code:
    """Returns an integer."""
    return Code(str(int(value)), SIGNED if value < 0 else ATOM)


def array(value: Array) -> str:
    """Returns nested lists of numbers."""
    if value.ndim == 0:
        each = value.item()
        return number(each).text if isinstance(each, float) else repr(each)
    return "[" + ", ".join(array(np.asarray(each)) for each in value) + "]"


def axes(found: "tuple[int, ...]") -> str:
    """Returns axes as an argument: a number, or a tuple."""
    return str(found[0]) if len(found) == 1 else str(tuple(found))


def identifier(text: str, fallback: str = "x") -> str:
    """Returns a name that Python takes, of a name of TensorFlow's; untrusted text becomes letters, digits and "_"."""
    found = re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_")
    found = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", found).lower()
    return escape.identifier(found, fallback) if found else fallback
