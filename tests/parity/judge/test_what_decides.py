"""From checks to verdicts: what outranks what, what is judged again and within which limits."""

from types import SimpleNamespace

import numpy as np
import pytest
from made_pairs import JOIN, assert_limit, lockstep, trace

from parity.case import Ema
from parity.experiment.levels import judge_function, judge_single
from parity.experiment.recording import Recorded
from parity.experiment.rejudge.ill_conditioned import measure_kept, settle_empty_gradients
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE, settle_kinks
from parity.experiment.rejudge.races import Races, settle_races
from parity.experiment.replay.levels import Runs, _judge, _level
from parity.judge.judge import (
    Allowed,
    TensorPair,
    exact_check,
    judge,
    measure,
    missing,
    precheck,
    rounding_between,
)
from parity.judge.races import Outcome, kept_part, nearest, nearest_of_each, outcomes
from parity.judge.repeatability import judge_repeat
from parity.judge.result import (
    Cause,
    Check,
    DeclaredDifference,
    Explained,
    FirstDifference,
    Level,
    Result,
    decide,
    own_first,
    what_differs,
)
from parity.trace import parse_key

VERDICTS = ["different", "incomparable", "same", "not_run"]


def doubles(*values):
    return np.array(values, np.float64)


@pytest.mark.parametrize("rank", range(3))
def test_different_outranks_incomparable_and_that_outranks_same(rank):
    found = VERDICTS[rank:]
    for verdicts in (found, found[::-1]):
        assert decide([Check("lockstep", 0, "loss/0", verdict) for verdict in verdicts]) == VERDICTS[rank]
        result = Result({str(n): Level(str(n), verdict, "") for n, verdict in enumerate(verdicts)}, {}, {})
        assert (result.verdict, result.exit_code) == (VERDICTS[rank], (1, 2, 0)[rank])


def test_where_nothing_was_compared_nothing_is_known():
    checks = [Check("lockstep", 0, "loss/0", "not_run")]
    assert decide(checks) == decide([]) == "incomparable"
    nothing = Result({"a": Level("a", "not_run", "")}, {}, {})
    assert nothing.verdict == Result({}, {}, {}).verdict == "incomparable"
    assert nothing.exit_code == 2


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "same"),
        ({"combination": "tool"}, "same"),
        ({"ranks": 1, "combination": "tool"}, "same"),
        ({"ranks": 2, "combination": "port"}, "same"),
        ({"ranks": 2, "combination": "tool"}, "same (combination: ours, not the port's)"),
    ],
)
def test_who_combines_the_gradients_of_ranks_is_said_beside_same(facts, words):
    result = Result({"function": Level("function", "same", "")}, {}, facts)
    assert (result.verdict_in_words, result.exit_code) == (words, 0)
    assert result.strict_exit_code == (0 if words == "same" else 2)
    different = Result({"function": Level("function", "different", "")}, {}, facts)
    assert (different.verdict_in_words, different.exit_code, different.strict_exit_code) == ("different", 1, 1)


def test_what_was_judged_in_float32_alone_or_not_at_all_is_no_whole_same():
    levels = {"float32": Level("float32", "same", "")}
    alone = Result(levels, {}, {}, float32_only="why")
    assert (alone.verdict_in_words, alone.exit_code, alone.strict_exit_code) == ("same (only float32 was judged)", 2, 2)
    partly = Result(levels, {}, {}, unjudged=["level 3"])
    assert (partly.exit_code, partly.strict_exit_code, partly.not_judged) == (0, 2, ["level 3"])


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["same", "not_run"], ""),
        (["same", "different", "incomparable", "not_run"], "2 of 3 tensors are not the same"),
        (["not_run"], ""),
    ],
)
def test_how_many_tensors_differ_is_counted_among_those_that_were_judged(verdicts, words):
    assert what_differs([Check("lockstep", 0, "loss/0", verdict) for verdict in verdicts]) == words


@pytest.mark.parametrize(
    ("share", "words"), [(1.0, "all of"), (1 - 0.9e-6, "all of"), (1 - 1.1e-6, "99.9999% of"), (0.25, "25% of")]
)
def test_what_a_cause_explains_is_told_in_percent(share, words):
    assert Explained(3, "loss/0", share).sentence == f"{words} loss/0 at step 3"
    assert Explained(3, "loss/0").sentence == "loss/0 at step 3; how much of it was not measured"


