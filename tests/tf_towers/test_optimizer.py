# ruff: noqa: F821 - programs find tf_towers there
import numpy as np
import pytest

from parity.sides.process import SideFailed


def _hyper_parameters(description):
    optimizer = tf_towers.make_optimizer(description)
    return {"known": tf_towers.hyper_parameters(optimizer)}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({"name": "sgd", "learning_rate": 0.1}, {"name": "GradientDescentOptimizer", "learning_rate": 0.1}),
        (
            {"name": "momentum", "learning_rate": 0.1, "momentum": 0.9, "use_nesterov": True},
            {"name": "MomentumOptimizer", "learning_rate": 0.1, "momentum": 0.9, "use_nesterov": True},
        ),
        (
            {"name": "adam", "learning_rate": 0.001},
            {"name": "AdamOptimizer", "learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
        ),
    ],
)
def test_hyper_parameters_are_told_as_the_graph_holds_them_in_float32(tf, description, expected):
    known = tf(_hyper_parameters, description=description)["known"]
    rounded = {key: float(np.float32(value)) if isinstance(value, float) else value for key, value in expected.items()}
    assert known == rounded
    assert known["learning_rate"] != expected["learning_rate"]


def test_an_unknown_optimizer_is_refused(tf):
    with pytest.raises(SideFailed, match=r"optimizer: expected one of .*adam.*sgd.*, got 'lion'\."):
        tf(_hyper_parameters, description={"name": "lion"})


def _graph_constants():
    """What the update op really reads, in a float64 model."""
    training = tf_towers.build(
        small.linear, small.inputs(2), 1, lambda: tf_towers.make_optimizer({"name": "adam", "learning_rate": 0.001})
    )
    update = next(op for op in training.graph.get_operations() if op.type == "ApplyAdam")
    feeds = {training.inputs[name]: value for name, value in small.batch(2).items()}
    stepper = tf_towers.session(training.graph, 1)
    stepper.run([variable.initializer for variable in training.saved])
    rate, beta1 = stepper.run([update.inputs[5], update.inputs[6]], feeds)
    stepper.close()
    return {"rate": rate, "beta1": beta1}


def test_the_graph_of_a_float64_model_holds_hyper_parameters_rounded_to_float32(tf):
    answer = tf(_graph_constants)
    assert answer["rate"].dtype == answer["beta1"].dtype == np.float64
    assert answer["rate"] == np.float32(0.001)
    assert answer["beta1"] == np.float32(0.9)
