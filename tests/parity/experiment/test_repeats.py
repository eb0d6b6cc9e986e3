"""Each side against itself, and what a verdict rests on."""

import numpy as np
import pytest

from parity.experiment.rejudge.repeatability import set_aside_wandering
from parity.judge.levels.function import judge_init
from parity.judge.metrics import distance, is_constant, norm
from parity.judge.repeatability import Repeat, judge_repeat
from parity.judge.result import Check, Level, Result
from parity.report.view import account, accounting
from parity.trace import Trace, TraceWriter

COMPARABLE = 2.0**-10


def trace(folder, **tensors):
    writer = TraceWriter(folder, {"package": "test"})
    writer.init({})
    writer.step(0, {name.replace("_", "/"): np.asarray(value) for name, value in tensors.items()})
    writer.close()
    return Trace(folder)


def test_equal_runs_repeat_bit_for_bit_infinities_and_holes_included(tmp_path):
    once = trace(tmp_path / "a", grad_w=np.array([1.0, np.nan, np.inf], np.float32), feed_0_x=np.array([1, 2]))
    again = trace(tmp_path / "b", grad_w=np.array([1.0, np.nan, np.inf], np.float32), feed_0_x=np.array([1, 2]))
    found = judge_repeat("reference", once, again, [0])
    assert found == Repeat("reference", 2, 0, 0.0, "")
    assert found.sentence == "reference: runs repeat bit for bit" and found.comparable


def test_a_side_that_adds_in_another_order_wanders_a_little_on_the_scale_of_all_of_a_quantity(tmp_path):
    once = trace(tmp_path / "a", grad_w=np.array([3.0, 4.0]), grad_b=np.array([1e-9]))
    again = trace(tmp_path / "b", grad_w=np.array([3.0, 4.0]), grad_b=np.array([-1e-9]))
    found = judge_repeat("candidate", once, again, [0])
    assert (found.unequal, found.where, found.comparable) == (1, "step 0, grad/b", True)
    assert found.wanders == pytest.approx(2e-9 / 5)
    assert found.sentence == "candidate: run-to-run difference 4e-10 (step 0, grad/b; 1 of 2 tensors)"


@pytest.mark.parametrize("value", [np.array([3.0, 4.0 * (1 + 2 * COMPARABLE)]), np.array([3.0, np.nan]), np.zeros(3)])
def test_a_side_that_draws_anew_breaks_down_or_changes_shape_cannot_be_compared(tmp_path, value):
    once = trace(tmp_path / "a", grad_w=np.array([3.0, 4.0]))
    assert not judge_repeat("reference", once, trace(tmp_path / "b", grad_w=value), [0]).comparable


def test_nothing_can_match_a_reference_that_does_not_repeat():
    levels = {"function": Level("function", "different", ""), "float32": Level("float32", "same", "")}
    levels = set_aside_wandering(levels, [Repeat("reference", 9, 3, 0.5, "step 0, loss/0")])
    assert [level.verdict for level in levels.values()] == ["incomparable", "same"]
    assert levels["function"].notes == [
        "the reference does not repeat itself: run-to-run difference 0.5 (step 0, loss/0; 3 of 9 tensors). "
        "An op draws other random numbers in every run: leave it out, or feed it"
    ]


@pytest.mark.parametrize(
    ("draws", "named"),
    [
        (["a/drop/Random"], "(a/drop/Random): leave"),
        (list("abc"), "(a, b, c): leave"),
        (list("abcde"), "(a, b, c and 2 more): leave"),
    ],
)
def test_the_ops_that_draw_are_named(draws, named):
    levels = {"function": Level("function", "different", "")}
    levels = set_aside_wandering(levels, [Repeat("reference", 9, 3, 0.5, "step 0, loss/0")], draws)
    assert f"An op draws other random numbers in every run {named} it out, or feed it" in levels["function"].notes[0]


def test_a_candidate_that_does_not_repeat_is_no_excuse():
    levels = {"function": Level("function", "different", "")}
    assert set_aside_wandering(levels, [Repeat("candidate", 9, 3, 0.5, "step 0, loss/0")]) == levels


