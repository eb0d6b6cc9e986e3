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


# Each is asked in its test, so that whoever looks which tests run a line finds it there.
CASES = {
    "loaded": (lambda: allowances.loaded(pair()), {}),
    "function": (lambda: allowances.function(pair()), {}),
    "function_in_float32": (lambda: allowances.function_in_float32(pair()), {}),
    "free_running": (
        lambda: allowances.free_running([0], 0.0, [])(pair(rounding=(2.0**-40,))),
        {"step": 0.0, "spread": 2.0**-40, "amplification": 1.0},
    ),
    "float32": (
        lambda: allowances.float32(pair(rounding=(ET, EP, 2.0**-19, 2.0**-22))),
        {"W": 2.0**-19, "S": 2.0**-22},
    ),
    "trajectory": (lambda: allowances.trajectory(pair(rounding=(0.25,))), {"sR": 0.25, "sP": 0.125}),
    "mixed": (
        lambda: allowances.mixed("float16", lambda pair: 8.0)(pair(rounding=(0.5, 2.0))),
        {"H": 0.5, "w": 2.0, "n": 4, "loss_scale": 8.0},
    ),
    "fixed": (lambda: allowances.fixed(3, {"all": 100.0})(pair()), {"n": 3, "S": MOVED, "k": 1.0}),
}


def formulas(name):
    """Returns the formula of an allowance, and what is said of its parts, as its docstring has them."""
    text = getattr(allowances, name).__doc__
    block = text.split("\n\n")[1].strip().splitlines()
    return [line.strip() for line in block]


@pytest.mark.parametrize("name", CASES)
def test_the_formula_in_a_docstring_is_what_is_computed(name):
    asked, told = CASES[name]
    allowed = asked()
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


SCALES = {  # what was summed or updated to give the tensor, as far as rounding shows it
    "loaded": "T",
    "function": "(eT + eP) / u32 + dT",
    "function_in_float32": "(eT + eP) / u32 + dT",
    "free_running": "limit / (64 * u64)",
    "float32": "2.0**-19 / u32 + dT",
    "trajectory": "0.25",
    "mixed": "limit / (4 * u16)",
    "fixed": "dT",
}


@pytest.mark.parametrize("name", CASES)
def test_a_difference_is_told_in_units_of_what_was_summed_or_updated(name):
    allowed = CASES[name][0]()
    assert allowed.scale == pytest.approx(eval(SCALES[name], {}, {**TOLD, "limit": allowed.limit}), rel=1e-12)


def test_what_moves_further_than_it_rounds_is_told_in_units_of_its_move():
    far = pair(rounding=(0.0, 0.0))._replace(moved=1e6, size=1e9)
    assert allowances.mixed("bfloat16", lambda pair: 1.0)(far).scale == pytest.approx(2 * 1e6)
    assert allowances.free_running([0], 0.0, [])(far._replace(rounding=())).scale == pytest.approx(8 * 1e9)
    assert allowances.racing_average("float64")(far).scale == 1e6
    raced = far._replace(rounding=(2.0**-12,))
    assert allowances.racing_statistic("float64")(raced).scale == pytest.approx(2 * 2.0**12 + 1e6)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", ["racing_statistic", "racing_average"])
def test_the_formula_of_what_races_is_what_is_computed(name, precision):
    [formula] = [line.partition(": ")[2] for line in formulas(name) if line.startswith(precision)]
    allowed = getattr(allowances, name)(precision)(pair(rounding=(EP,)))
    assert allowed.limit == pytest.approx(eval(formula, {}, {**TOLD, "e": EP}), rel=1e-12)


@pytest.mark.parametrize(("own", "larger"), [((), 7.0), ((5.0,), 7.0), ((9.0,), 9.0)])
def test_a_start_is_allowed_a_part_of_the_larger_of_the_two(own, larger):
    allowed = allowances.started(pair(rounding=own))
    assert (allowed.limit, allowed.scale) == (2.0**-22 * larger, 7.0)


def test_only_an_update_is_allowed_what_storing_it_rounds():
    kept, moved = pair("slot/m/w", updated=False), pair()
    stored = [
        allowances.function(each).limit - 64 * (2.0**-29 * (ET + EP) + 4 * 2.0**-53 * MOVED) for each in (kept, moved)
    ]
    assert stored == pytest.approx([0.0, 2 * 2.0**-53 * SIZE], abs=1e-22)
    assert allowances.fixed(3, {"all": 100.0})(kept).limit == pytest.approx(3 * 2.0**16 * 2.0**-24 * SIZE, rel=1e-12)


def test_where_no_distance_is_known_a_few_roundings_are_allowed():
    assert allowances.float32(pair(rounding=())).limit == pytest.approx(3 * 2 * 2.0**-24 * MOVED, rel=1e-12)


def test_what_float32_foretells_nothing_of_cannot_be_compared_beyond_its_limit_and_says_so():
    found = allowances.function(pair(rounding=())._replace(unknown=True))
    assert (found.beyond, found.note) == (
        "incomparable",
        "in float32 it is not finite on either side, in float64 it is",
    )
    assert (allowances.function(pair()).beyond, allowances.function(pair()).note) == ("different", "")
