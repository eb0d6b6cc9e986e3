# ruff: noqa: F821 - programs find tf, tf_towers and small there
import re
from pathlib import Path

import pytest


def _literal(x, y):
    return small.linear(x * tf.constant(0.5), y)  # the literal


def _variable(x, y):
    w = tf.get_variable("half", [3, 2])  # the variable
    return tf.reduce_mean(tf.square(tf.matmul(x, tf.cast(w, x.dtype)) - y))


def _loss(x, y):
    loss = small.linear(x, y)
    return tf.cast(loss, tf.float32)  # the loss


def _silent(x, y):
    rounded = tf.cast(tf.cast(x, tf.float32), x.dtype)  # the detour
    return small.linear(rounded, y)


def _other(x, y):
    raise ValueError("something else altogether")


def _refused(kind, dtype):
    tower = {"literal": _literal, "variable": _variable, "loss": _loss, "other": _other}[kind]
    try:
        tf_towers.build(tower, small.inputs(4, dtype), 2, small.sgd())
    except ValueError as error:
        return {"refused": str(error), "ours": isinstance(error, tf_towers.TowerError)}
    return {"refused": ""}


def _line_of(comment):
    text = Path(__file__).read_text().splitlines()
    (number,) = [place for place, line in enumerate(text, 1) if line.endswith("# " + comment)]
    return number, text[number - 1].strip()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("literal", "tower: expected float64 throughout, as the inputs are, got float32 at {}. Take the dtype from"),
        (
            "variable",
            "tower: expected the variable 'half' to be float64, as the inputs are, got float32 at {}. Pass dtype=",
        ),
        (
            "loss",
            "tower: expected the loss to be float64, as the inputs are, got float32 at {}. Pass dtype=x.dtype, or",
        ),
    ],
)
def test_float32_in_a_float64_tower_is_named_by_its_line_in_the_user_s_file(tf, kind, message):
    answer = tf(_refused, kind=kind, dtype="float64")
    number, line = _line_of(f"the {kind}")
    assert answer["ours"]
    assert answer["refused"].startswith(message.format(f"test_mixed_dtypes.py:{number}: `{line}`"))


@pytest.mark.parametrize("kind", ["literal", "variable", "loss"])
def test_the_same_towers_are_fine_in_float32(tf, kind):
    assert tf(_refused, kind=kind, dtype="float32") == {"refused": ""}


def test_another_error_of_the_user_s_comes_through(tf):
    answer = tf(_refused, kind="other", dtype="float64")
    assert answer == {"refused": "something else altogether", "ours": False}


def _told(dtype):
    training = tf_towers.build(_silent, small.inputs(4, dtype), 2, small.sgd())
    return {"places": tf_towers.facts(training, dtype, 1)["float32_in_float64"]}


def test_a_silent_detour_through_float32_is_a_fact(tf):
    number, _ = _line_of("the detour")
    assert tf(_told, dtype="float64")["places"] == [f"test_mixed_dtypes.py:{number}: Cast"]
    assert tf(_told, dtype="float32")["places"] == []


def _recurrent(x, y):
    cell = tf.nn.rnn_cell.BasicLSTMCell(2)
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.stack([x, 2 * x], 1), dtype=x.dtype)
    return tf.reduce_mean(tf.square(outputs[:, 1] - y))


def _mapped(x, y):
    w = tf.get_variable("w", [3, 2], x.dtype)
    return tf.reduce_mean(tf.map_fn(lambda row: tf.reduce_sum(tf.square(row[0])) * tf.reduce_sum(w), (x, y), x.dtype))


def _written_in_float32(x, y):
    array = tf.TensorArray(tf.float32, 1, element_shape=[3, 2])
    array = array.write(0, tf.cast(tf.get_variable("w", [3, 2], x.dtype), tf.float32))
    return tf.reduce_mean(tf.square(tf.matmul(x, tf.cast(array.read(0), x.dtype)) - y))  # the read


def _places(kind):
    tower = {"recurrent": _recurrent, "mapped": _mapped, "written": _written_in_float32}[kind]
    training = tf_towers.build(tower, small.inputs(4), 2, small.sgd())
    return {"places": tf_towers.facts(training, "float64", 1)["float32_in_float64"]}


@pytest.mark.parametrize("kind", ["recurrent", "mapped"])
def test_the_flow_of_a_tensor_array_is_no_arithmetic_in_float32(tf, kind):
    assert tf(_places, kind=kind)["places"] == []


def test_a_tensor_array_that_holds_float32_is_a_detour(tf):
    number, _ = _line_of("the read")
    assert f"test_mixed_dtypes.py:{number}: TensorArrayReadV3" in tf(_places, kind="written")["places"]


def test_the_lines_looked_for_are_there():
    assert re.search("tf.constant", _line_of("the literal")[1])
