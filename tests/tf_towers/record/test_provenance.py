"""What a recorded graph says of where it comes from: lines, shapes, first values, flags, and how gradients are used."""

import pytest

from parity.trace import RecordedGraph, read_graph

from .conftest import SCRIPTS, run_recorded

pytestmark = pytest.mark.both_tensorflows


@pytest.fixture
def graph_of(recorded):
    def graph_of(name: str) -> RecordedGraph:
        done = recorded(name)
        assert done.code == 0, done.said
        return read_graph(done.out)

    return graph_of


def stack(graph: RecordedGraph, op: str) -> list[tuple[str, str]]:
    """Function and text of the script's own frames of an op, outermost first."""
    frames = [graph.frames[number] for number in graph.callers[op]]
    return [(function, text) for file, _, function, text in frames if file == "fused_norm.py"]


def test_ops_know_the_lines_that_made_them(graph_of):
    graph = graph_of("fused_norm")
    names = [node["name"] for node in graph.nodes]
    norm = next(name for name in names if name.startswith("tower_1/net/") and "FusedBatchNorm" in name)
    assert stack(graph, norm) == [
        ("<module>", "grads.append(opt.compute_gradients(tower(x)))"),
        ("tower", 'x = tf.layers.batch_normalization(images * scale, epsilon=1e-5, training=True, name="norm")'),
    ]
    file, line, function, _ = graph.frames[graph.lines[norm]]
    assert (file, line, function) == ("fused_norm.py", 16, "tower")
    assert set(names) - set(graph.callers) == set()
    assert len({tuple(frame) for frame in graph.frames}) == len(graph.frames)
    installed = ("tensorflow", "keras", "numpy", "tf_towers", "parity")
    assert not [frame for frame in graph.frames if frame[0].startswith(installed)]


def test_ops_know_the_shapes_of_their_outputs(graph_of):
    graph = graph_of("recurrent")
    assert graph.shapes["words"] == [[6, 4]]
    assert graph.shapes["split"] == [[3, 4], [3, 4]]  # of tf.split: the placeholders are cut into two
    assert graph.shapes["rate"] == [[]]
    unknown = [each for shapes in graph.shapes.values() for each in shapes if each and None in each]
    assert unknown  # the rows of sparse gradients
    outputs = {name for name, shapes in graph.shapes.items() if shapes}
    assert "NoOp" not in {node["op"] for node in graph.nodes if node["name"] in outputs}


def types_behind(graph: RecordedGraph, name: str) -> list[str]:
    """Types of the ops that compute an initial value, sorted."""
    nodes = {node["name"]: node for node in graph.initial_nodes}
    found, pending = set(), [graph.initial[name].partition(":")[0]]
    while pending:
        each = pending.pop()
        found.add(each)
        pending += [taken.partition(":")[0] for taken in nodes[each].get("input", [])]
    return sorted(nodes[each]["op"] for each in found)


def test_initial_values_tell_distributions_from_constants(graph_of):
    graph = graph_of("queue_fed")
    drawn = [each for each in types_behind(graph, "var/softmax_linear/weights") if each != "Const"]
    assert [each.rstrip("V2") for each in drawn] == ["Add", "Mul", "TruncatedNormal"]
    assert types_behind(graph, "var/softmax_linear/biases") == ["Const"]
    assert set(graph.initial) == set(graph.variables)
    drawing = next(node for node in graph.initial_nodes if node["op"] == "TruncatedNormal")
    assert int(drawing["attr"]["seed2"]["i"]) == 8
    assert graph_of("fused_norm").initial["stat/net/norm/moving_variance"] == (
        "net/norm/moving_variance/Initializer/ones:0"
    )


