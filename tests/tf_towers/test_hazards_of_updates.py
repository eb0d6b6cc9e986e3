# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""What legacy code runs into around the update, as TensorFlow really behaves."""

import numpy as np
import pytest


def _counted(resource):
    """An optimizer made by hand that groups ``t += 1`` with updates that read t, as published ones do."""

    class ByHand(tf.train.Optimizer):
        def __init__(self):
            super(ByHand, self).__init__(False, "by_hand")  # noqa: UP008
            self.t = tf.Variable(np.float64(1.0), trainable=False, use_resource=resource, name="t")

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            moves = [tf.assign_sub(var, 1.0 / self.t * tf.ones_like(grad)) for grad, var in grads_and_vars]
            return tf.group(tf.assign(self.t, self.t + 1.0), tf.assign_add(global_step, 1), *moves)

    training = tf_towers.build(small.linear, small.inputs(4), 2, ByHand)
    stepper = small.stepper(training)
    before = stepper.state()
    stepper.step(small.batch(4))
    after = stepper.state()
    stepper.close()
    return {name: before[f"var/{name}"] - after[f"var/{name}"] for name in ("w", "b")}


@pytest.mark.parametrize("resource", [False, True])
def test_a_step_counter_that_is_counted_beside_its_readers_is_read_before_or_after(tf, resource):
    for moved in tf(_counted, resource=resource).values():
        assert np.unique(np.round(moved, 12)).tolist() in ([0.5], [1.0])


def _stepped(kind, scale=1.0, **settings):
    training = tf_towers.build(
        small.linear,
        small.inputs(4),
        2,
        lambda: tf_towers.make_optimizer(dict(settings, name=kind, learning_rate=0.5)),
    )
    stepper = small.stepper(training)
    before = stepper.state()
    batch = {name: value * scale for name, value in small.batch(4).items()}
    batch["y"] = batch["x"] @ np.ones((3, 2)) + batch["y"]
    recorded = stepper.step(batch)
    after = stepper.state()
    stepper.close()
    return {"gradient": recorded["grad/w"], "moved": before["var/w"] - after["var/w"]}


def test_adams_epsilon_stands_beside_the_uncorrected_root_where_papers_and_torch_have_the_corrected_one(tf):
    answer = tf(_stepped, kind="adam", scale=1e-5, epsilon=1e-8)
    gradient, rate, epsilon = answer["gradient"], 0.5, float(np.float32(1e-8))
    beta1, beta2 = (float(np.float32(beta)) for beta in (0.9, 0.999))
    m, v = (1 - beta1) * gradient, (1 - beta2) * gradient**2
    of_tensorflow = rate * np.sqrt(1 - beta2) / (1 - beta1) * m / (np.sqrt(v) + epsilon)
    of_torch = rate * (m / (1 - beta1)) / (np.sqrt(v / (1 - beta2)) + epsilon)
    np.testing.assert_allclose(answer["moved"], of_tensorflow, rtol=1e-9)
    assert np.abs(of_torch / of_tensorflow - 1).max() > 0.1


def test_rmsprop_has_its_epsilon_inside_the_root_and_starts_at_one(tf):
    answer = tf(_stepped, kind="rmsprop", epsilon=1e-3)
    gradient, decay, epsilon = answer["gradient"], float(np.float32(0.9)), float(np.float32(1e-3))
    square = decay * 1.0 + (1 - decay) * gradient**2
    np.testing.assert_allclose(answer["moved"], 0.5 * gradient / np.sqrt(square + epsilon), rtol=1e-7)
    outside = 0.5 * gradient / (np.sqrt(square) + epsilon)
    assert np.abs(answer["moved"] / outside - 1).max() > 1e-4


def test_adagrad_starts_at_a_tenth(tf):
    answer = tf(_stepped, kind="adagrad")
    gradient = answer["gradient"]
    np.testing.assert_allclose(answer["moved"], 0.5 * gradient / np.sqrt(0.1 + gradient**2), rtol=1e-7)


def _logged():
    training = tf_towers.build(small.linear, small.inputs(12), 3, small.sgd(), reduce="prescaled")
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(12))
    stepper.close()
    return {name: value for name, value in recorded.items() if name.startswith(("loss", "feed"))}


def test_what_logs_print_is_the_last_towers_loss_or_a_sum_of_scaled_ones_and_neither_is_what_a_tower_has(tf):
    answer = tf(_logged)
    losses = [float(answer[f"loss/{tower}"]) for tower in range(3)]
    x, y = (np.concatenate([answer[f"feed/{tower}/{name}"] for tower in range(3)]) for name in "xy")
    whole = np.mean((x @ np.ones((3, 2)) - y) ** 2)
    assert sum(loss / 3 for loss in losses) == pytest.approx(whole, rel=1e-13)
    assert abs(losses[-1] - whole) > 1e-3 * whole


def _overflowing():
    """The second tower's gradient overflows, the first one's does not."""
    training = tf_towers.build(small.linear, small.inputs(4), 2, small.sgd(), loss_scale={"initial": 8.0})
    stepper = small.stepper(training)
    before = stepper.state()
    batch = small.batch(4)
    batch["x"][2:] = 1e200
    recorded = stepper.step(batch)
    after = stepper.state()
    stepper.close()
    first = np.isfinite(recorded["tower_grad/0/w"]).all()
    return {
        "first": bool(first),
        "skipped": bool(recorded["state/skipped"]),
        "moved": float(np.abs(after["var/w"] - before["var/w"]).max()),
        "scale": float(after["state/loss_scale"]),
    }


def test_one_tower_that_overflows_skips_the_step_of_all_since_the_combined_gradient_decides(tf):
    assert tf(_overflowing) == {"first": True, "skipped": True, "moved": 0.0, "scale": 4.0}


def _positional():
    training = tf_towers.build(
        lambda x, y: small.linear(x, y) + tf.reduce_sum(tf.get_variable("a", [2], x.dtype, tf.ones_initializer())),
        small.inputs(4),
        2,
        small.sgd(),
    )
    stepper = small.stepper(training)
    named = {"var/a": np.array([1.0, 2.0]), "var/b": np.array([3.0, 4.0])}
    stepper.load(named)
    right = stepper.state()
    values = iter([named[f"var/{name}"] for name in ("a", "b")])
    with training.graph.as_default():
        order = [variable for variable in tf.trainable_variables() if variable.op.name in ("a", "b")]
    for variable in order:
        variable.load(next(values), stepper._session)
    wrong = stepper.state()
    stepper.close()
    return {
        "order": [variable.op.name for variable in order],
        "right": {name: right[f"var/{name}"].tolist() for name in "ab"},
        "wrong": {name: wrong[f"var/{name}"].tolist() for name in "ab"},
    }


def test_weights_that_are_loaded_by_position_end_up_in_each_other_where_the_order_is_another(tf):
    answer = tf(_positional)
    assert answer["order"] == ["b", "a"]  # of their making, which no sorted or hashed list keeps
    assert answer["right"] == {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    assert answer["wrong"] == {"a": [3.0, 4.0], "b": [1.0, 2.0]}