def test_a_difference_is_told_in_multiples_of_what_is_allowed_and_of_the_scale():
    check = Check("lockstep", 0, "loss/0", "different", difference=6.0, allowed=2.0, scale=4.0)
    assert (check.multiple, check.of_scale) == (3.0, 1.5)
    nothing = check._replace(allowed=0.0, scale=0.0)
    assert nothing.multiple == nothing.of_scale == np.inf
    assert nothing._replace(difference=0.0).multiple == nothing._replace(difference=0.0).of_scale == 0.0


def recorded(tmp_path, one, other, one32=None, other32=None, **candidate_facts):
    traces = lockstep(tmp_path, one, other, one32, other32, candidate_facts=candidate_facts)
    return Recorded(JOIN, traces.states, traces, traces.reference64, traces.candidate64, ({}, {}))


@pytest.mark.parametrize(("agree", "verdict"), [(True, "same"), (None, "same"), (False, "different")])
def test_ranks_that_hold_different_weights_are_different_whatever_the_checks_say(tmp_path, agree, verdict):
    facts = {} if agree is None else {"ranks_agree": agree}
    tensors = {"grad/w": doubles(1.0, 2.0)}
    found = recorded(tmp_path, tensors, tensors, **facts)
    replayed = SimpleNamespace(
        part=SimpleNamespace(begins=False, steps=[0], towers=2),
        join=JOIN,
        initial_slots={},
        written=[],
        mapping=SimpleNamespace(kept=[]),
    )
    runs = Runs(found.lockstep, None, "")
    levels = [
        judge_function(found, [0]),
        _level(replayed, runs, _judge(replayed, runs)),
    ]
    assert [level.verdict for level in levels] == [verdict, verdict]
    told = [any("the ranks hold different weights" in note for note in level.notes) for level in levels]
    assert told == [verdict == "different"] * 2
    assert all(decide(level.checks) == "same" for level in levels)


@pytest.mark.parametrize(
    ("note", "run", "allowed"),
    [
        (NON_DIFFERENTIABLE_NOTE, "lockstep", 3 * 2 * 2.0**-24 * 3.0 + 3 * 2.0**-4),
        ("", "lockstep", 3 * 2 * 2.0**-24 * 3.0),
        (NON_DIFFERENTIABLE_NOTE, "free", 3 * 2 * 2.0**-24 * 3.0),
    ],
)
def test_what_is_apart_at_a_kink_in_float64_may_be_so_in_float32(tmp_path, note, run, allowed):
    one, other = {"grad/w": doubles(3.0, 0.0)}, {"grad/w": doubles(3.0, 2.0**-4)}
    function = [Check(run, 0, "grad/w", "same", note=note)]
    level = judge_single(recorded(tmp_path, one, other), [0], function)
    [check] = level.checks
    assert check.allowed == pytest.approx(allowed) and check.difference == 2.0**-4
    assert check.verdict == level.verdict == ("same" if allowed > 2.0**-4 else "different")


class Smooth:
    """Stands for both sides beside a kink, where all is the same."""

    note = NON_DIFFERENTIABLE_NOTE

    def once_more(self):
        return [Check("lockstep", 0, "grad/w", "different", 1.0)]

    def alone(self, step):
        return [Check("lockstep", 0, key, "same") for key in ("grad/w", "grad/b")]

    def in_lockstep(self):
        return self.alone(0)


@pytest.mark.parametrize(
    ("beside", "verdict"),
    [
        (Check("lockstep", 0, "grad/b", "same"), "same"),
        (Check("lockstep", 0, "grad/b", "not_run"), "same"),
        (Check("lockstep", 0, "grad/b", "incomparable"), "different"),  # a missing tensor is no matter of rounding
        (Check("init", 0, "var/b", "different", 1.0), "different"),
        (Check("fresh", 0, "slot/m/b", "different", 1.0), "different"),
    ],
)
def test_beside_what_no_rounding_explains_nothing_is_a_kink(beside, verdict):
    checks = [beside, Check("lockstep", 0, "grad/w", "different", 1.0)]
    assert [check.verdict for check in settle_kinks(checks, [Smooth()])] == [beside.verdict, verdict]


