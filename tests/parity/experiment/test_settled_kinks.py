"""What is judged beside a kink, and what another choice of gradients there can explain."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.rejudge import non_differentiable
from parity.experiment.rejudge.non_differentiable import (
    NON_DIFFERENTIABLE_NOTE,
    WITH_INPUTS,
    Beside,
    kink_notes,
    settle_kinks,
)
from parity.judge import Join
from parity.judge.levels.function import Lockstep
from parity.judge.result import Check
from parity.judge.spread import Replicas
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter

JOIN = Join(Mapping([Pair("w", ("w",), parse_transform("identity"), "", (2,))]), {}, [])


def trace(folder, *steps, init):
    writer = TraceWriter(folder, {})
    writer.init(init)
    for number, tensors in enumerate(steps):
        writer.step(number, tensors)
    writer.close()
    return Trace(folder)


class Made:
    """Stands for both sides moved alike: there only the checks named are different still."""

    def __init__(self, checks, note, different=(), again="different"):
        self.note, self.again = note, again
        self.steps = []
        self._checks = [each._replace(verdict="different" if each.key in different else "same") for each in checks]

    def alone(self, step):
        self.steps.append(step)
        return [check for check in self._checks if check.step == step and check.run == "lockstep"]

    def once_more(self):
        """Nothing moved: all that was different is so again, unless the test says that it does not repeat itself."""
        return [each._replace(verdict=self.again) for each in self._checks if each.run == "lockstep"]

    def in_lockstep(self):
        return [check for check in self._checks if check.run == "lockstep"]

    def free(self, lockstep):
        return [check for check in self._checks if check.run == "free"]


def checks(*keys, step=1, run="lockstep", verdict="different"):
    return [Check(run, step, key, verdict) for key in keys]


def settled(found, different_by_weights, different_by_inputs=()):
    weights, inputs = (
        Made(found, NON_DIFFERENTIABLE_NOTE, different_by_weights),
        Made(found, WITH_INPUTS, different_by_inputs),
    )
    return {check.key: (check.verdict, check.note) for check in settle_kinks(found, [weights, inputs])}


def test_what_weights_settle_is_not_judged_with_inputs():
    found = checks("tower_grad/0/w", "grad/w", "var/w")
    inputs = Made(found, WITH_INPUTS)
    assert {check.note for check in settle_kinks(found, [Made(found, NON_DIFFERENTIABLE_NOTE), inputs])} == {
        NON_DIFFERENTIABLE_NOTE
    }
    assert inputs.steps == []


def test_gradients_that_tie_by_inputs_are_settled_with_what_is_made_of_them():
    keys = ("tower_grad/0/w", "grad/w", "slot/m/w", "var/w")
    assert set(settled(checks(*keys), keys).values()) == {("same", WITH_INPUTS)}


def test_rows_of_a_sparse_gradient_explain_their_variable():
    keys = ("tower_grad/0/w.values", "grad/w.values", "var/w")
    assert set(settled(checks(*keys), keys).values()) == {("same", WITH_INPUTS)}


@pytest.mark.parametrize("forward", ["loss/0", "act/0/layer", "stat/norm/moving_mean", "metric/accuracy"])
def test_where_something_forward_differs_no_gradient_explains_it(forward):
    keys = (forward, "tower_grad/0/w", "var/w")
    assert set(settled(checks(*keys), keys).values()) == {("different", "")}


def test_something_forward_in_another_step_leaves_a_tie_to_be_settled():
    found = checks("tower_grad/0/w") + checks("loss/0", step=2)
    assert settled(found, ("tower_grad/0/w", "loss/0"), ("loss/0",))["tower_grad/0/w"] == ("same", WITH_INPUTS)
    assert settled(found, ("tower_grad/0/w", "loss/0"))["loss/0"] == ("different", "")


def test_an_update_without_a_gradient_that_differs_stays_different():
    keys = ("tower_grad/0/w", "var/w", "var/rows")
    assert settled(checks(*keys), keys)["var/rows"] == ("different", "")
    assert settled(checks(*keys), keys)["var/w"] == ("same", WITH_INPUTS)


def test_what_differs_beside_the_kink_too_is_a_bug():
    keys = ("tower_grad/0/w", "grad/w")
    assert settled(checks(*keys), keys, ("grad/w",)) == {
        "tower_grad/0/w": ("same", WITH_INPUTS),
        "grad/w": ("different", ""),
    }


def test_free_runs_are_settled_by_free_runs():
    found = checks("grad/w") + checks("loss/0", "var/w", step=2, run="free")
    assert {
        each.note
        for each in settle_kinks(found, [Made(found, NON_DIFFERENTIABLE_NOTE, {"grad/w"}), Made(found, WITH_INPUTS)])
    } == {WITH_INPUTS}


@pytest.mark.parametrize(("rounds", "verdict"), [(1e-12, "different"), (1e-3, "same")])
def test_beside_a_kink_a_free_run_may_carry_what_every_step_rounds_those_at_other_steps_too(tmp_path, rounds, verdict):
    """The second step is off by what an ulp carried on from the first, which was judged at the kink itself."""
    before = {"var/w": np.array([1.0, 2.0])}
    steps = [{"var/w": np.array([1.0, 2.0])}, {"var/w": np.array([1.0, 3.0])}]
    off = [steps[0], {"var/w": np.array([1.0, 3.0 + 1e-9])}]
    ulp = {"var/w": np.array([1.0, 2.0 + 2.0**-51])}
    carried = [{"var/w": np.array([1.0, 2.0 + 2.0**-51])}, {"var/w": np.array([1.0, 3.0 + 2.0**-50])}]
    reference, candidate, replica = (
        trace(tmp_path / name, *each, init=start)
        for name, each, start in (("a", steps, before), ("b", off, before), ("c", carried, ulp))
    )
    runs = SimpleNamespace(freely=lambda: (reference, candidate, Replicas(reference, [replica])))
    at_the_kink = [Check("lockstep", 0, "var/w", "same", 0.0, rounds, 1.0, 1.0)]
    beside_it = [Check("lockstep", 1, "var/w", "same", 0.0, 1e-15, 1.0, 1.0)]
    found = Beside(JOIN, None, at_the_kink, False, runs).free(beside_it)
    assert [check.verdict for check in found if check.step == 1] == [verdict]


class Runs:
    """Runs beside a kink, of these steps alone; what is asked for is noted."""

    def __init__(self, *steps, freely=None):
        self._steps, self._freely, self.asked = steps, freely, []

    def lockstep(self, step=None):
        self.asked.append(step)
        if not self._steps:
            return None
        reference = SimpleNamespace(step_numbers=[*self._steps])
        return Lockstep(reference, reference, "float32", "float64", "states")

    def candidate_once_more(self):
        return "once more"

    def freely(self):
        return self._freely


@pytest.fixture
def judged(monkeypatch):
    """What is judged in lockstep, and freely, instead of judging it."""
    seen = []
    for name in ("judge_lockstep", "judge_free"):
        monkeypatch.setattr(non_differentiable, name, lambda *given, name=name: seen.append((name, *given)) or [name])
    return seen


@pytest.mark.parametrize(("step", "there"), [(2, True), (5, True), (3, False), (0, False)])
def test_one_step_is_judged_by_itself_where_it_was_run(judged, step, there):
    runs = Runs(2, 5)
    assert Beside(JOIN, None, [], False, runs).alone(step) == (["judge_lockstep"] if there else [])
    assert runs.asked == [step]
    assert [(name, join is JOIN, traces.candidate64, steps) for name, join, traces, steps in judged] == (
        [("judge_lockstep", True, "float64", [step])] if there else []
    )


def test_where_nothing_was_run_beside_a_kink_nothing_is_judged(judged):
    beside = Beside(JOIN, None, [], False, Runs())
    assert beside.alone(2) == beside.in_lockstep() == beside.free([]) == []
    assert judged == []


def test_all_steps_beside_a_kink_are_judged_in_their_order(judged):
    runs = Runs(2, 5)
    assert Beside(JOIN, None, [], False, runs).in_lockstep() == ["judge_lockstep"] and runs.asked == [None]
    [(_, join, traces, steps)] = judged
    assert join is JOIN and traces.candidate64 == "float64" and steps == [2, 5]


class Losses:
    """A trace of nothing but a loss in each step."""

    def __init__(self, *losses):
        self._losses, self.step_numbers = losses, list(range(len(losses)))

    def step(self, number):
        return SimpleNamespace(read=lambda key: np.float64(self._losses[number]))


@pytest.mark.parametrize(
    ("moved", "allowed", "there"), [(1e-9, 1e-15, True), (1e-5, 1e-15, False), (1e-5, 1e-12, True)]
)
def test_where_a_loss_has_jumped_a_step_was_moved_elsewhere_and_settles_nothing(judged, moved, allowed, there):
    """Labels that are compared with a number are equal to it no more once they have moved, and their term is gone."""
    sides = [Losses(1.0, 2.0), Losses(1.0, 2.0 + moved)]
    traces = [Lockstep(side, side, "float32", "float64", "states") for side in sides]
    losses = [Check("lockstep", step, "loss/0", "same", 0.0, allowed, 1.0, 1.0) for step in (0, 1)]
    runs = SimpleNamespace(lockstep=lambda step=None: traces[1], freely=lambda: ("reference", "candidate", "spread"))
    beside = Beside(JOIN, traces[0], losses, True, runs)
    assert beside.alone(0) == ["judge_lockstep"] and beside.alone(1) == ["judge_lockstep"] * there
    assert beside.in_lockstep() == ["judge_lockstep"]
    assert judged[-1][-1] == [0, 1][: 1 + there]
    assert beside.free([]) == ["judge_free"] * there


def test_the_control_is_the_candidate_run_once_more_at_the_kink_itself(judged):
    traces = Runs(1, 4).lockstep()
    assert Beside(JOIN, traces, [], False, Runs(7)).once_more() == ["judge_lockstep"]
    assert judged == [("judge_lockstep", JOIN, traces._replace(candidate64="once more"), [1, 4])]


def test_free_runs_are_judged_by_what_each_step_rounds_beside_the_kink_before_at_it(judged):
    at_it = [Check("lockstep", step, "var/w", "same") for step in (0, 1, 2)]
    beside_it = [Check("lockstep", 1, "var/w", "same", 0.0, 1.0)]
    runs = Runs(0, freely=("reference", "candidate", "spread"))
    assert Beside(JOIN, None, at_it, False, runs).free(beside_it) == ["judge_free"]
    assert judged == [("judge_free", JOIN, "reference", "candidate", "spread", [at_it[0], at_it[2], *beside_it])]


@pytest.mark.parametrize(("inputs", "note"), [(True, WITH_INPUTS), (False, NON_DIFFERENTIABLE_NOTE)])
def test_a_check_says_whether_inputs_moved_too(inputs, note):
    assert Beside(JOIN, None, [], inputs, Runs()).note == note


def test_each_kind_of_move_is_said():
    found = [
        Check("lockstep", 1, "grad/w", "same", note=WITH_INPUTS),
        Check("lockstep", 0, "grad/v", "same", note=NON_DIFFERENTIABLE_NOTE),
    ]
    assert kink_notes(found) == [
        f"1 tensor of step 0, grad/v first, is {NON_DIFFERENTIABLE_NOTE}",
        f"1 tensor of step 1, grad/w first, is {WITH_INPUTS}",
    ]


def test_what_is_gone_when_the_candidate_runs_once_more_was_no_kink():
    found = checks("tower_grad/0/w", "grad/w", "var/w")
    assert {check.verdict for check in settle_kinks(found, [Made(found, NON_DIFFERENTIABLE_NOTE, again="same")])} == {
        "different"
    }
