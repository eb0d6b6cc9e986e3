"""Which reads of counters and slots are handed to an update: on small graphs with and without an order."""

# ruff: noqa: F821 - programs find tf there

import pytest


def _handed(resource, order, into, kind="state", counts=True, name="n", dtype="float32", alone=False):
    from tf_towers.shadow.racing_reads import hand_racing_reads

    n = tf.Variable(3, dtype=dtype, use_resource=resource, name="n")
    w = tf.Variable(1.0, use_resource=resource, name="w")
    made = {op.name for op in tf.get_default_graph().get_operations()}

    def count():
        return tf.assign_add(n, tf.constant(1, dtype), name="count") if counts else tf.no_op("count")

    def read():
        with tf.name_scope("reading"):
            value = n.read_value() if resource else n.value()
        with tf.control_dependencies([w.op]):
            return tf.cast(value, tf.float64, name="rate")

    if order == "after":
        with tf.control_dependencies([count()]):
            rate = read()
    elif order == "before":
        rate = read()
        with tf.control_dependencies([rate]):
            count()
    else:
        rate = read()
        count()
    step = tf.cast(rate, tf.float32, name="step")
    if into == "weight":
        tf.assign_sub(w, step, name="update")
    elif into == "directly":
        tf.assign_sub(w, n.read_value() if resource else n.value(), name="update")
    elif into == "control":
        with tf.control_dependencies([step]):
            tf.assign_sub(w, 1.0, name="update")
    elif into in ("branch", "waiting for a branch"):
        chosen = tf.cond(step > 3.0, lambda: tf.constant(1.0), lambda: tf.constant(2.0))
        with tf.control_dependencies([chosen]):
            tf.assign_sub(w, chosen if into == "branch" else tf.constant(1.0), name="update")
    graph = tf.get_default_graph()
    definition = graph.as_graph_def()
    old = {node.name: list(node.input) for node in definition.node}
    updating = {op.name for op in graph.get_operations()} - made
    updating -= {"step", "rate"} if alone else set()
    variables = {kind + "/count": name, ("var/w" if into != "none" else "stat/w"): "w"}
    handed = hand_racing_reads(definition, graph, updating, variables)
    return {
        "handed": handed,
        "changed": {
            node.name: [[one, other] for one, other in zip(old[node.name], node.input) if one != other]  # noqa: B905
            for node in definition.node
            if node.name in old and list(node.input) != old[node.name]
        },
        "made": {
            node.name: [node.op, tf.as_dtype(node.attr["dtype"].type).name, node.attr["shape"].shape.unknown_rank]
            for node in definition.node
            if node.name not in old
        },
    }


PLACED = {"shadow_racing/0": ["Placeholder", "float32", True]}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", ["state", "slot/m"])
def test_a_read_in_no_order_with_the_count_is_handed_to_the_update(tf, resource, kind):
    found = tf(_handed, resource=resource, order="none", into="weight", kind=kind)
    assert (found["handed"], found["made"]) == ({"shadow_racing/0": kind + "/count"}, PLACED)
    assert {name: [new for _, new in pairs] for name, pairs in found["changed"].items()} == {
        "reading/Identity" if resource else "rate": ["shadow_racing/0:0"]
    }


@pytest.mark.parametrize("resource", [False, True])
def test_a_read_that_chooses_between_constants_is_handed_to_the_update(tf, resource):
    found = tf(_handed, resource=resource, order="none", into="branch")
    assert (found["handed"], found["made"]) == ({"shadow_racing/0": "state/count"}, PLACED)
    assert list(found["changed"]) == ["reading/Identity" if resource else "rate"]


def test_a_read_by_the_op_that_writes_the_weight_is_handed_and_the_buffers_are_not(tf):
    found = tf(_handed, resource=False, order="none", into="directly")
    assert found["handed"] == {"shadow_racing/0": "state/count"}
    assert found["changed"] == {"update": [["n/read", "shadow_racing/0:0"]]}


def test_a_value_is_handed_over_in_the_dtype_of_its_variable(tf):
    found = tf(_handed, resource=True, order="none", into="weight", dtype="int64")
    assert found["made"] == {"shadow_racing/0": ["Placeholder", "int64", True]}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    "told",
    [
        {"order": "after", "into": "weight"},
        {"order": "before", "into": "weight"},
        {"order": "none", "into": "weight", "counts": False},
        {"order": "none", "into": "weight", "kind": "ema"},  # which has a race of its own
        {"order": "none", "into": "weight", "name": "gone"},
        {"order": "none", "into": "none"},  # what is written is neither weight nor slot
        {"order": "none", "into": "control"},  # it comes before and is not computed from it
        {"order": "none", "into": "waiting for a branch"},
        {"order": "none", "into": "weight", "alone": True},  # the first go computes the rate
    ],
)
def test_what_races_with_nothing_or_reaches_no_update_is_left_alone(tf, resource, told):
    assert tf(_handed, resource=resource, **told) == {"handed": {}, "changed": {}, "made": {}}


def _two():
    from tf_towers.shadow.racing_reads import hand_racing_reads

    named = {name: tf.Variable(3.0, use_resource=False, name=name) for name in ("b", "a", "w")}
    made = {op.name for op in tf.get_default_graph().get_operations()}
    for name in ("a", "b"):
        tf.assign_add(named[name], 1.0)
    tf.assign_sub(named["w"], tf.add(named["b"], named["a"], name="sum"))
    graph = tf.get_default_graph()
    definition = graph.as_graph_def()
    updating = {op.name for op in graph.get_operations()} - made
    handed = hand_racing_reads(definition, graph, updating, {"state/b": "b", "var/w": "w", "state/a": "a"})
    return {"handed": handed, "sum": [list(node.input) for node in definition.node if node.name == "sum"]}


def test_each_of_several_has_a_placeholder_of_its_own(tf):
    found = tf(_two)
    assert found["handed"] == {"shadow_racing/0": "state/a", "shadow_racing/1": "state/b"}
    assert found["sum"] == [["shadow_racing/1:0", "shadow_racing/0:0"]]