def empty(size, allowed=1e-10, verdict="same", key="var/w", run="lockstep", difference=1.0):
    gradient = Check("lockstep", 0, "grad/w", verdict, float(verdict == "different"), allowed, 1.0, size)
    return [gradient, Check(run, 0, key, "different", difference, 0.25)]


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        (empty(0.99e-10), "same"),
        (empty(1e-10), "same"),
        (empty(1.01e-10), "different"),
        (empty(1.0), "different"),
        (empty(0.0, verdict="different"), "different"),
        (empty(0.0, key="slot/m/w"), "same"),
        (empty(0.0, key="ema/w"), "same"),
        (empty(0.0, key="stat/w"), "different"),
        (empty(0.0, key="var/b"), "different"),
        (empty(0.0, run="free"), "different"),
    ],
)
def test_only_what_is_made_of_a_gradient_within_its_own_allowance_is_judged_by_what_rounding_makes_of_it(
    checks, verdict
):
    assert settle_empty_gradients(checks, lambda lost: lambda check: 1.0)[1].verdict == verdict


LOST = 2.0**-60  # by float32 in both sides, of a gradient that cancels to 0 there


@pytest.mark.parametrize(
    ("key", "off", "size", "spread", "verdict"),
    [
        ("grad/w", 1.0, 1.0, 1 / 64, "same"),
        ("grad/w", 1.0, 1.0, 0.99 / 64, "different"),
        ("clip/w", 1.0, 0.0, 1 / 64, "same"),
        ("tower_grad/1/w", 1.0, 0.0, 1 / 64, "same"),
        ("grad/w", 1.01, 1.0, 1.0, "different"),
        ("grad/w", 1.0, 1.01, 1.0, "different"),
        ("grad/w", 1.0, 1.0, 0.0, "different"),  # it underflows, and no rounding moves it
        ("stat/w", 1.0, 1.0, 1.0, "different"),
    ],
)
def test_a_gradient_that_float32_cancels_on_both_sides_may_move_as_far_as_rounding_moves_it(
    key, off, size, spread, verdict
):
    check = Check("lockstep", 0, key, "different", off * LOST, 0.0, LOST * 2.0**24, size * LOST)
    assert settle_empty_gradients([check], lambda lost: lambda check: spread * LOST)[0].verdict == verdict


@pytest.mark.parametrize(("spread", "verdict"), [(1.0, "same"), (0.0, "different")])
def test_what_is_made_of_a_cancelled_gradient_is_judged_so_where_that_is_the_same_then(spread, verdict):
    gradient = Check("lockstep", 0, "grad/w", "different", LOST, 0.0, LOST * 2.0**24, LOST)
    update = Check("lockstep", 0, "var/w", "different", 1.0, 0.25)
    moves = {"grad/w": spread, "var/w": 1.0}
    found = settle_empty_gradients([gradient, update], lambda lost: lambda check: moves[check.key])
    assert [check.verdict for check in found] == [verdict] * 2


@pytest.mark.parametrize(
    ("run", "step", "key", "verdict"),
    [
        ("lockstep", 0, "tower_grad/1/w", "same"),
        ("lockstep", 1, "grad/w", "same"),
        ("lockstep", 2, "grad/w", "different"),  # a step that was not made again
        ("lockstep", 0, "grad/b", "different"),
        ("lockstep", 0, "slot/m/w", "different"),
        ("free", 0, "grad/w", "different"),
    ],
)
def test_a_gradient_may_move_as_far_as_those_of_its_variable_in_any_tower_and_step(run, step, key, verdict):
    lost = [Check("lockstep", each, "grad/w", "different", LOST, 0.0, LOST * 2.0**24, LOST) for each in range(2)]
    beside = Check(run, step, key, "same")
    found = settle_empty_gradients([*lost, beside], lambda lost: lambda check: float(check == beside))
    assert found[0].verdict == verdict


def test_of_that_64_times_what_rounding_moves_it_is_allowed(tmp_path):
    kept = trace(tmp_path, {"section/a/var/w": np.array(2.0**-10)}, ulp=1.0)

    def judge(off):
        return settle_empty_gradients(empty(0.0, difference=off), measure_kept(kept, "section/a/"))[1]

    assert_limit(judge, 0.25 + 64 * 2.0**-10)
    elsewhere = [check._replace(step=1) for check in empty(0.0, difference=0.26)]
    assert settle_empty_gradients(elsewhere, measure_kept(kept, "section/a/"))[1].verdict == "different"


@pytest.mark.parametrize(("off", "spread"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan)])
def test_what_is_not_finite_there_is_no_rounding(off, spread):
    found = settle_empty_gradients(empty(0.0, difference=off), lambda lost: lambda check: spread)[1]
    assert found.verdict == "different"


