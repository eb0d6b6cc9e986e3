# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

STYLES = ["variable_scope", "auto_reuse", "reuse_variables", "make_template", "model_first"]


def _trained(style, resource):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        normalised = tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm")
        return small.linear(tf.reshape(normalised, [-1, 3]), y)

    training = tf_towers.build(
        tower, small.inputs(6), 3, lambda: tf.train.AdamOptimizer(0.1), batch_norm_updates="last", share=style
    )
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(6))
    recorded.update(stepper.state())
    stepper.close()
    recorded["updates"] = [len(replica.updates) for replica in training.towers]
    return recorded


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_every_way_of_sharing_trains_the_same_variables_to_the_same_values(tf, style, resource):
    reference = tf(_trained, style="variable_scope", resource=resource)
    answer = tf(_trained, style=style, resource=resource)
    prefix = "model/" if style == "make_template" else ""
    assert answer["updates"] == [2, 2, 2]
    assert "var/w" in reference
    for name, value in reference.items():
        if name.startswith(("var/", "stat/", "slot/", "grad/", "tower_grad/")):
            parts = name.rsplit("/", 2 if "norm" in name else 1)
            renamed = f"{parts[0]}/{prefix}{'/'.join(parts[1:])}"
            np.testing.assert_array_equal(answer[renamed], value, err_msg=name)
    assert len(answer) == len(reference)


def _own(style):
    class Model:
        """Keeps its variables, as layers that are objects do."""

        def __init__(self):
            self.w = None

        def __call__(self, x, y):
            if self.w is None:
                self.w = tf.Variable(tf.ones([3, 2], x.dtype), name="w")
            return tf.reduce_mean(tf.square(tf.matmul(x, self.w) - y))

    if style != "own":
        return {"refused": small.refused(tf_towers.build, Model(), small.inputs(4), 2, small.sgd(), share=style)}
    training = tf_towers.build(Model(), small.inputs(4), 2, small.sgd(), share=style)
    return {"weights": list(training.weights)}


def test_a_model_that_keeps_its_variables_shares_them_by_itself(tf):
    (name,) = tf(_own, style="own")["weights"]
    assert name.endswith("w")


def _plain_variable(style):
    def tower(x, y):
        w = tf.Variable(tf.ones([3, 2], x.dtype), name="plain")
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - y))

    try:
        return {"weights": list(tf_towers.build(tower, small.inputs(4), 2, small.sgd(), share=style).weights)}
    except ValueError as error:
        return {"refused": str(error)}


@pytest.mark.parametrize("style", [style for style in STYLES if style != "make_template"])
def test_tf_variable_obeys_no_scope_and_is_refused(tf, style):
    answer = tf(_plain_variable, style=style)
    assert "to share the variables of tower 0, got new ones: tower_" in answer["refused"]
    assert answer["refused"].endswith("Make variables with tf.get_variable, which obeys the shared scope.")


def _template_and_variable():
    def tower(x, y):
        w = tf.Variable(tf.ones([3, 2], x.dtype), name="plain")
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - y))

    call = tf_towers.share(tower, "make_template")
    inputs = {name: tf.constant(value) for name, value in small.batch(2).items()}
    try:
        for index in range(2):
            call(index, inputs)
    except ValueError:
        return {"made": "refused"}
    return {"made": len(tf.trainable_variables())}


def test_make_template_refuses_what_it_cannot_share(tf):
    """Trainable variables that a second call makes are an error of TensorFlow's own there."""
    assert tf(_template_and_variable) == {"made": "refused"}


def _misspelt(style):
    names = iter(["w", "v"])

    def tower(x):
        return tf.reduce_sum(x * tf.get_variable(next(names), [3], x.dtype))

    call = tf_towers.share(tower, style)
    try:
        for index in range(2):
            call(index, {"x": tf.ones([3])})
    except ValueError as error:
        return {"refused": str(error)}
    return {"made": [variable.op.name for variable in tf.trainable_variables()]}


def test_auto_reuse_makes_a_second_variable_silently_where_reuse_refuses(tf):
    assert tf(_misspelt, style="auto_reuse") == {"made": ["w", "v"]}
    for style in ("variable_scope", "reuse_variables"):
        assert "Variable v does not exist" in tf(_misspelt, style=style)["refused"]


def _unknown():
    return {"refused": small.refused(tf_towers.share, small.linear, "copy")}


def test_an_unknown_way_is_refused(tf):
    assert tf(_unknown)["refused"] == (
        "share: expected style to be one of auto_reuse, make_template, model_first, own, reuse_variables, "
        "variable_scope, got 'copy'."
    )


def _left_on():
    """`reuse_variables` outside of a scope of its own, as some scripts have it."""
    x = tf.ones([2, 3])
    for _ in range(2):
        loss = small.linear(x, tf.ones([2, 2]))
        tf.get_variable_scope().reuse_variables()
    try:
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    except ValueError as error:
        return {"refused": str(error)}
    return {"refused": ""}


def test_reuse_that_is_left_on_stops_an_optimizer_from_making_slots_which_ours_is_spared(tf):
    assert "Variable w/Momentum/ does not exist" in tf(_left_on)["refused"]
    assert "slot/m/w" in tf(_trained, style="reuse_variables", resource=False)