def test_a_verdict_says_how_many_tensors_it_rests_on_and_how_many_say_little():
    checks = [
        Check("free", 0, "var/w", "same", 1e-9, 1e-8, 1.0, 2.0),
        Check("free", 0, "var/b", "same", 0.0, 1e-8, 0.0, 0.0),
        Check("free", 0, "var/c", "same", 0.0, 1e-8, 1.0, 3.0, "", True),
        Check("free", 0, "grad/c", "same", 1e-9, 1e-8, 1.0, 1e-9),
        Check("free", 0, "loss/0", "different", np.inf, note="values that are not finite in the candidate", size=1.0),
        Check("free", 0, "slot/m/w", "not_run", note="why"),
    ]
    counts = account(checks)
    assert counts == {"compared": 5, "skipped": 1, "all_zero": 1, "constant": 1, "not_finite": 1, "trivial": 1}
    result = Result({"function": Level("function", "different", "", checks)}, {}, {})
    assert accounting(result) == (
        "compared 5 tensors; skipped 1; all zero 1; constant 1; not finite 1; smaller than their tolerance 1"
    )
    one, other = Repeat("reference", 9, 0, 0.0, ""), Repeat("candidate", 9, 1, 1e-8, "step 1, loss/0")
    result.repeats = [one, one]
    assert accounting(result).endswith("; runs of either side repeat bit for bit")
    result.repeats = [one, other]
    assert accounting(result).endswith(
        "; reference: runs repeat bit for bit; candidate: run-to-run difference 1e-08 (step 1, loss/0; 1 of 9 tensors)"
    )


def test_an_array_is_constant_where_several_elements_are_one_number():
    assert is_constant(np.full((40, 40), 3.0)) and is_constant(np.zeros(2))
    late = np.full(1000, 3.0)
    late[-1] = 4.0
    assert not is_constant(late) and not is_constant(np.float32(3.0)) and not is_constant(np.zeros(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
def test_norms_and_distances_are_those_of_linear_algebra(size, dtype):
    draw = np.random.default_rng(size)
    one, other = draw.standard_normal((2, size)).astype(dtype)
    assert norm(one) == pytest.approx(np.linalg.norm(one.astype(np.float64)), rel=1e-13)
    apart = one.astype(np.float64) - other.astype(np.float64)
    assert distance(one, other) == pytest.approx(np.linalg.norm(apart), rel=1e-13)


@pytest.mark.parametrize("size", [3, 100_000])
def test_norms_neither_overflow_nor_vanish_and_pass_on_what_is_not_finite(size):
    assert norm(np.full(size, 1e200)) == pytest.approx(1e200 * size**0.5)
    assert norm(np.full(size, 1e-200)) == pytest.approx(1e-200 * size**0.5)
    assert distance(np.full(size, 1e200), np.full(size, -1e200)) == pytest.approx(2e200 * size**0.5)
    broken = np.ones(size)
    broken[1] = np.inf
    assert norm(broken) == np.inf and distance(broken, np.ones(size)) == np.inf
    broken[1] = np.nan
    assert np.isnan(norm(broken)) and np.isnan(distance(np.ones(size), broken))
    assert norm(np.zeros(size)) == 0.0


def test_a_check_of_the_start_knows_what_is_constant(tmp_path):
    from parity.mapping import build_mapping, variables_of
    from parity.mapping.trace_map import Join

    writer = TraceWriter(tmp_path / "t", {"package": "test"})
    writer.init({"var/w": np.array([1.0, 2.0]), "var/b": np.array([3.0, 3.0])})
    writer.close()
    known = variables_of({name: {"shape": [2], "dtype": "float32", "kind": "weight"} for name in ("w", "b")})
    join = Join(build_mapping(known, known, {}), {}, [])
    file = Trace(tmp_path / "t").init()
    assert {check.key: check.constant for check in judge_init(join, file, file)} == {"var/w": False, "var/b": True}
