"""Ops of TensorFlow whose float64 kernel is as rough as float32, measured against the same sums in numpy."""

# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

BATCH, TIME, CLASSES, LABELS = 4, 12, 6, 4


def _ctc(x, labels):
    indices = tf.where(labels >= 0)
    sparse = tf.SparseTensor(indices, tf.gather_nd(labels, indices), tf.shape(labels, out_type=tf.int64))
    return tf.nn.ctc_loss(
        labels=sparse, inputs=x, sequence_length=[int(x.shape[1])] * int(x.shape[0]), time_major=False
    )  # the op


def _tower(x, labels):
    scale = tf.get_variable("scale", [int(x.shape[2])], x.dtype, tf.ones_initializer())
    losses = _ctc(x * scale, labels)
    return tf.reduce_mean(losses), {"losses": losses, "scaled": x * scale}


def _measured(x, labels):
    values = tf.constant(x)
    losses = _ctc(values, tf.constant(labels))
    with tf.Session() as session:
        losses, gradient = session.run([losses, tf.gradients(losses, values)[0]])
    return {"losses": losses, "gradient": gradient}


def _known(dtype, x, labels):
    inputs = {"x": (dtype, list(x)), "labels": ("int32", list(labels))}
    training = tf_towers.build(_tower, inputs, 1, small.sgd())
    return tf_towers.facts(training, dtype, 1)["inexact_in_float64"]


def _forward_backward(x, labels):
    # Graves et al., 2006, equations 6 to 16, in the log domain; the last class is the blank.
    blank = x.shape[1] - 1
    logs = x - np.logaddexp.reduce(x, axis=1, keepdims=True)
    path = [blank, *(each for label in labels for each in (label, blank))]
    alpha, beta = (_paths(logs[::way], path[::way], blank)[::way, ::way] for way in (1, -1))
    total = np.logaddexp(*alpha[-1, -2:])
    gradient = np.exp(logs)
    for place, symbol in enumerate(path):
        gradient[:, symbol] -= np.exp(alpha[:, place] + beta[:, place] - logs[:, symbol] - total)
    return -total, gradient


def _paths(logs, path, blank):
    sums = np.full((len(logs), len(path)), -np.inf)
    sums[0, :2] = logs[0, path[:2]]
    for time in range(1, len(logs)):
        for place, symbol in enumerate(path):
            skips = place > 1 and symbol not in (blank, path[place - 2])
            first = place - 2 if skips else max(place - 1, 0)
            sums[time, place] = np.logaddexp.reduce(sums[time - 1, first : place + 1]) + logs[time, symbol]
    return sums


def test_the_ctc_loss_is_known_to_float32_only_in_float64(tf):
    drawn = np.random.default_rng(0)
    x, labels = drawn.normal(size=(BATCH, TIME, CLASSES)), drawn.integers(0, CLASSES - 1, (BATCH, LABELS))
    found = tf(_measured, x=x, labels=labels.astype(np.int32))
    pairs = [_forward_backward(*each) for each in zip(x, labels, strict=True)]
    losses, gradient = (np.array(each) for each in zip(*pairs, strict=True))
    of_the_loss = np.abs(found["losses"] / losses - 1.0).max()
    of_the_gradient = np.linalg.norm(found["gradient"] - gradient) / np.linalg.norm(gradient)
    # As the table says, in 1.15 and in 2.21; were a kernel ever exact it would not belong there.
    assert 1e-10 < of_the_loss < 5e-9
    assert 1e-8 < of_the_gradient < 7e-8


@pytest.mark.parametrize(("dtype", "outputs"), [("float64", ["", "losses"]), ("float32", None)])
def test_what_depends_on_it_is_a_fact(tf, dtype, outputs):
    known = tf(_known, dtype=dtype, x=[BATCH, TIME, CLASSES], labels=[BATCH, LABELS])
    assert known.get("outputs") == outputs
    if outputs:
        assert [place.rpartition(" ")[2] for place in known["places"]] == ["CTCLoss"]


def _resized(x, labels):
    image = tf.reshape(x, [-1, 3, 4, 1]) * tf.get_variable("scale", [], x.dtype, tf.ones_initializer())
    resized = tf.cast(tf.image.resize_bilinear(image, [6, 8]), x.dtype)
    return tf.reduce_mean(resized), {"resized": resized, "image": image}


def _resized_facts(x, labels):
    inputs = {"x": ("float64", list(x)), "labels": ("int32", list(labels))}
    training = tf_towers.build(_resized, inputs, 1, small.sgd())
    facts = tf_towers.facts(training, "float64", 1)
    return {name: facts[name] for name in ("inexact_in_float64", "float32_in_float64")}


def _types_of_rough_ops():
    from tf_towers.graph.user_errors import ALWAYS_FLOAT32

    image = tf.zeros([1, 4, 4, 1], tf.float64)
    made = [
        resize(image, [2, 2]) for resize in (tf.image.resize_bilinear, tf.image.resize_bicubic, tf.image.resize_area)
    ]
    made.append(tf.image.crop_and_resize(image, tf.zeros([1, 4]), tf.zeros([1], tf.int32), [2, 2]))
    made.append(tf.image.extract_glimpse(tf.cast(image, tf.float32), [2, 2], tf.zeros([1, 2])))
    return {
        "known": sorted(ALWAYS_FLOAT32),
        "made": sorted(each.op.type for each in made),
        "types": [each.dtype.name for each in made],
    }


def test_ops_that_give_float32_whatever_they_take_are_known(tf):
    found = tf(_types_of_rough_ops)
    assert [*found["known"]] == [*found["made"]]
    assert {*found["types"]} == {"float32"}


def test_what_is_computed_of_a_float32_op_is_known_to_float32_only(tf):
    facts = tf(_resized_facts, x=[4, 12], labels=[4, 1])
    inexact = facts["inexact_in_float64"]
    assert inexact["outputs"] == ["", "resized"]
    assert len(inexact["places"]) == 1 and inexact["places"][0].endswith(": ResizeBilinear")
    assert not facts["float32_in_float64"]  # said once
