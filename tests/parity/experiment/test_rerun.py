"""What a rerun of the reference costs where the reference does not end its steps."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parity.case import load_case
from parity.experiment.recording import SidePaths
from parity.experiment.runs import EVERYTHING
from parity.experiment.sides.rerun import Rerun
from parity.experiment.spec import Capability
from parity.mapping import Mapping
from parity.mapping.states import read_all, write_states
from parity.mapping.trace_map import Join
from parity.trace import Trace
from parity.worker.failures import SideFailed, failure

SQUARE = Path(__file__).parents[2] / "cases" / "square"


class Failing:
    """A reference that fails whatever it is asked for, at once or because it does not end."""

    def __init__(self, hung) -> None:
        self.asked, self.hung = 0, hung

    def run_with_statistics(self, updates, inputs, spec):
        self.asked += 1
        raise SideFailed("tf", "expected to run the steps, got an error.", hung=self.hung)


@pytest.fixture(params=[True, False])
def failing(request, tmp_path):
    feeds = write_states(tmp_path / "feeds", [(0, {"feed/x": np.zeros((2, 2))})])
    reference = Failing(request.param)
    setup = SimpleNamespace(
        tf=reference, feeds=SidePaths(feeds, feeds), start=SidePaths(feeds, feeds), inputs={}, out=tmp_path
    )
    return reference, Rerun(load_case(SQUARE), setup, None, SidePaths(feeds, feeds))


def test_a_reference_is_not_asked_again_after_a_step_that_did_not_end_but_after_any_other_failure(failing):
    reference, rerun = failing
    with pytest.raises(SideFailed):
        rerun.repeat_reference(0)
    if reference.hung:
        assert rerun.repeat_reference(0) is None
    else:
        with pytest.raises(SideFailed):
            rerun.repeat_reference(0)
    assert reference.asked == (1 if reference.hung else 2)


@pytest.mark.parametrize(("kind", "hung"), [("DeadlineExceededError", True), ("InvalidArgumentError", False)])
def test_a_step_that_tensorflow_gives_up_is_told_from_one_that_fails(kind, hung):
    error = {"type": kind, "message": "Timed out waiting for notification", "traceback": "", "plain": False}
    assert failure("tf", "run", error).hung == hung


class Side:
    """Answers every request with its name, and writes down what it was asked for."""

    def __init__(self, runs_again=True):
        self.asked, self.prepared, self.guarded = [], [], []
        self.capabilities = frozenset([Capability.RERUN] if runs_again else [])

    def prepare(self, precision, inputs):
        self.prepared.append((precision, inputs))
        return SimpleNamespace(result=lambda: None)

    def run(self, asked):
        self.asked.append(asked)
        return SimpleNamespace(result=lambda: asked.name)

    def run_guarded(self, asked):
        self.guarded.append(asked.name)
        return self.run(asked).result()

    def run_with_batch_norm(self, over_all_ranks, asked):
        return over_all_ranks, self.run(asked).result()

    def run_with_statistics(self, updates, inputs, asked):
        return updates, inputs, self.run(asked).result()


def held(folder, factor):
    """Leaves a trace whose step n holds n times a factor as its batch, and as its weight."""
    numbers = [(n, {"feed/x": np.full(2, factor * n), "var/w": np.full(3, factor * n)}) for n in range(4)]
    return write_states(folder, numbers)


@pytest.fixture(params=[True, False], ids=["live", "golden"])
def again(request, tmp_path):
    """Steps 0 to 2 of a made case: both sides, and what runs them once more."""
    sides = Side(request.param), Side()
    feeds = SidePaths(*(held(tmp_path / f"feeds-{side}", at) for at, side in ((1.0, "tf"), (10.0, "torch"))))
    states = SidePaths(*(held(tmp_path / f"states-{side}", at) for at, side in ((100.0, "tf"), (1000.0, "torch"))))
    start = SidePaths(tmp_path / "start-tf", tmp_path / "start-torch")
    setup = SimpleNamespace(
        tf=sides[0], torch=sides[1], feeds=feeds, start=start, inputs="inputs", out=tmp_path, steps=[0, 1, 2]
    )
    return *sides, Rerun(load_case(SQUARE), setup, Join(Mapping([]), {}, []), states), setup, states


def values(folder, text):
    trace = Trace(folder)
    return {number: float(read_all(trace.step(number))[text][0]) for number in trace.step_numbers}


def twice(tensors):
    return {text: 2 * value for text, value in tensors.items()}


def plain(tensors):
    return tensors


def test_what_a_port_may_not_take_leaves_it_there_to_be_asked_again(again):
    _, torch, rerun, *_ = again
    rerun.repeat(1, twice, plain)
    rerun.evaluate_again(twice)
    rerun.evaluate_on(twice)
    assert torch.guarded == [asked.name for asked in torch.asked] and len(torch.guarded) == 3


def test_a_step_of_the_candidate_is_run_again_from_what_was_changed(again):
    _, torch, rerun, setup, _ = again
    assert rerun.repeat(1, twice, plain) == "repeat-1"
    assert rerun.repeat(2, plain, twice, twice=True, cut=True, ahead=twice, random_seed=7) == "repeat-2"
    assert rerun.repeat(2, twice, plain, twice=True) == "repeat-3"
    assert rerun.repeat_seeded(1, 11) == "repeat-4"
    one, other, third, seeded = torch.asked
    assert (values(one.feeds, "feed/x"), values(one.follow, "var/w")) == ({1: 20.0}, {1: 1000.0})
    # The second run of a step stands under the next number, from the same state.
    assert (values(other.feeds, "feed/x"), values(other.follow, "var/w")) == (
        {2: 40.0, 3: 20.0},
        {2: 4000.0, 3: 4000.0},
    )
    assert values(third.feeds, "feed/x") == {2: 40.0, 3: 40.0}
    assert (values(seeded.feeds, "feed/x"), values(seeded.follow, "var/w")) == ({1: 10.0}, {1: 1000.0})
    assert [list(each.steps) for each in torch.asked] == [[1], [2, 3], [2, 3], [1]]
    assert [(each.cut, each.random_seed) for each in torch.asked] == [
        (False, None),
        (True, 7),
        (False, None),
        (False, 11),
    ]
    for each in torch.asked:
        assert (each.precision, each.start, each.quantities) == ("float64", setup.start.torch, EVERYTHING)
        assert each.recorded_counters


def test_a_step_is_run_again_as_it_is_but_for_its_gradients_or_its_batch_norm(again):
    _, torch, rerun, setup, states = again
    assert rerun.repeat_uncut(1, ["relu"]) == "repeat-1"
    assert rerun.repeat_detached(2, [(3, "w")]) == "repeat-2"
    assert rerun.repeat_with_batch_norm(0, None) == (None, "repeat-3")
    assert [(each.uncut, each.detached, list(each.steps)) for each in torch.asked] == [
        (("relu",), (), [1]),
        (None, ((3, "w"),), [2]),
        (None, (), [0]),
    ]
    for each in torch.asked:
        assert (each.feeds, each.start, each.follow) == (setup.feeds.torch, setup.start.torch, states.torch)
        assert (each.precision, each.quantities, each.recorded_counters) == ("float64", EVERYTHING, True)


def test_a_step_of_the_reference_is_run_again_with_other_statistics_or_another_batch(again):
    tf, _, rerun, setup, states = again
    assert rerun.repeat_reference(1) == (rerun.batch_norm_updates, "inputs", "reference-1")
    assert rerun.repeat_reference(2, "last_tower", twice) == ("last_tower", "inputs", "reference-2")
    assert [values(each.feeds, "feed/x") for each in tf.asked] == [{1: 1.0}, {2: 4.0}]
    for each, step in zip(tf.asked, (1, 2), strict=True):
        assert (each.precision, each.start, each.follow) == ("float64", setup.start.tf, states.tf)
        assert (each.quantities, list(each.steps), each.recorded_counters) == (EVERYTHING, [step], True)


def test_inference_is_evaluated_again_from_the_state_after_the_last_step(again):
    tf, torch, rerun, setup, _ = again
    live = bool(tf.capabilities)
    assert rerun.state_to_evaluate()["var/w"].tolist() == [3000.0] * 3
    assert rerun.evaluate_again(twice, "train") == "evaluation-1"
    assert rerun.evaluate_reference_again(twice) == ("evaluation-2" if live else None)
    assert rerun.evaluate_on(twice) == (("evaluation-3", "evaluation-4") if live else ("evaluation-2", None))
    again, on_batch = torch.asked
    assert (values(again.follow, "var/w"), values(on_batch.follow, "var/w")) == (
        {2: 2000.0, 3: 6000.0},
        {2: 2000.0, 3: 3000.0},
    )
    assert (again.feeds, [again.evaluation, on_batch.evaluation]) == (setup.feeds.torch, ["train", "eval"])
    # Changed in the reference's layout, then translated: both sides get the same change.
    assert values(on_batch.feeds, "feed/x") == {2: 4.0}
    assert tf.prepared == ([("float64", "inputs")] * 2 if live else [])
    if live:
        again, on_batch = tf.asked
        assert (values(again.follow, "var/w"), values(on_batch.follow, "var/w")) == (
            {2: 200.0, 3: 600.0},
            {2: 200.0, 3: 300.0},
        )
        assert (again.feeds, again.evaluation) == (setup.feeds.tf, "eval")
        assert values(on_batch.feeds, "feed/x") == {2: 4.0}
    for side, start in ((tf, setup.start.tf), (torch, setup.start.torch)):
        for each in side.asked:
            assert (each.precision, each.quantities, list(each.steps), each.start) == ("float64", ("eval",), [2], start)
            assert each.recorded_counters
