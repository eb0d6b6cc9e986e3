# ruff: noqa: F821 - programs find tf_towers there
import numpy as np
import pytest

from parity.worker.process import SideFailed


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
        (
            {"name": "rmsprop", "learning_rate": 0.1, "epsilon": 1.0, "momentum": 0.9},
            {"name": "RMSPropOptimizer", "learning_rate": 0.1, "decay": 0.9, "momentum": 0.9, "epsilon": 1.0}
            | {"centered": False},
        ),
        (
            {"name": "adadelta", "learning_rate": 0.1},
            {"name": "AdadeltaOptimizer", "learning_rate": 0.1, "rho": 0.95, "epsilon": 1e-8},
        ),
    ],
)
def test_hyper_parameters_are_told_as_the_graph_holds_them_in_float32(tf, description, expected):
    known = tf(_hyper_parameters, description=description)["known"]
    rounded = {key: float(np.float32(value)) if isinstance(value, float) else value for key, value in expected.items()}
    assert known == rounded
    assert known["learning_rate"] != expected["learning_rate"]


def test_the_initial_accumulator_is_told_as_it_is_for_it_is_not_rounded(tf):
    for name in ("adagrad", "ftrl"):
        known = tf(_hyper_parameters, description={"name": name, "learning_rate": 0.1})["known"]
        assert known["initial_accumulator_value"] == 0.1
        assert known["learning_rate"] == np.float32(0.1)


def _of_a_script(description):
    from tf_towers.record.variables import hyper_parameters

    return {"known": hyper_parameters(tf_towers.make_optimizer(description))}


def test_a_recorded_script_tells_the_shrinkage_of_its_optimizer_too(tf):
    described = {"name": "ftrl", "learning_rate": 0.5, "l2_shrinkage_regularization_strength": 0.25}
    assert tf(_of_a_script, description=described)["known"]["l2_shrinkage_regularization_strength"] == 0.25


def test_an_unknown_argument_is_refused(tf):
    with pytest.raises(
        SideFailed, match=r"optimizer: expected what AdamOptimizer takes, got learning_rate, rho: .*own names\."
    ):
        tf(_hyper_parameters, description={"name": "adam", "learning_rate": 0.1, "rho": 0.5})


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


DESCRIPTIONS = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "use_nesterov": True},
    "adam": {},
    "rmsprop": {"momentum": 0.5, "epsilon": 1.0},
    "centered": {"centered": True},
    "adagrad": {},
    "adadelta": {},
    "ftrl": {"l2_regularization_strength": 0.1},
}
NAMES = {"nesterov": "momentum", "centered": "rmsprop"}
SLOTS = {
    "sgd": [],
    "momentum": ["momentum"],
    "nesterov": ["momentum"],
    "adam": ["m", "v"],
    "rmsprop": ["momentum", "rms"],
    "centered": ["mg", "momentum", "rms"],
    "adagrad": ["accumulator"],
    "adadelta": ["accum", "accum_update"],
    "ftrl": ["accum", "linear"],
}


def _trained(description, steps, resource):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return small.linear(x, y)

    training = tf_towers.build(tower, small.inputs(4), 2, lambda: tf_towers.make_optimizer(description))
    stepper = small.stepper(training)
    for seed in range(steps):
        stepper.step(small.batch(4, seed))
    state = stepper.state()
    stepper.close()
    with tf.Graph().as_default() as graph:
        optimizer = tf_towers.make_optimizer(description)
        x, y = (tf.placeholder("float64", [4, size]) for size in (3, 2))
        train = optimizer.minimize(tower(x, y))
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            for seed in range(steps):
                batch = small.batch(4, seed)
                session.run(train, {x: batch["x"], y: batch["y"]})
            plain = session.run({variable.op.name: variable for variable in tf.trainable_variables()})
    slots = sorted({slot for slot, _ in training.slots})
    return {"slots": slots, "w": state["var/w"], "b": state["var/b"], "plain_w": plain["w"], "plain_b": plain["b"]}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_two_towers_train_as_plain_tensorflow_does_with_the_whole_batch(tf, kind, resource):
    description = {"name": NAMES.get(kind, kind), "learning_rate": 0.05, **DESCRIPTIONS[kind]}
    answer = tf(_trained, description=description, steps=3, resource=resource)
    assert answer["slots"] == SLOTS[kind]
    for name in "wb":
        assert np.abs(answer[name] - (1.0 if name == "w" else 0.0)).max() > 1e-6
        np.testing.assert_allclose(answer[name], answer["plain_" + name], rtol=1e-9)


def _wrong_optimizers():
    def applied():
        optimizer = tf.train.AdamOptimizer()
        optimizer.minimize(tf.add_n([tf.reduce_sum(weight) for weight in tf.trainable_variables()]))
        return optimizer

    def build(optimizer):
        return small.refused(tf_towers.build, small.linear, small.inputs(4), 2, optimizer)

    return {
        "one_each": build(lambda: [tf.train.AdamOptimizer() for _ in range(2)]),
        "applied": build(applied),
    }


def test_an_optimizer_for_each_tower_and_one_that_was_applied_are_refused(tf):
    assert tf(_wrong_optimizers) == {
        "one_each": "optimizer: expected a function that returns one tf.train.Optimizer, got list. "
        "All towers share one; return it from the function.",
        "applied": "optimizer: expected an optimizer that has not been applied yet, got one with slots. "
        "Return it as it was made: the towers' combined gradients are applied here.",
    }
