# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""Laws that hold for any number of towers, any batch and any gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LAWS = settings(max_examples=25)
NAMES = "abc"


@st.composite
def gradients_with_gaps(draw):
    """Per tower a dict of variable name to a number or None, and an order of the variables for each tower."""
    towers = draw(st.integers(1, 4))
    number = st.one_of(st.none(), st.integers(-8, 8).map(float))
    gradients = [{name: draw(number) for name in NAMES} for _ in range(towers)]
    return gradients, [draw(st.permutations(NAMES)) for _ in range(towers)]


def _combined(gradients, orders, reduce, missing):
    variables = {name: tf.get_variable(name, [], tf.float64) for name in "abc"}
    towers = []
    for index, tower in enumerate(gradients):
        values = {name: None if value is None else tf.constant(value, tf.float64) for name, value in tower.items()}
        towers.append([(values[name], variables[name]) for name in orders[index]])
    try:
        pairs = tf_towers.combine_gradients(towers, reduce, missing)
    except tf_towers.TowerError as error:
        return {"refused": str(error)}
    values = small.run([gradient for gradient, _ in pairs]) if pairs else []
    return {"combined": {variable.op.name: float(values[place]) for place, (_, variable) in enumerate(pairs)}}


def _model(gradients, reduce, missing):
    combined = {}
    for name in NAMES:
        values = [tower[name] for tower in gradients]
        present = [value for value in values if value is not None]
        gap = len(present) < len(values)
        if not present or (gap and missing == "skip"):
            continue
        if gap and missing == "refuse":
            return None
        count = len(present) if missing == "present" else len(values)
        combined[name] = sum(present) / (count if reduce == "mean" else 1)
    return combined


@LAWS
@given(
    given_gradients=gradients_with_gaps(),
    reduce=st.sampled_from(["mean", "sum"]),
    missing=st.sampled_from(["refuse", "zeros", "present", "skip"]),
)
def test_gradients_are_combined_by_variable_whatever_is_missing_and_in_whatever_order(
    tf, given_gradients, reduce, missing
):
    gradients, orders = given_gradients
    answer = tf(_combined, gradients=gradients, orders=orders, reduce=reduce, missing=missing)
    expected = _model(gradients, reduce, missing)
    if expected is None:
        assert "Give every tower the same loss, or leave the variable out of all." in answer["refused"]
    else:
        assert answer["combined"] == pytest.approx(expected, rel=1e-15)


def _cut(size, towers, policy):
    x = tf.placeholder(tf.int32, [None])
    cut = tf_towers.shard_uneven({"x": x}, towers, policy)
    with tf.Session() as session:
        inputs, examples, weights = session.run(
            [[one["x"] for one in cut.inputs], cut.examples, cut.weights], {x: np.arange(size)}
        )
    return {
        "inputs": [one.tolist() for one in inputs],
        "examples": [int(one) for one in examples],
        "weights": [one.tolist() for one in weights],
    }


@LAWS
@given(size=st.integers(1, 20), towers=st.integers(1, 5), policy=st.sampled_from(["drop", "pad", "sizes"]))
def test_shards_joined_are_the_batch_less_what_the_policy_drops_or_adds(tf, size, towers, policy):
    answer = tf(_cut, size=size, towers=towers, policy=policy)
    flat = [one for shard in answer["inputs"] for one in shard]
    weights = [weight for shard in answer["weights"] for weight in shard]
    assert len(flat) == len(weights)
    real = [flat[place] for place in range(len(flat)) if weights[place] == 1]
    kept = size - size % towers if policy == "drop" else size
    assert real == list(range(kept))
    assert set(weights) <= {0.0, 1.0}
    assert answer["examples"] == [sum(shard) for shard in answer["weights"]]
    lengths = [len(shard) for shard in answer["inputs"]]
    assert max(lengths) - min(lengths) <= (1 if policy == "sizes" else 0)
    assert len(flat) - kept < towers


def _clipped(values, limit, by):
    variables = [tf.get_variable(f"v{place}", [len(value)], tf.float64) for place, value in enumerate(values)]
    pairs = [(tf.constant(value, tf.float64), variables[place]) for place, value in enumerate(values)]
    clipped = tf_towers.clip_gradients(pairs, by, limit)
    return {"clipped": [value.tolist() for value in small.run([gradient for gradient, _ in clipped.gradients])]}


@LAWS
@given(
    values=st.lists(st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=3), min_size=1, max_size=3),
    limit=st.sampled_from([0.5, 3.0, 100.0]),
    by=st.sampled_from(["global_norm", "norm", "value"]),
)
def test_clipping_keeps_the_direction_and_the_limit(tf, values, limit, by):
    answer = tf(_clipped, values=values, limit=limit, by=by)["clipped"]
    joined, before = np.concatenate(answer), np.concatenate(values)
    assert np.all(np.abs(joined) <= np.abs(before) * (1 + 1e-12))
    assert np.all(joined * before >= 0)
    if by == "value":
        assert np.abs(joined).max() <= limit
    elif by == "norm":
        assert max(np.linalg.norm(one) for one in answer) <= limit * (1 + 1e-12)
    else:
        assert np.linalg.norm(joined) <= limit * (1 + 1e-12)
        norm = np.linalg.norm(before)
        np.testing.assert_allclose(joined, before * min(1, limit / max(norm, 1e-30)), rtol=1e-12)
