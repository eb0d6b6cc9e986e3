# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""An update beside a fetch: with ref variables it may run first."""

import numpy as np
import pytest


def _late(x):
    """Many ops that leave x as it is and that no graph optimizer takes out."""
    for _ in range(60):
        x = tf.log(tf.exp(x))
    return x


def _tower(x, y):
    # What reads `a` late: an output, and the gradient of b; what updates `a` is ready at once.
    a = tf.get_variable("a", [], x.dtype, tf.ones_initializer())
    b = tf.get_variable("b", [], x.dtype, tf.ones_initializer())
    output = a * _late(tf.reduce_mean(x))
    loss = a * tf.stop_gradient(b) + _late(tf.stop_gradient(a) * b)
    return loss, {"output": output}


def _watched(gated, towers, resource=False, **options):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return _tower(x, y)

    training = tf_towers.build(tower, small.inputs(4), towers, small.sgd(0.25), **options)
    with training.graph.as_default():
        update = training.train_op if gated else small.sgd(0.25)().apply_gradients(training.combined)
    watched = {}
    for index, replica in enumerate(training.towers):
        watched[f"output{index}"] = replica.outputs["output"]
        watched[f"loss{index}"] = replica.loss
        for gradient, variable in replica.gradients:
            watched[f"{variable.op.name}{index}"] = gradient
    for kind, gradients in (("combined", training.combined), ("clipped", training.clipped)):
        watched.update((f"{kind}:{variable.op.name}", gradient) for gradient, variable in gradients)
    if training.rate is not None:
        watched["rate"] = training.rate
    feeds = {training.inputs[name]: value for name, value in small.batch(4).items()}
    stepper = tf_towers.session(training.graph, towers)
    stepper.run([variable.initializer for variable in training.saved])
    alone = stepper.run(watched, feeds)
    beside = stepper.run([update, watched], feeds)[1]
    stepper.close()
    return {"differ": sorted(name for name in watched if alone[name] != beside[name])}


def test_an_ungated_update_races(tf):
    """With ref variables, losses, outputs and even gradients are computed after the update that they belong to."""
    differ = tf(_watched, gated=False, towers=1)["differ"]
    assert "output0" in differ
    assert {"a0", "b0"} & set(differ)  # which one depends on TensorFlow's version


@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize("resource", [False, True])
def test_our_update_waits_for_everything_that_a_step_records(tf, towers, resource):
    assert tf(_watched, gated=True, towers=towers, resource=resource) == {"differ": []}


OPTIONS = {
    "clip": {"clip": {"by": "global_norm", "limit": 0.1}},
    "clip in towers": {"clip": {"by": "value", "limit": 0.1, "at": "tower"}},
    "ema": {"ema": {"decay": 0.5}},
    "ema beside": {"ema": {"decay": 0.5, "order": "unordered"}},
    "scaled": {"loss_scale": 3.0},
    "skipping": {"loss_scale": {"initial": 8.0, "growth_interval": 1}},
    "accumulate": {"accumulate": {"steps": 2}},
    "replicated": {"variables": "replicated"},
    "balanced": {"variables": "balanced"},
    "grouped": {"update_ops": "grouped"},
    "decay once": {"weight_decay": {"coefficient": 0.1, "only": "a"}, "regularization": "once"},
}


TOGETHER = {
    "on the towers' mean": ("clip", "ema", "skipping", "replicated", "decay once"),
    "in the towers": ("clip in towers", "ema beside", "scaled", "accumulate", "balanced", "grouped"),
}


def test_every_option_is_among_those_together():
    assert {option for options in TOGETHER.values() for option in options} == set(OPTIONS)


@pytest.mark.parametrize("names", TOGETHER.values(), ids=list(TOGETHER))
def test_our_update_waits_whatever_it_does_together(tf, names):
    options = {name: value for option in names for name, value in OPTIONS[option].items()}
    assert tf(_watched, gated=True, towers=2, **options) == {"differ": []}


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_our_update_waits_whatever_else_it_does(tf, option):
    assert tf(_watched, gated=True, towers=2, **OPTIONS[option]) == {"differ": []}


def _scheduled():
    def optimizer():
        rate = {"schedule": "exponential_decay", "learning_rate": 1.0, "decay_steps": 1, "decay_rate": 0.5}
        return tf_towers.make_optimizer({"name": "sgd", "learning_rate": rate})

    training = tf_towers.build(_tower, small.inputs(4), 2, optimizer)
    stepper = small.stepper(training)
    rates = [float(stepper.step(small.batch(4))["state/learning_rate"]) for _ in range(4)]
    stepper.close()
    return {"rates": rates}


def test_the_recorded_learning_rate_is_that_of_the_step_count_before_the_update(tf):
    assert tf(_scheduled) == {"rates": [1.0, 0.5, 0.25, 0.125]}


def _overtaken(x, y):
    """Steps of a Stepper: what its gradients say against where the weights went."""
    training = tf_towers.build(_tower, small.inputs(4), 2, small.sgd(0.25))
    stepper = small.stepper(training)
    before = stepper.state()
    recorded = stepper.step({"x": x, "y": y})
    after = stepper.state()
    stepper.close()
    return {name: before["var/" + name] - 0.25 * recorded["grad/" + name] - after["var/" + name] for name in "ab"}


def test_weights_move_by_the_gradients_that_are_recorded(tf):
    answer = tf(_overtaken, x=np.ones((4, 3)), y=np.ones((4, 2)))
    assert {name: float(value) for name, value in answer.items()} == {"a": 0.0, "b": 0.0}
