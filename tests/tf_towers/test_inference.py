"""The model in inference mode, after training."""
# ruff: noqa: F821 - programs find tf, np, tf_towers and small there

import numpy as np
import pytest


def _model(x, y, training=True):
    w = tf.get_variable("w", [3, 2], x.dtype, tf.ones_initializer())
    hidden = tf.reshape(tf.matmul(x, w), [-1, 1, 1, 2])
    normal = tf_towers.batch_norm(hidden, "norm", training=training)
    out = tf.reshape(normal, [-1, 2]) * (1 if training else 2)
    tf.add_to_collection("seen", out)
    tf.losses.add_loss(tf.reduce_mean(tf.square(out - y)))
    scope = tf.get_default_graph().get_name_scope()
    loss = tf.add_n(tf.get_collection(tf.GraphKeys.LOSSES, scope + "/"))
    return loss, {"out": out, "mean": tf.reduce_mean(out), "loss": tf.reduce_sum(out)}


def _by_hand(state, batch, prefix="var/"):
    hidden = batch["x"].dot(state[prefix + "w"])
    scale = state[prefix + "norm/gamma"] / np.sqrt(state["stat/norm/moving_variance"] + 1e-3)
    out = 2 * ((hidden - state["stat/norm/moving_mean"]) * scale + state[prefix + "norm/beta"])
    return {"out": out, "loss": np.mean((out - batch["y"]) ** 2)}


def _evaluated(towers=2, **options):
    training = tf_towers.build(_model, small.inputs(8), towers, small.sgd(), ema={"decay": 0.5}, **options)
    stepper = small.stepper(training)
    for step in range(2):
        stepper.step(small.batch(8, step))
    state, batch = stepper.state(), small.batch(8, 5)
    found = stepper.evaluate(batch)
    after = stepper.state()
    again = stepper.evaluate(batch)
    plain, averaged = _by_hand(state, batch), _by_hand(state, batch, "ema/")
    with training.graph.as_default():
        updates = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        seen = len(tf.get_collection("seen"))
    stepper.close()
    return {
        "names": list(found),
        "off": max(
            float(np.abs(found[prefix + name] - wanted[name]).max())
            for prefix, wanted in (("eval/", plain), ("eval/ema/", averaged))
            for name in ("out", "loss")
        ),
        "apart": float(abs(found["eval/loss"] - found["eval/ema/loss"])),
        "examples": len(found["eval/out"]),
        "own_loss": float(abs(found["eval/outputs/loss"] - plain["out"].sum())),
        "unchanged": all(np.array_equal(state[name], after[name]) for name in state),
        "repeats": all(np.array_equal(found[name], again[name]) for name in found),
        "updates": updates,
        "seen": seen,
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"towers": 1},
        {"cut": "feeds"},
        {"cut": "queue"},
        {"cut": "iterator"},
        {"share": "model_first"},
        {"variables": "replicated"},
        {"batch_norm_updates": "all_ordered"},
        {"accumulate": {"steps": 2}},
    ],
)
def test_inference_uses_moving_statistics_and_averages_and_changes_nothing(tf, options):
    answer = tf(_evaluated, **options)
    assert answer["names"] == [
        *("eval/out", "eval/mean", "eval/outputs/loss", "eval/loss"),
        *("eval/ema/out", "eval/ema/mean", "eval/ema/outputs/loss", "eval/ema/loss"),
    ]
    assert answer["off"] < 1e-12
    assert answer["own_loss"] < 1e-12
    assert answer["apart"] > 1e-6
    assert answer["examples"] == 8
    assert answer["unchanged"]
    assert answer["repeats"]
    passes = options.get("towers", 2) * (2 if "accumulate" in options else 1)
    assert answer["updates"] == 2 * passes
    assert answer["seen"] == passes + (options.get("share") == "model_first")


def _in_template():
    def tower(x, y, training=True):
        return small.linear(x, y) * (1 if training else 3)

    training = tf_towers.build(tower, small.inputs(8), 2, small.sgd(0.0), share="make_template")
    stepper, batch = small.stepper(training), small.batch(8)
    losses = stepper.step(batch)
    found = stepper.evaluate(batch)
    stepper.close()
    return {"loss": (losses["loss/0"] + losses["loss/1"]) / 2, "evaluated": found["eval/loss"]}


def test_a_template_is_built_in_both_modes(tf):
    answer = tf(_in_template)
    assert abs(answer["evaluated"] - 3 * answer["loss"]) < 1e-12


def _without_mode():
    stepper = small.stepper(tf_towers.build(small.linear, small.inputs(8), 2, small.sgd()))
    found = stepper.evaluate(small.batch(8))
    stepper.close()
    return {"found": list(found), "inference": stepper._training.inference is None}


def test_a_tower_without_the_keyword_is_not_evaluated(tf):
    assert tf(_without_mode) == {"found": [], "inference": True}


def _training_is_an_input():
    def tower(x, y, training):
        w = tf.get_variable("w", [3, 2], x.dtype)
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - y) * training)

    inputs = dict(small.inputs(8), training=("float64", [8, 1]))
    return {"inference": tf_towers.build(tower, inputs, 2, small.sgd()).inference is None}


def test_an_input_of_that_name_is_no_mode(tf):
    assert tf(_training_is_an_input)["inference"]


def _own_variable():
    def tower(x, y, training=True):
        loss = small.linear(x, y)
        return loss if training else loss + tf.Variable(1.0, dtype=x.dtype, name="late")

    return {"said": small.refused(tf_towers.build, tower, small.inputs(8), 2, small.sgd())}


def test_variables_of_inference_alone_are_refused(tf):
    assert tf(_own_variable)["said"] == (
        "tower: expected it to use the training's variables with training=False, got new ones: inference/late. "
        "Make the same variables in both modes."
    )


def _padded():
    def tower(x, y, example_weights, training=True):
        w = tf.get_variable("w", [3, 2], x.dtype, tf.ones_initializer())
        errors = tf.reduce_mean(tf.square(tf.matmul(x, w) - y), axis=1)
        return tf.reduce_sum(errors * example_weights) / tf.reduce_sum(example_weights)

    stepper = small.stepper(tf_towers.build(tower, small.inputs(7), 2, small.sgd(), uneven="pad"))
    batch = small.batch(7)
    found = stepper.evaluate(batch)
    stepper.close()
    return {
        "loss": float(found["eval/loss"]),
        "wanted": float(np.mean((batch["x"].dot(np.ones([3, 2])) - batch["y"]) ** 2)),
    }


def test_an_uneven_batch_is_evaluated_whole(tf):
    answer = tf(_padded)
    assert abs(answer["loss"] - answer["wanted"]) < 1e-12
