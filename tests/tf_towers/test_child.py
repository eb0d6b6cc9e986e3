"""The process that `parity` talks to, with every option that a case can hand it."""

import numpy as np
import pytest

from parity.trace import EXECUTION_RANK, Trace, TraceWriter, parse_key
from parity.worker.launch import launch_tf
from parity.worker.process import SideFailed

pytestmark = pytest.mark.both_tensorflows

TOWER = """
import tensorflow.compat.v1 as tf

def tower(x, y):
    w = tf.get_variable("w", [3, 2], x.dtype, tf.ones_initializer())
    b = tf.get_variable("b", [2], x.dtype, tf.zeros_initializer())
    return tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))

def literal(x, y):
    return tower(x * tf.constant(0.5), y)
"""
CASE = {
    "tower": "towers_of_a_test:tower",
    "optimizer": {"name": "adam", "learning_rate": 0.1},
    "towers": 2,
    "combine": "mean",
    "variables": "cpu",
    "batch_norm_updates": "first",
    "seed": 0,
}
INPUTS = {"x": ["float32", [4, 3]], "y": ["float32", [4, 2]]}
ADAM = {"name": "adam", "learning_rate": 0.1}
PLAIN = {"state", "feed", "loss", "tower_grad", "grad", "slot", "var"}


@pytest.fixture(scope="session")
def side(tf_python, tmp_path_factory):
    """The TensorFlow side as `parity run` starts it."""
    started = launch_tf(tf_python, tmp_path_factory.mktemp("side") / "log", 240.0)
    yield started
    started.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "towers_of_a_test.py").write_text(TOWER)
    return tmp_path


def prepared(side, folder, precision="float32", **changes):
    case = {**CASE, **changes}
    return side.ask("prepare", case=case, folders=[str(folder)], inputs=INPUTS, precision=precision).result()


def recorded(side, folder, precision="float32", steps=2):
    feeds = folder / "feeds"
    random = np.random.default_rng(0)
    writer = TraceWriter(feeds, {})
    writer.init({})
    for step in range(steps):
        batch = {"feed/x": random.standard_normal((4, 3)), "feed/y": random.standard_normal((4, 2))}
        writer.step(step, {name: value.astype(np.float32) for name, value in batch.items()})
    writer.close()
    start, out = folder / "start", folder / "out"
    side.ask("initialize", precision=precision, init="perturbed", seed=0, out=str(start)).result()
    side.ask(
        "run",
        precision=precision,
        feeds=str(feeds),
        start=str(start),
        follow=None,
        recorded_counters=False,
        steps=list(range(steps)),
        quantities=[*PLAIN, "tower_clip", "clip", "ema"],
        out=str(out),
    ).result()
    return Trace(out)


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, set()),
        ({"optimizer": {**ADAM, "clip": {"by": "global_norm", "limit": 0.1}}}, {"clip"}),
        ({"optimizer": {**ADAM, "clip": {"by": "norm", "limit": 0.1, "at": "tower"}}}, {"tower_clip"}),
        ({"optimizer": {**ADAM, "ema": {"decay": 0.9}}}, {"ema"}),
        ({"optimizer": {**ADAM, "loss_scale": {"initial": 8.0}}}, set()),
        ({"optimizer": {**ADAM, "weight_decay": {"coefficient": 0.1, "only": "w"}}}, set()),
        ({"optimizer": {**ADAM, "accumulate": {"steps": 2}}}, set()),
        ({"variables": "replicated", "share": "variable_scope", "cut": "slices"}, set()),
    ],
)
def test_a_case_s_options_reach_the_graph_and_what_they_add_is_in_the_trace(side, folder, changes, more):
    described = prepared(side, folder, **changes)
    trace = recorded(side, folder)
    keys = [parse_key(name) for name in trace.step(1).names()]
    assert {key.quantity for key in keys} == PLAIN | more
    ranks = [EXECUTION_RANK[key.quantity] for key in keys]
    assert ranks == sorted(ranks)
    assert set(described["variables"]) == {"w", "b"}
    assert trace.facts["plan"]["variables"] == changes.get("variables", "cpu")
    assert {
        name for name in trace.facts["plan"] if name in ("clip", "ema", "loss_scale", "accumulate", "weight_decay")
    } == {name for name in changes.get("optimizer", {}) if name not in ADAM}
    assert trace.facts["towers"] == 2
    init = set(trace.init().names())
    assert {"var/w", "slot/m/b", "state/global_step"} <= init
    assert any(name.startswith("ema/") for name in init) == ("ema" in more)


def test_a_schedule_in_the_case_is_the_optimizer_s_learning_rate(side, folder):
    rate = {"schedule": "exponential_decay", "learning_rate": 0.5, "decay_steps": 1, "decay_rate": 0.5}
    prepared(side, folder, optimizer={"name": "sgd", "learning_rate": rate})
    trace = recorded(side, folder)
    assert [float(trace.step(step).read("state/learning_rate")) for step in range(2)] == [0.5, 0.25]
    assert trace.facts["optimizer"]["learning_rate"] == "scheduled"


def test_wrong_use_is_one_line_without_a_traceback(side, folder):
    with pytest.raises(SideFailed) as failed:
        prepared(side, folder, "float64", tower="towers_of_a_test:literal")
    assert failed.value.traceback == ""
    assert str(failed.value) == (
        "TensorFlow side: tower: expected float64 throughout, as the inputs are, got float32 at "
        "towers_of_a_test.py:10: `return tower(x * tf.constant(0.5), y)`. Take the dtype from an input: "
        "tf.constant(..., x.dtype), tf.get_variable(..., dtype=x.dtype), tf.cast(..., x.dtype)."
    )
