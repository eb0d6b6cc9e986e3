# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

KINDS = {"ref": ("VariableV2",), "resource": ("VarHandleOp",)}


def _placed(variables, towers, resource):
    """Where the partition graphs of a real step say that everything was."""

    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return small.linear(x, y)

    training = tf_towers.build(
        tower, small.inputs(4), towers, lambda: tf.train.MomentumOptimizer(0.1, 0.9), variables=variables
    )
    feeds = small.batch(4)
    with tf_towers.session(training.graph, towers) as session:
        session.run([variable.initializer for variable in training.saved])
        known = tf.RunMetadata()
        options = tf.RunOptions(output_partition_graphs=True)
        session.run(
            [training.train_op],
            {training.inputs[name]: feeds[name] for name in feeds},
            options=options,
            run_metadata=known,
        )
    where = {node.name: (node.op, small.cpu(node.device)) for part in known.partition_graphs for node in part.node}
    return {
        "variables": {name: at for name, (kind, at) in where.items() if kind in ("VariableV2", "VarHandleOp")},
        "kinds": sorted({where[name][0] for name in ("w", "b", "w/Momentum", "b/Momentum")}),
        "matmul": [where[f"tower_{index}/MatMul"][1] for index in range(towers)],
        "backward": [where[f"{name}/MatMul_grad/MatMul_1"][1] for name in small.gradient_scopes(training)],
        "updates": sorted({at for kind, at in where.values() if "ApplyMomentum" in kind}),
        "wished": {name: variable.device for name, variable in training.weights.items()},
    }


def _device_of(kind):
    """Where a device function puts an op that is there, and a node that is about to be."""
    place = tf_towers.place_variables("/cpu:0", "/cpu:1")
    with tf.device(place):
        made = tf.get_variable("v", [2], use_resource=kind == "resource")
        summed = tf.reduce_sum(made)
    return {"variable": made.op.device, "sum": summed.op.device, "again": place(made.op), "of_sum": place(summed.op)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("variables", "home"), [("cpu", "/cpu:0"), ("first_gpu", "/cpu:1")])
@pytest.mark.parametrize("towers", [1, 2])
def test_variables_and_updates_are_at_home_and_towers_compute_on_their_own_device(tf, variables, home, towers, kind):
    answer = tf(_placed, variables=variables, towers=towers, resource=kind == "resource")
    assert answer["kinds"] == list(KINDS[kind])
    assert set(answer["variables"]) >= {"w", "b", "w/Momentum", "b/Momentum", "global_step"}
    assert set(answer["variables"].values()) == {home}
    assert answer["matmul"] == answer["backward"] == [f"/cpu:{index + 1}" for index in range(towers)]
    assert answer["updates"] == [home]


@pytest.mark.parametrize("kind", KINDS)
def test_the_device_function_knows_both_kinds_of_variables(tf, kind):
    answer = tf(_device_of, kind=kind)
    assert answer["variable"].lower().endswith("cpu:0")
    assert answer["again"] == "/cpu:0"
    assert answer["sum"].lower().endswith("cpu:1")
    assert answer["of_sum"] == "/cpu:1"


def _tower_devices():
    return {
        "none": tf_towers.tower_devices(2),
        "enough": tf_towers.tower_devices(2, ["/gpu:0", "/gpu:1", "/gpu:2"]),
        "few": tf_towers.tower_devices(2, ["/gpu:0"]),
    }


def test_towers_take_gpus_where_there_are_enough_else_cpus_after_the_first(tf):
    assert tf(_tower_devices) == {
        "none": ["/cpu:1", "/cpu:2"],
        "enough": ["/gpu:0", "/gpu:1"],
        "few": ["/cpu:1", "/cpu:2"],
    }


def _without_a_function(home):
    # What legacy code does that tests for op type "Variable" only: the variable stays where the tower is.
    def only_variable(op):
        return home if (op if not hasattr(op, "node_def") else op.node_def).op == "Variable" else "/cpu:1"

    with tf.device(only_variable):
        ref = tf.get_variable("ref", [2], use_resource=False)
        resource = tf.get_variable("resource", [2], use_resource=True)
    return {"ref": ref.op.device, "resource": resource.op.device}


def test_a_device_function_that_knows_the_type_variable_only_places_no_variable_at_all(tf):
    answer = tf(_without_a_function, home="/cpu:0")
    assert {device.lower()[-5:] for device in answer.values()} == {"cpu:1"}


