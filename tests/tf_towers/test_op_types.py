# ruff: noqa: F821 - programs find tf, tf_towers, np and small there
"""Each set of op types is defined once, and every reader of graphs knows all of it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "tf_towers"


def _assigned(path):
    body = ast.parse(path.read_text()).body
    return {
        node.targets[0].id for node in body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def test_no_other_module_has_a_set_of_the_same_name():
    table = ROOT / "graph" / "op_types.py"
    named = _assigned(table)
    assert len(named) > 30
    twice = {str(path): _assigned(path) & named for path in ROOT.rglob("*.py") if path != table}
    assert {path: names for path, names in twice.items() if names} == {}


def _losses():
    weight = tf.get_variable("w", [2, 1])
    losses = []
    for tower, piece in enumerate(tf.split(tf.placeholder(tf.float32, [4, 2], "x"), 2)):
        with tf.name_scope(f"tower_{tower}"):
            losses.append(tf.reduce_mean(tf.square(tf.matmul(piece, weight)), name="loss"))
    return losses, weight


def _towers_of_joined_losses(ways):
    from tf_towers.record.towers import TowerFound, split_by_loss

    with tf.Graph().as_default():
        losses, _ = _losses()
        joined = losses
        for way in ways:
            joined = _join(way, joined)
        towers, factor = split_by_loss([TowerFound([joined], {}, [], "", "", "compute_gradients", "")])
        return {"found": [len(towers), factor]}


def _join(way, given):
    joins = {
        "AccumulateNV2": lambda pair: tf.raw_ops.AccumulateNV2(inputs=pair, shape=pair[0].shape),
        "AddN": tf.add_n,
        "Pack": tf.stack,
        "ParallelConcat": tf.parallel_stack,
        "ConcatV2": lambda pair: tf.concat([tf.expand_dims(one, 0) for one in pair], 0),
        "Concat": lambda pair: tf.raw_ops.Concat(concat_dim=0, values=[tf.expand_dims(one, 0) for one in pair]),
        "Mean": lambda stacked: tf.reduce_mean(stacked, 0),
        "Sum": lambda stacked: tf.reduce_sum(stacked, 0),
        "CheckNumerics": lambda tensor: tf.check_numerics(tensor, "not finite"),
        "Mul": lambda tensor: tensor * 0.5,
        "RealDiv": lambda tensor: tensor / 2.0,
        "DivNoNan": lambda tensor: tf.div_no_nan(tensor, 2.0),
        "each CheckNumerics": lambda pair: [tf.check_numerics(one, "not finite") for one in pair],
        "each Squeeze": lambda pair: [tf.squeeze(tf.reshape(one, [1]), [0]) for one in pair],
        "second StopGradient": lambda pair: [pair[0], tf.stop_gradient(pair[1])],
    }
    return joins[way](given)


@pytest.mark.parametrize(
    "ways",
    [
        ["AddN", "Mul"],
        ["AccumulateNV2", "Mul"],
        ["AccumulateNV2", "RealDiv"],
        ["AddN", "DivNoNan"],
        ["AddN", "CheckNumerics", "Mul"],
        ["AddN", "Mul", "CheckNumerics"],
        ["Pack", "Mean"],
        ["ConcatV2", "Mean"],
        ["Concat", "Mean"],
        ["each CheckNumerics", "Pack", "Mean"],
        ["each Squeeze", "Pack", "Mean"],
        ["Pack", "Sum", "Mul"],
    ],
)
def test_towers_are_told_apart_however_their_losses_are_joined(tf, ways):
    assert tf(_towers_of_joined_losses, ways=ways)["found"] == [2, 0.5]


def test_a_loss_that_is_stopped_is_no_towers(tf):
    assert tf(_towers_of_joined_losses, ways=["second StopGradient", "Pack", "Mean"])["found"] == [1, None]


def _kind_of_joined_gradients(ways):
    from tf_towers.record.gradient_combination import combinations_of
    from tf_towers.record.hooks import Calls
    from tf_towers.record.towers import towers_of

    with tf.Graph().as_default():
        calls = Calls()
        calls.install()
        try:
            losses, weight = _losses()
            optimizer = tf.train.GradientDescentOptimizer(0.1)
            joined = [optimizer.compute_gradients(loss, [weight])[0][0] for loss in losses]
            for way in ways:
                joined = _join(way, joined)
            optimizer.apply_gradients([(joined, weight)])
        finally:
            calls.remove()
        found = towers_of(calls.applies[0], calls.gradients)
        combination = combinations_of(calls.applies[0], found)["w"]
        return {"found": [len(found), combination.kind]}


@pytest.mark.parametrize(
    "ways",
    [
        ["AddN", "Mul"],
        ["AccumulateNV2", "Mul"],
        ["AccumulateNV2", "DivNoNan"],
        ["AddN", "CheckNumerics", "Mul"],
        ["Concat", "Mean"],
        ["Pack", "Mean"],
        ["ParallelConcat", "Mean"],
        ["ParallelConcat", "Sum", "Mul"],
        ["second StopGradient", "AddN", "Mul"],
    ],
)
def test_gradients_are_a_mean_however_they_are_joined(tf, ways):
    assert tf(_kind_of_joined_gradients, ways=ways)["found"] == [2, "mean"]


def _kind_where_zeros_stand_for_a_gradient():
    from tf_towers.record.gradient_combination import combinations_of
    from tf_towers.record.hooks import Calls
    from tf_towers.record.towers import towers_of

    with tf.Graph().as_default():
        calls = Calls()
        calls.install()
        try:
            losses, weight = _losses()
            own = tf.get_variable("own", [2])
            losses[0] += tf.reduce_sum(own * own)
            optimizer = tf.train.GradientDescentOptimizer(0.1)
            pairs = [optimizer.compute_gradients(loss, [weight, own]) for loss in losses]
            filled = [[tf.zeros([2]) if grad is None else grad for grad, _ in tower] for tower in pairs]
            joined = [tf.reduce_mean(tf.stack([tower[place] for tower in filled]), 0) for place in range(2)]
            optimizer.apply_gradients([(joined[0], weight), (joined[1], own)])
        finally:
            calls.remove()
        found = combinations_of(calls.applies[0], towers_of(calls.applies[0], calls.gradients))
        return {"kinds": [found[name].kind for name in ("w", "own")], "factor": found["own"].factor}


def test_a_mean_with_zeros_for_a_missing_gradient_divides_by_all_towers(tf):
    assert tf(_kind_where_zeros_stand_for_a_gradient) == {"kinds": ["mean", "mean"], "factor": 0.5}


def _slot_of(way):
    from tf_towers.record.manual_updates import _adds_up

    with tf.Graph().as_default():
        slot = tf.Variable([1.0, 2.0])
        squared = tf.square(tf.placeholder(tf.float32, [2]))
        total = {
            "AddV2": lambda: slot + squared,
            "AddN": lambda: tf.add_n([slot, squared]),
            "AccumulateNV2": lambda: tf.raw_ops.AccumulateNV2(inputs=[slot, squared], shape=[2]),
            "Mul": lambda: slot * squared,
        }[way]()
        return {"found": _adds_up(slot, [slot.assign(total).op])}


@pytest.mark.parametrize(("way", "adds"), [("AddV2", True), ("AddN", True), ("AccumulateNV2", True), ("Mul", False)])
def test_a_slot_that_adds_up_is_known_however_it_adds(tf, way, adds):
    assert tf(_slot_of, way=way)["found"] is adds


def _use(resource):
    from tf_towers.facts import _consumers

    with tf.Graph().as_default(), tf.variable_scope("", use_resource=resource):
        kernel = tf.get_variable("w", [2, 2])
        count = tf.get_variable("n", [3], trainable=False)
        with tf.name_scope("tower_0"):
            x = tf.placeholder(tf.float32, [4, 2])
            tf.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, tf.matmul(h, kernel)], [0, x])
            tf.scatter_add(count, [0], [1.0])
        places = {op: place for place, op in enumerate(tf.get_default_graph().get_operations())}
        return {"found": [_consumers(each, frozenset(), places, True) for each in (kernel, count)]}


@pytest.mark.parametrize("resource", [False, True])
def test_a_weight_is_used_by_what_computes_with_it_inside_a_loop_and_not_by_what_writes(tf, resource):
    assert tf(_use, resource=resource)["found"] == [["MatMul"], []]


def _scaled_use(resource):
    from tf_towers.facts import _consumers

    with tf.Graph().as_default(), tf.variable_scope("", use_resource=resource):
        kernel, turned, inverted = (tf.get_variable(name, [2, 2]) for name in "wvu")
        alpha = tf.get_variable("alpha", [])
        with tf.name_scope("tower_0"):
            x = tf.placeholder(tf.float32, [4, 2])
            sigma = tf.norm(x)
            tf.matmul(tf.matmul(x, kernel * 0.5 / sigma) * alpha, turned * [1.0, 2.0])
            tf.matmul(x, sigma / inverted)
        places = {op: place for place, op in enumerate(tf.get_default_graph().get_operations())}
        return {"found": [_consumers(each, frozenset(), places, True) for each in (kernel, turned, alpha, inverted)]}


@pytest.mark.parametrize("resource", [False, True])
def test_a_weight_times_one_number_is_used_by_what_reads_the_product(tf, resource):
    """An equalized learning rate and a spectral norm; not a factor for each column, a trained number, nor one over it."""
    assert tf(_scaled_use, resource=resource)["found"] == [["MatMul"], ["Mul"], ["Mul"], ["RealDiv"]]


def _racing(resource, way):
    with tf.Graph().as_default():
        total = tf.Variable([0.0, 0.0], name="total", use_resource=resource)
        indices = tf.placeholder(tf.int32, [1, 1], "rows")
        one = {
            "add": lambda: tf.scatter_add(total, indices[:, 0], [1.0]),
            "multiply": lambda: tf.scatter_mul(total, indices[:, 0], [1.0]),
            "nd": lambda: tf.scatter_nd_update(total, indices, [1.0]),
            "none": lambda: tf.scatter_nd(indices, [1.0], [2]),
        }[way]
        return {"found": tf_towers.racing_updates([one(), one()])}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    ("way", "racing"), [("add", ["total"]), ("multiply", ["total"]), ("nd", ["total"]), ("none", [])]
)
def test_updates_of_rows_race_as_others_do(tf, way, racing, resource):
    assert tf(_racing, way=way, resource=resource)["found"] == racing


def _differs(way):
    from tf_towers.record.observe import _differs

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [1])
        total = tf.Variable([0.0, 0.0])
        op = {
            "ScatterNd": lambda: tf.scatter_nd([[0]], x, [2]).op,
            "ScatterNdUpdate": lambda: tf.scatter_nd_update(total, [[0]], x).op,
            "Print": lambda: tf.raw_ops.Print(input=x, data=[x]).op,
            "Assert": lambda: tf.raw_ops.Assert(condition=x[0] > 0, data=[x]),
            "NoOp": lambda: tf.no_op(),
        }[way]()
        return {"found": [op.type, _differs(op)]}


@pytest.mark.parametrize(
    ("way", "differs"),
    [("ScatterNd", False), ("ScatterNdUpdate", True), ("Print", True), ("Assert", False), ("NoOp", False)],
)
def test_what_gives_something_else_in_another_run(tf, way, differs):
    assert tf(_differs, way=way)["found"] == [way, differs]


def _readers_of_its_shape(way):
    from tf_towers.graph.races import find_races
    from tf_towers.graph.traversal import ancestors

    with tf.Graph().as_default():
        weight = tf.Variable([1.0, 2.0])
        of_shape = {
            "zeros_like": lambda: tf.raw_ops.ZerosLike(x=weight._ref()),
            "size": lambda: tf.raw_ops.Size(input=weight._ref()),
            "value": lambda: tf.raw_ops.Neg(x=weight._ref()),
        }[way]()
        group = tf.group(of_shape, tf.assign_add(weight, [1.0, 1.0]))
        return {"found": len(find_races({"var/w": weight}, ancestors([group]), []))}


@pytest.mark.parametrize(("way", "races"), [("zeros_like", 0), ("size", 0), ("value", 1)])
def test_what_depends_on_a_shape_alone_races_with_no_update(tf, way, races):
    assert tf(_readers_of_its_shape, way=way)["found"] == races


def _pieces(way):
    from tf_towers.graph.traversal import ancestors
    from tf_towers.record.inputs import inputs_of

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 2], "x")
        halves = [x[:2], x[2:]]
        if way == "zeros_like":
            zero = tf.reduce_sum(tf.zeros_like(x, optimize=False))
            towers = [tf.reduce_sum(half) + zero for half in halves]
        else:
            whole = tf.raw_ops.Concat(concat_dim=0, values=halves)
            towers = [tf.reduce_sum(whole[:3]), tf.reduce_sum(whole[3:])]
        inputs, _ = inputs_of([ancestors([tower.op]) for tower in towers])
        return {"found": [[each.tensor.shape.as_list() for each in own] for own in inputs]}


@pytest.mark.parametrize(("way", "sizes"), [("zeros_like", [2, 2]), ("Concat", [3, 1])])
def test_the_piece_of_a_tower_is_found_behind_shapes_and_joins(tf, way, sizes):
    assert tf(_pieces, way=way)["found"] == [[[size, 2]] for size in sizes]
