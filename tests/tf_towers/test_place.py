# ruff: noqa: F821 - programs find tf, tf_towers and small there
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