@pytest.mark.parametrize(("off", "comparable"), [(0.99 * 2.0**-10, True), (1.01 * 2.0**-10, False)])
def test_a_side_may_wander_by_a_thousandth_of_all_of_a_quantity(tmp_path, off, comparable):
    once = trace(tmp_path / "a", {"grad/w": doubles(3.0, 0.0), "grad/b": doubles(0.0, 4.0)})
    again = trace(tmp_path / "b", {"grad/w": doubles(3.0, 5.0 * off), "grad/b": doubles(0.0, 4.0)})
    found = judge_repeat("reference", once, again, [0])
    assert found.wanders == pytest.approx(off) and found.comparable is comparable


@pytest.mark.parametrize(("off", "shape"), [(0.9e-9, ()), (1.1e-9, (3,))])
def test_what_an_update_keeps_is_one_number_where_elements_agree_to_a_billionth(off, shape):
    once = doubles(5.0, 6.0, 7.0)
    parts = kept_part(once, once + 4.0 * doubles(0.9, 0.9, 0.9 + off), 4.0)
    assert parts.shape == shape and parts == pytest.approx(0.9, abs=2e-9)


def racing(tmp_path, precision, rough):
    def judge(off):
        folder = tmp_path / f"{off}"
        sides = {"stat/w": doubles(3.0, off)}, {"stat/w": doubles(3.0, 0.0)}
        traces = lockstep(folder, *sides, before={"stat/w": doubles(3.0 - 2.0**-8, 0.0)})
        alone = {
            "float64": [trace(folder / "alone64", sides[1])],
            "float32": [trace(folder / "alone32", {"stat/w": np.array([3.0, rough], np.float32)})],
        }
        moved = trace(folder / "moved", {"stat/w": doubles(3.9, 0.9)})
        check = Check("lockstep", 0, "stat/w", "different", 1.0)
        [judged] = settle_races([check], Races(frozenset(["stat/w"]), None, alone, moved), JOIN, traces, precision)
        return judged

    return judge


def test_what_races_may_be_off_an_order_by_what_level_1_allows(tmp_path):
    stored = 2 * 2.0**-53 * 3.0
    assert_limit(racing(tmp_path / "a", "float64", 0.0), 64 * 4 * 2.0**-53 * 2.0**-8 + stored)
    assert_limit(racing(tmp_path / "b", "float64", 2.0**-12), 64 * 2.0**-29 * 2 * 2.0**-12 + stored)


def test_what_races_may_be_off_an_order_by_what_level_2_allows(tmp_path):
    assert_limit(racing(tmp_path, "float32", 0.0), 3 * 2 * 2.0**-24 * 2.0**-8 + 2 * 2.0**-24 * 3.0)


@pytest.mark.parametrize(("precision", "unit", "limit"), [("float64", 2.0**-53, 64), ("float32", 2.0**-24, 3)])
def test_an_average_that_races_may_be_off_by_a_few_roundings_of_its_move(tmp_path, precision, unit, limit):
    def judge(off):
        weights = {"var/w": doubles(4.0, 0.0)}
        sides = ({**weights, "ema/w": doubles(3.0, each)} for each in (off, 0.0))
        before = {**weights, "ema/w": doubles(2.0, 0.0), "state/global_step": np.array(7)}
        traces = lockstep(tmp_path / f"{off}", *sides, before=before)
        races = Races(frozenset(["ema/w"]), Ema(decay=0.5, order="unordered"))
        [judged] = settle_races([Check("lockstep", 0, "ema/w", "different", 1.0)], races, JOIN, traces, precision)
        return judged

    assert_limit(judge, limit * 2 * unit * 1.0 + 2 * unit * 3.0)


def test_the_order_that_is_nearest_is_the_one_that_is_named():
    found = [
        Outcome("first", doubles(1.0, 5.0)),
        Outcome("second", doubles(2.0, 2.0)),
        Outcome("third", doubles(2.0, 2.0)),
    ]
    assert nearest(doubles(2.0, 2.5), found).order == "second"
    assert nearest(doubles(0.0, 6.0), found).order == "first"
    each = nearest_of_each(doubles(0.0, 1.0), found)
    assert (each.order, each.value.tolist()) == ("first and second", [1.0, 2.0])
    assert nearest_of_each(doubles(1.0, 5.0), found).order == "first"


