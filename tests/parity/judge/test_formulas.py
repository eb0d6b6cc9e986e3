"""The formula in each allowance's docstring is what it computes, and the table of the method's page is made of these."""

import math
from pathlib import Path

import pytest

from parity.judge import allowances
from parity.judge.judge import MeasuredPair
from parity.trace import parse_key

PAGE = Path(__file__).parents[3] / "docs" / "method.md"
UNITS = {"u64": 2.0**-53, "u32": 2.0**-24, "u16": 2.0**-11, "u": 2.0**-24, "z": 2.0**-25}
# What the formulas are told of: allowance, its value for a pair, and by their names in the formula the numbers of that pair.
SIZE, MOVED, ET, EP = 7.0, 0.3, 2.0**-20, 3 * 2.0**-21
TOLD = {"T": SIZE, "dT": MOVED, "eT": ET, "eP": EP, "max": max, "sqrt": math.sqrt, **UNITS}


def pair(text="var/w", rounding=(ET, EP), updated=True):
    key = parse_key(text)
    return MeasuredPair(0, key, text, SIZE, 0.0, MOVED, updated, 2.0**-24, 4, rounding=rounding)


CASES = {
    "loaded": (allowances.loaded(pair()), {}),
    "function": (allowances.function(pair()), {}),
    "function_in_float32": (allowances.function_in_float32(pair()), {}),
    "free_running": (
        allowances.free_running([0], 0.0, [])(pair(rounding=(2.0**-40,))),
        {"step": 0.0, "spread": 2.0**-40, "amplification": 1.0},
    ),
    "float32": (allowances.float32(pair(rounding=(ET, EP, 2.0**-19, 2.0**-22))), {"W": 2.0**-19, "S": 2.0**-22}),
    "trajectory": (allowances.trajectory(pair(rounding=(0.25,))), {"sR": 0.25, "sP": 0.125}),
    "mixed": (
        allowances.mixed("float16", lambda pair: 8.0)(pair(rounding=(0.5, 2.0))),
        {"H": 0.5, "w": 2.0, "n": 4, "loss_scale": 8.0},
    ),
    "fixed": (allowances.fixed(3, 100.0)(pair()), {"n": 3, "S": MOVED}),
}


def formulas(name):
    """Returns the formula of an allowance, and what is said of its parts, as its docstring has them."""
    text = getattr(allowances, name).__doc__
    block = text.split("\n\n")[1].strip().splitlines()
    return [line.strip() for line in block]


@pytest.mark.parametrize("name", CASES)
def test_the_formula_in_a_docstring_is_what_is_computed(name):
    allowed, told = CASES[name]
    limit, *parts = formulas(name)
    known = {**TOLD, **told}
    for part in parts:
        left, right = part.split(" = ")
        if left not in told:
            known[left] = eval(right, {}, known)
    assert eval(limit, {}, known) == pytest.approx(allowed.limit, rel=1e-12)


def test_the_table_of_the_method_has_the_formulas_of_the_code():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    table = {row.split("|")[1].strip(" `"): row for row in rows if row.split("|")[1].strip(" `") in CASES}
    assert list(table) == list(CASES)
    for name, row in table.items():
        assert row.split("|")[2].strip() == "<br>".join(f"`{line}`" for line in formulas(name)), name
