# ruff: noqa: F821 - programs find tf, tf_towers and small there
import pytest


def _tower(x, y):
    kernel = tf.get_variable("conv/kernel", [1, 1, 3, 3], x.dtype)
    images = tf.nn.conv2d(tf.reshape(x, [-1, 1, 1, 3]), kernel, [1, 1, 1, 1], "SAME")
    table = tf.get_variable("table", [5, 2], x.dtype)
    images = tf_towers.batch_norm(images, "norm")
    looked_up = tf.nn.embedding_lookup(table, tf.cast(tf.abs(y[:, 0]), tf.int32))
    slow = tf.get_variable("slow", [1, 1, 3, 3], x.dtype, trainable=False)
    tf.add_to_collection("update_ops", slow.assign(0.9 * slow + 0.1 * kernel))  # a copy that follows: no use of either
    return small.linear(tf.reshape(images, [-1, 3]), y - looked_up) + tf.nn.l2_loss(kernel)


def _known(towers, resource, variables="cpu"):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return _tower(x, y)

    training = tf_towers.build(
        tower, small.inputs(4), towers, lambda: tf_towers.make_optimizer({"name": "adam"}), "sum", variables
    )
    return {
        "facts": tf_towers.facts(training, "float64", 1),
        "variables": tf_towers.describe_variables(training),
    }


@pytest.mark.parametrize("resource", [False, True])
def test_the_facts_say_what_may_differ_on_purpose(tf, resource):
    facts = tf(_known, towers=2, resource=resource)["facts"]
    assert facts["framework"].startswith("tensorflow ")
    expected = {
        "side": "tf_towers",
        "towers": 2,
        "combine": "sum",
        "precision": "float64",
        "slots": ["m", "v"],
        "variables_on": "cpu",
        "batch_norm_updates": "first",
        "resource_variables": resource,
        "threads": 1,
    }
    assert {key: facts[key] for key in expected} == expected
    assert facts["optimizer"]["name"] == "AdamOptimizer"
    assert [device.lower()[-5:] for device in facts["devices"]] == ["cpu:1", "cpu:2"]
    assert facts["gpu"] is False


@pytest.mark.parametrize("resource", [False, True])
def test_a_variable_s_use_names_what_reads_it(tf, resource):
    variables = tf(_known, towers=2, resource=resource)["variables"]
    use = {name: described["use"] for name, described in variables.items()}
    assert use["conv/kernel"] == "Conv2D+L2Loss"
    assert use["w"] == "MatMul"
    assert use["table"] in ("GatherV2", "ResourceGather")
    assert set(use["b"].split("+")) <= {"Add", "AddV2"}
    assert use["slow"] == use["norm/moving_mean"] == ""
    assert variables["conv/kernel"]["shape"] == [1, 1, 3, 3]
    assert {described["dtype"] for described in variables.values()} == {"float64"}
    kinds = {name: described["kind"] for name, described in variables.items()}
    assert {name for name in kinds if kinds[name] == "statistic"} == {
        "norm/moving_mean",
        "norm/moving_variance",
        "slow",
    }
    assert {described["placement"].lower()[-5:] for described in variables.values()} == {"cpu:0"}
