"""Why sides that train alike evaluate otherwise is found by evaluating again: in another mode, or with other statistics."""

import numpy as np
import pytest

from parity.diagnose.interventions.evaluation import of_the_evaluation
from parity.judge.result import Check, FirstDifference
from parity.trace import Evaluated, format_evaluated
from parity.worker.failures import SideFailed

X = np.random.default_rng(9).normal(size=(6, 4))
KEY = "eval/hidden"
STATE = {
    "stat/one.mean": np.zeros(4),
    "stat/one.var": np.ones(4),
    "stat/two.mean": np.full(4, 0.5),
    "var/w": np.ones(4),
}


class File(dict):
    """A step of a trace, and a trace of it alone."""

    step_numbers = (2,)

    def step(self, number):
        return self

    def names(self, *quantities):
        return list(self)

    def read(self, text):
        return self[text]


class Port:
    """Evaluates once more, as `Evaluates` asks.

    Args:
      port, towers: what the sides give for a state and a mode.
      fails: the mode in which the port does not run.
    """

    def __init__(self, port, towers, fails=""):
        self.port, self.towers, self.fails = port, towers, fails

    def state_to_evaluate(self):
        return dict(STATE)

    def evaluate_again(self, change=lambda state: state, evaluation="eval"):
        if evaluation == self.fails:
            raise SideFailed("port", "it has no such mode")
        return File({KEY: self.port(change(self.state_to_evaluate()), evaluation), "loss/0": np.zeros(())})

    def evaluate_reference_again(self, change):
        made = self.towers(change(self.state_to_evaluate()), "eval")
        return None if self.fails == "towers" else File({KEY: made})

    def evaluate_on(self, batch):
        return self.evaluate_again(), None

    def reference_batch(self, step):
        return {"feed/x": np.ones((6, 4), int)}


class Join:
    read = staticmethod(lambda key, file: file.get(str(key)))


def causes(port, towers=None, name="hidden", fails=""):
    towers = towers or (lambda state, mode: normed(state, "one") + normed(state, "two"))
    recorder = Port(port, towers, fails)
    first = FirstDifference(Check("lockstep", 2, KEY, "different", 1.0, 1e-12), "eval", name, "", None)
    sides = File({KEY: towers(STATE, "eval")}), File({KEY: port(STATE, "eval")})
    return of_the_evaluation(first, recorder, Join, *sides)


def normed(state, layer):
    return (X - state[f"stat/{layer}.mean"]) / np.sqrt(state.get(f"stat/{layer}.var", 1.0))


def of_batch():
    return (X - X.mean(0)) / X.std(0)


def test_a_layer_that_ignores_its_statistics_in_evaluation_is_named():
    (cause,) = causes(lambda state, mode: of_batch() * (1 + (mode == "train")) + normed(state, "two"))
    assert cause.name == "batch_statistics_in_evaluation"
    assert cause.title == "batch statistics instead of moving statistics in evaluation: one"
    assert cause.evidence.startswith(
        "with the moving statistics of one changed, the candidate's evaluation is the same"
    )
    assert cause.evidence.endswith("those of 1 other layers count")
    (both,) = causes(lambda state, mode: of_batch() * (1 + (mode == "train")))
    assert "one, two" in both.title and both.evidence.endswith("those of 0 other layers count")


def test_a_port_that_ignores_the_mode_is_told_so_behind_what_it_ignores_too():
    found = causes(lambda state, mode: of_batch())
    assert [cause.name for cause in found] == ["batch_statistics_in_evaluation", "train_mode_in_evaluation"]
    (alone,) = causes(lambda state, mode: 2 * normed(state, "one") + normed(state, "two"))
    assert alone.name == "train_mode_in_evaluation" and alone.evidence.startswith("after model.train()")


def test_draws_in_evaluation_are_told_first():
    def port(state, mode):
        made = normed(state, "one") + normed(state, "two") * (2.0 if mode == "train" else 1.0)
        return made + {"other draws": 0.1, "eval": 0.2, "train": 0.3}[mode]

    (cause,) = causes(port)
    assert cause.name == "train_mode_in_evaluation" and cause.evidence.startswith("after another random seed")
    found = causes(lambda state, mode: of_batch() + {"other draws": 0.1, "eval": 0.2, "train": 0.3}[mode])
    assert [cause.name for cause in found] == ["train_mode_in_evaluation", "batch_statistics_in_evaluation"]


def right(state, mode):
    return (normed(state, "one") + normed(state, "two")) * (2.0 if mode == "train" else 1.0)


def test_towers_that_evaluate_in_training_mode_are_told():
    (cause,) = causes(right, lambda state, mode: of_batch())
    assert cause.name == "towers_in_train_mode"
    assert causes(right, lambda state, mode: of_batch(), fails="towers") == [], "a trace that was only recorded"
    assert causes(right, lambda state, mode: 2 * normed(state, "one")) == [], "their statistics count"


def test_nothing_is_told_of_averages_or_of_a_port_that_cannot_be_run_so():
    ignoring = lambda state, mode: of_batch()  # noqa: E731
    assert causes(ignoring, name=format_evaluated(Evaluated(averages=True, output="hidden"))) == []
    assert causes(ignoring, fails="train") == []


@pytest.mark.parametrize(("apart", "same"), [(0.5e-12, True), (3e-12, False)])
def test_evaluations_of_one_port_are_the_same_to_rounding(apart, same):
    found = causes(lambda state, mode: right(state, "eval") * (2 + apart * (mode == "train")))
    assert [cause.name for cause in found] == (["train_mode_in_evaluation"] if same else [])
