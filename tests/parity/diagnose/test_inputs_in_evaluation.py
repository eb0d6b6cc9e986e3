"""A fed mask of dropout, or noise, that only the port reads after training is named, and no other input."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.interventions.evaluation import of_the_inputs
from parity.judge.result import Check, FirstDifference
from parity.worker.failures import SideFailed

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(6, 4))
DROP = (RANDOM.random((6, 4)) < 0.6) / 0.6
OTHER = (RANDOM.random((6, 4)) < 0.5) / 0.5
BATCH = {"feed/x": X, "feed/drop": DROP, "feed/other": OTHER}
KEY = "eval/hidden"


class File(dict):
    def names(self):
        return list(self)

    def read(self, text):
        return self[text]


def trace(hidden):
    return SimpleNamespace(step_numbers=[2], step=lambda number: File({KEY: hidden}))


def named(port, towers, of_a_trace=False):
    """What is found of a port and towers, each a function of the batch."""

    def evaluate_on(change):
        batch = change(BATCH)
        return trace(port(batch)), None if of_a_trace else trace(towers(batch))

    recorder = SimpleNamespace(reference_batch=lambda step: BATCH, evaluate_on=evaluate_on)
    join = SimpleNamespace(read=lambda key, file: file.read(KEY))
    first = FirstDifference(Check("lockstep", 2, KEY, "different", 1.0, 1e-13), "eval", "hidden", "", None)
    return of_the_inputs(first, recorder, join, trace(towers(BATCH)))


@pytest.mark.parametrize("of_a_trace", [False, True])
def test_a_mask_that_the_port_alone_reads_is_named(of_a_trace):
    (cause,) = named(lambda b: np.tanh(b["feed/x"]) * b["feed/drop"], lambda b: np.tanh(b["feed/x"]), of_a_trace)
    assert cause.name == "dropout_active"
    assert cause.title == "the port drops units by drop in evaluation, where the towers keep all"


def test_two_masks_that_the_port_alone_reads_are_named_together():
    (cause,) = named(lambda b: np.tanh(b["feed/x"] * b["feed/drop"]) * b["feed/other"], lambda b: np.tanh(b["feed/x"]))
    assert "drop and other" in cause.title


def test_noise_that_the_port_alone_adds_is_train_mode():
    (cause,) = named(lambda b: b["feed/other"] + 0.3 * b["feed/x"], lambda b: b["feed/other"])
    assert (cause.name, cause.title.endswith("takes x in, which the towers leave out")) == (
        "train_mode_in_evaluation",
        True,
    )
    assert not named(lambda b: b["feed/other"] + b["feed/x"], lambda b: b["feed/other"] + 0.5 * b["feed/x"])


def test_a_port_that_does_not_take_what_is_tried_is_no_failure():
    def port(batch):
        if not np.array_equal(batch["feed/drop"], DROP):
            raise SideFailed("port", "it asserts what its masks hold")
        return np.tanh(batch["feed/x"]) * batch["feed/drop"]

    assert not named(port, lambda b: np.tanh(b["feed/x"]))


def test_a_mask_is_not_named_where_something_else_differs_too():
    assert not named(lambda b: np.sin(b["feed/x"]) * b["feed/drop"], lambda b: np.tanh(b["feed/x"]))


def test_a_mask_that_the_towers_read_is_not_named():
    ones = np.ones_like(DROP)
    followed = lambda b: b["feed/x"] * (1.0 if np.array_equal(b["feed/drop"], DROP) else 3.0)  # noqa: E731
    assert not named(lambda b: b["feed/x"] * (1.0 if np.array_equal(b["feed/drop"], ones) else 2.0), followed)