def test_every_order_of_reads_and_writes_of_two_towers_has_its_outcome():
    before, alone = doubles(8.0), [doubles(6.0), doubles(5.0)]  # half of itself, and 2 and 1
    found = {(outcome.order, float(outcome.value[0])) for outcome in outcomes(before, alone, doubles(0.5))}
    assert {value for order, value in found if order == "read 0, write 0, read 1, write 1"} == {4.0}
    assert {value for order, value in found if order == "read 1, write 1, read 0, write 0"} == {4.5}
    assert {value for order, value in found if order == "read 0, read 1, write 0, write 1"} == {3.0, 5.0}
    assert {value for order, value in found if order == "read 0, read 1, write 1, write 0"} == {3.0, 6.0}
    assert len({order for order, _ in found}) == 6


KEY = parse_key("act/0/out")


def pair_of(one, other, **more):
    return TensorPair(3, KEY, str(KEY), np.array(one), np.array(other), **more)


@pytest.mark.parametrize(
    ("one", "other", "note"),
    [
        (np.zeros(2), np.zeros(2), None),
        (np.zeros(2), np.zeros(3), "shape (3,) where (2,) is expected"),
        (np.zeros(2), np.zeros((2, 1), np.float32), "shape (2, 1) where (2,) is expected"),
        (np.zeros(2), np.zeros(2, np.float32), "dtype float32 where float64 is expected"),
        (np.zeros(2), np.zeros(2, int), "dtype int64 where float64 is expected"),
        (np.zeros(2, int), np.zeros(2), "dtype float64 where int64 is expected"),
        (np.zeros(2, np.int32), np.zeros(2, np.int64), None),  # labels: numbers decide
        (np.zeros(2, bool), np.zeros(2, int), "dtype int64 where bool is expected"),
    ],
)
def test_another_shape_is_told_before_another_dtype_and_no_number_is_asked(one, other, note):
    check = precheck("lockstep", pair_of(one, other))
    assert (check and (check.verdict, check.note, check.difference)) == (note and ("different", note, np.inf))


@pytest.mark.parametrize(
    ("one", "other", "figures"),
    [
        (np.array([3, 4]), np.array([3, 6], np.uint8), ("different", 2.0, 0.0, 5.0, 5.0)),
        (np.array([3, 4], np.uint8), np.array([4, 4], np.uint8), ("different", 1.0, 0.0, 5.0, 5.0)),
        (np.array([3, 4]), np.array([3, 4]), ("same", 0.0, 0.0, 5.0, 5.0)),
        (np.array([2**53, 0]), np.array([2**53 + 1, 0]), ("different", 0.0, 0.0, 2.0**53, 2.0**53)),
    ],
)
def test_what_is_given_has_to_be_equal_and_how_far_it_is_off_is_shown(one, other, figures):
    check = exact_check("lockstep", 3, "feed/0/ids", one, other)
    assert (check.verdict, check.difference, check.allowed, check.scale, check.size) == figures
    assert (check.run, check.step, check.key) == ("lockstep", 3, "feed/0/ids")


def test_two_runs_of_a_side_are_as_far_apart_as_float64_says_or_nothing_is_known():
    one = np.array([1.0, 2.0**-30], np.float32)
    assert rounding_between(one, doubles(1.0, 2.0**-31)) == 2.0**-31
    assert rounding_between(one, doubles(1.0, np.nan)) is None and rounding_between(one * np.inf, one) is None
    assert rounding_between(None, one) == rounding_between(one, None) == rounding_between(one, one[:1]) == 0.0


@pytest.mark.parametrize(
    ("text", "note"), [("state/beta1_power", "such counter"), ("clip/w", "own step"), ("grad/w", "")]
)
def test_what_a_candidate_lacks_is_set_aside_where_it_need_not_show_it(text, note):
    found = missing(3, parse_key(text), text, ["clip"])
    assert (found.step, found.text) == (3, text) and note in found.note
    assert (found.verdict, found.difference) == (("not_run", 0.0) if note else ("incomparable", np.inf))


@pytest.mark.parametrize(("dtype", "unit"), [(np.float64, 2.0**-53), (np.float32, 2.0**-24), (int, 0.0)])
def test_what_is_measured_has_the_unit_roundoff_of_its_type(dtype, unit):
    [found] = measure("free", [pair_of(np.ones((2, 3), dtype), np.ones((2, 3), dtype))])
    assert (found.unit, found.elements, found.updated, found.rounding) == (unit, 6, False, ())
    assert not found.unknown and found.constant
    [asked] = measure("free", [pair_of([1.0], [1.0], before=doubles(0.5), rounding=lambda: [None, 2.0])])
    assert (asked.rounding, asked.unknown, asked.updated, asked.moved) == ((2.0,), False, True, 0.5)
    [unknown] = measure("free", [pair_of([1.0], [1.0], rounding=lambda: [None, None])])
    assert unknown.unknown