FROM_NUMPY = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 150], "x")
w = tf.get_variable("w", initializer=np.random.RandomState(0).randn(150, 110).astype(np.float32))
b = tf.get_variable("b", initializer=tf.zeros([110]) + 2.0)
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b))
train = tf.train.GradientDescentOptimizer(tf.Variable(0.1, trainable=False, name="rate")).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {x: np.ones([2, 150])})
"""


def test_a_large_initial_constant_is_kept_without_its_numbers(tf_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FROM_NUMPY)
    done = run_recorded(tf_python, script, "--verbose", cwd=tmp_path)
    graph = read_graph(done.out)
    nodes = {node["name"]: node for node in graph.initial_nodes}
    large = nodes[graph.initial["var/w"].partition(":")[0]]
    assert large["attr"] == {"dtype": {"type": "DT_FLOAT"}}
    assert types_behind(graph, "var/b")[-1] == "Const"
    assert "value" in nodes[graph.initial["state/rate"].partition(":")[0]]["attr"]
    assert graph.hyper_parameters == {"GradientDescent": {"learning_rate": "rate/read:0"}}
    assert (graph.arguments, graph.flags) == (["--verbose"], {})


def test_arguments_and_the_scripts_own_flags_are_kept(graph_of, tf_python, tmp_path):
    done = run_recorded(tf_python, SCRIPTS / "split_sum.py", "--max_steps", "1", cwd=tmp_path)
    graph = read_graph(done.out)
    assert graph.arguments == ["--max_steps", "1"]
    assert graph.flags == {"max_steps": 1, "num_gpus": 2, "save": ""}
    plain = graph_of("recurrent")
    assert (plain.arguments, plain.flags) == ([], {})


def test_collections_keep_the_order_of_the_script(graph_of):
    graph = graph_of("queue_fed")
    assert graph.collections == {
        "losses": [f"tower_{i}/{name}:0" for i in range(2) for name in ("softmax_linear/weight_loss", "cross_entropy")],
        "regularization_losses": [],
        "update_ops": [],
        "moving_average_variables": ["softmax_linear/weights", "softmax_linear/biases"],
        "trainable_variables": ["softmax_linear/weights", "softmax_linear/biases"],
    }
    assert len(graph_of("fused_norm").collections["update_ops"]) == 4


def test_hyper_parameters_are_numbers_or_the_tensors_that_give_them(graph_of):
    assert graph_of("recurrent").hyper_parameters["Adam"]["learning_rate"] == "rate:0"
    assert graph_of("nesterov").hyper_parameters == {
        "Momentum": {"learning_rate": 0.125, "momentum": 0.875, "use_nesterov": True}
    }
    both = graph_of("two_optimizers").hyper_parameters
    assert {name: (each["learning_rate"], each["beta1"]) for name, each in both.items()} == {
        "DAdam": (pytest.approx(1e-2), 0.5),
        "GAdam": (pytest.approx(1e-3), 0.5),
    }
    graph = graph_of("split_sum")
    nodes = {node["name"]: node for node in graph.nodes}
    found, pending = set(), [graph.hyper_parameters["Momentum"]["learning_rate"].partition(":")[0]]
    while pending:
        node = nodes[pending.pop()]
        found.add(node["op"])
        pending += [taken.partition(":")[0].lstrip("^") for taken in node.get("input", [])]
    assert {"Floor", "Pow"} <= found and "global_step" in nodes


def test_how_each_variables_gradients_are_combined_is_kept(graph_of):
    assert set(graph_of("queue_fed").combinations["GradientDescent"].values()) == {"mean"}
    assert graph_of("split_sum").combinations == {
        "Momentum": dict.fromkeys(("model/conv/kernel", "model/conv/bias", "model/fc/weights"), "sum")
    }
    assert graph_of("two_optimizers").combinations == {
        "DAdam": {"discriminator/w": "mean"},
        "GAdam": {"generator/w": "mean"},
    }
    kinds = graph_of("ungated").combinations["Adagrad"]
    assert [name for name, kind in kinds.items() if kind == "sum"] == ["lm/embedding"]
    assert {kind for name, kind in kinds.items() if name != "lm/embedding"} == {"mean"}


def test_the_rule_of_clipping_is_kept(graph_of):
    rule = {"kind": "global_norm", "limit": 100.0, "place": "after_combining"}
    assert graph_of("fed_rate").clipping == {"hand_written": rule}
    assert graph_of("two_optimizers").clipping == {"DAdam": None, "GAdam": None}
    (rule,) = graph_of("monitored").clipping.values()
    assert rule["kind"] == "global_norm" and rule["place"] == "after_combining"