def _balanced(towers, resource):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        made = [
            tf.get_variable(name, [size], x.dtype)
            for name, size in (("a", 10), ("b", 2), ("c", 3), ("d", 1), ("e", 20))
        ]
        return tf.add_n([tf.reduce_sum(one) for one in made]) * tf.reduce_mean(x) + 0 * tf.reduce_mean(y)

    training = tf_towers.build(
        tower, small.inputs(4), towers, lambda: tf.train.MomentumOptimizer(0.1, 0.9), variables="balanced"
    )
    stepper = small.stepper(training)
    stepper.step(small.batch(4))
    stepper.close()
    return {
        "weights": {name: small.cpu(variable.device) for name, variable in training.weights.items()},
        "slots": {name: small.cpu(variable.device) for (_, name), variable in training.slots.items()},
        "all": sorted({small.cpu(variable.device) for variable in training.saved}),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_balanced_variables_go_where_the_fewest_bytes_are_and_slots_go_with_them(tf, kind):
    answer = tf(_balanced, towers=2, resource=kind == "resource")
    assert answer["weights"] == {"a": "/cpu:1", "b": "/cpu:2", "c": "/cpu:2", "d": "/cpu:2", "e": "/cpu:2"}
    assert answer["slots"] == answer["weights"]


@pytest.mark.parametrize("kind", KINDS)
def test_with_one_device_balanced_variables_have_no_host_copy(tf, kind):
    assert tf(_balanced, towers=1, resource=kind == "resource")["all"] == ["/cpu:1"]


def _normalised(x, y):
    images = tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm", momentum=0.5)
    return small.linear(tf.reshape(images, [-1, 3]), y) + tf.reduce_sum(tf.square(images))


def _replicated(variables, resource, steps, updates):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        # What every tower starts from differs until the first one's values are handed to the others.
        noise = tf.get_variable("noise", [3], x.dtype, tf.random_normal_initializer())
        return _normalised(x + noise, y)

    training = tf_towers.build(
        tower, small.inputs(6), 3, lambda: tf.train.AdamOptimizer(0.1), variables=variables, batch_norm_updates=updates
    )
    stepper = small.stepper(training)
    stepper.load({"var/noise": np.linspace(0, 1, 3)})
    for seed in range(steps):
        recorded = stepper.step(small.batch(6, seed))
    recorded.update(stepper.state())
    copies = stepper._session.run(training.copies)
    stepper.close()
    found = {"step:" + name: value for name, value in recorded.items()}
    for name, values in copies.items():
        found.update((f"copy:{index}:{name}", value) for index, value in enumerate(values))
    found["devices"] = {name: [small.cpu(one.device) for one in group] for name, group in training.copies.items()}
    found["first"] = {name: small.cpu(one.device) for name, one in training.weights.items()}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_replicated_variables_live_on_every_tower_and_stay_equal_to_what_one_copy_becomes(tf, kind):
    one, answer = (
        tf(_replicated, variables=variables, resource=kind == "resource", steps=3, updates="first")
        for variables in ("cpu", "replicated")
    )
    weights = ["noise", "norm/gamma", "norm/beta", "w", "b"]
    assert answer["first"] == dict.fromkeys(weights, "/cpu:1")
    for name in weights:
        assert answer["devices"][name] == ["/cpu:2", "/cpu:3"]
        np.testing.assert_allclose(answer[f"step:var/{name}"], one[f"step:var/{name}"], rtol=1e-12)
        for index in range(2):
            np.testing.assert_array_equal(answer[f"copy:{index}:{name}"], answer[f"step:var/{name}"])
    assert sum(name.startswith("copy:0:") and name.endswith("/Adam") for name in answer) == len(weights)
    assert {name for name in one if name.startswith("step:")} == {name for name in answer if name.startswith("step:")}


def test_the_first_copy_s_statistics_move_with_the_first_tower_and_the_others_only_with_their_own(tf):
    first, every = (
        tf(_replicated, variables="replicated", resource=False, steps=1, updates=updates)
        for updates in ("first", "unordered")
    )
    name = "norm/moving_mean"
    assert first[f"copy:0:{name}"].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(every[f"step:stat/{name}"], first[f"step:stat/{name}"])
    for index in range(2):
        mean = (every[f"step:feed/{index + 1}/x"] + np.linspace(0, 1, 3)).mean(0)
        np.testing.assert_allclose(every[f"copy:{index}:{name}"], mean * 0.5, rtol=1e-12)


def _refused():
    return {
        "policy": small.refused(tf_towers.homes, "gpu", ["/cpu:1"]),
        "both": small.refused(
            tf_towers.build, small.linear, small.inputs(4), 2, small.sgd(), variables="replicated", share="auto_reuse"
        ),
    }


def test_what_cannot_be_placed_is_refused(tf):
    assert tf(_refused) == {
        "policy": "place: expected variables to be one of cpu, first_gpu, balanced, replicated, got 'gpu'.",
        "both": "build: expected replicated variables or share, got both. Leave one of them out.",
    }


def _initialized():
    def tower(x, y):
        return small.linear(x + tf.get_variable("noise", [3], x.dtype, tf.random_normal_initializer()), y)

    training = tf_towers.build(tower, small.inputs(4), 2, small.sgd(), variables="replicated")
    with tf_towers.session(training.graph, 2) as session:
        session.run([variable.initializer for variable in training.saved])
        drawn = session.run(training.copies["noise"][0])
    stepper = small.stepper(training)
    first, copy = stepper._session.run([training.weights["noise"], training.copies["noise"][0]])
    stepper.close()
    return {"drawn": drawn, "first": first, "copy": copy}


def test_copies_start_from_the_values_of_the_first_whatever_they_drew(tf):
    answer = tf(_initialized)
    np.testing.assert_array_equal(answer["copy"], answer["first"])
    assert np.all(answer["drawn"] != answer["first"])


SPREAD = {
    "balanced": {"w": 1, "b": 2, "w/Momentum": 1, "b/Momentum": 2, "global_step": 1},
    "replicated": {
        "w": 1,
        "b": 1,
        "copy_1/w": 2,
        "copy_1/b": 2,
        "w/Momentum": 1,
        "b/Momentum": 1,
        "copy_1/w/Momentum": 2,
        "copy_1/b/Momentum": 2,
        "global_step": 1,
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variables", SPREAD)
def test_spread_variables_really_are_there_and_towers_still_compute_on_their_own_device(tf, variables, kind):
    answer = tf(_placed, variables=variables, towers=2, resource=kind == "resource")
    there = {name: int(device[-1]) for name, device in answer["variables"].items() if name in SPREAD[variables]}
    assert there == SPREAD[variables]
    assert answer["kinds"] == list(KINDS[kind])
    assert answer["matmul"] == answer["backward"] == ["/cpu:1", "/cpu:2"]
    assert answer["updates"] == ["/cpu:1", "/cpu:2"]