def test_within_no_finite_limit_nothing_is_proven():
    [check] = judge("free", [pair_of([1.0], [1.0])], lambda pair: Allowed(np.inf, 1.0))
    assert (check.verdict, check.note) == ("incomparable", "what rounding does to it is not finite")


def differs(step, key, **more):
    return FirstDifference(Check("lockstep", step, key, "different"), "", "", "", None, **more)


def explaining(name, *where):
    return Cause(name, "", "", "", Explained(*where) if where else None)


def test_causes_of_the_first_difference_stand_before_those_of_others():
    first = differs(3, "act/0/conv", decisive=differs(3, "loss/0"))
    of_another, of_it = explaining("b", 4, "loss/0", 1.0), explaining("a", 3, "act/0/conv", 0.5)
    decisive, untold = explaining("d", 3, "loss/0"), explaining("c")
    assert [cause.is_of(first) for cause in (of_another, of_it, decisive, untold)] == [False, True, True, True]
    assert not decisive.is_of(differs(3, "act/0/conv")) and not explaining("e", 3, "grad/w").is_of(first)
    causes = [of_another, decisive, untold, of_it]
    assert own_first(causes, first) == [decisive, untold, of_it, of_another]
    assert own_first(causes, None) == causes and own_first([], first) == []


def test_the_first_level_that_tells_a_difference_or_a_cause_tells_it_of_all():
    later, cause = differs(3, "grad/w"), explaining("a")
    levels = [Level("function", "same", ""), Level("float32", "different", "", (), later, [cause])]
    levels.append(Level("mixed", "different", "", (), differs(0, "loss/0"), [explaining("b")]))
    found = Result({level.name: level for level in levels}, {}, {})
    assert (found.first_difference, found.causes) == (later, [cause])
    assert (Result({}, {}, {}).first_difference, Result({}, {}, {}).causes) == (None, [])
    assert levels[0].with_notes("one").with_notes("two").notes == ["one", "two"]


@pytest.mark.parametrize(
    ("found", "words"),
    [("holds", "which holds"), ("absent", "WHICH IS NOT THERE"), ("not_known", "of which nothing is known")],
)
def test_a_declared_difference_is_told_with_who_declared_it_and_what_became_of_it(found, words):
    declared = DeclaredDifference("combine", "sum for mean", "the case", "a larger rate", found)
    assert declared.sentence == f"declared by the case: sum for mean, {words} (a larger rate)"


def test_a_check_that_says_no_more_than_its_verdict_is_off_by_nothing():
    check = Check("lockstep", 0, "loss/0", "same")
    assert (check.difference, check.allowed, check.scale, check.size, check.constant) == (0.0, 0.0, 0.0, 0.0, False)


@pytest.mark.parametrize(
    ("one", "other", "wanders"),
    [([0.5, 0.0], [0.5, 0.125], 0.25), ([0.0, 0.0], [0.0, 1.0], np.inf), ([1.0, np.nan], [1.0, 2.0], np.inf)],
)
def test_a_side_wanders_in_units_of_all_that_is_finite(tmp_path, one, other, wanders):
    sides = [
        trace(tmp_path / n, {"grad/w": np.array(v), "act/0/ids": np.array([1, 2])})
        for n, v in (("a", one), ("b", other))
    ]
    found = judge_repeat("candidate", *sides, [0])
    assert (found.tensors, found.unequal, found.wanders, found.where) == (2, 1, wanders, "step 0, grad/w")


def test_the_tensor_that_wanders_furthest_is_named(tmp_path):
    once = trace(tmp_path / "a", {"grad/w": doubles(1.0, 0.0), "loss/0": doubles(1.0), "var/w": doubles(1.0)})
    again = trace(tmp_path / "b", {"grad/w": doubles(1.0, 0.25), "loss/0": doubles(1.5), "var/w": doubles(1.25)})
    found = judge_repeat("reference", once, again, [0])
    assert (found.wanders, found.where, found.unequal, found.tensors) == (0.5, "step 0, loss/0", 3, 3)
    assert found.sentence == "reference: run-to-run difference 0.5 (step 0, loss/0; 3 of 3 tensors)"
    assert judge_repeat("reference", once, once, [0]).sentence == "reference: runs repeat bit for bit"
