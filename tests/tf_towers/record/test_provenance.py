"""What a recorded graph says of where it comes from: lines, shapes, first values, flags, and how gradients are used."""

import pytest

from parity.trace import RecordedGraph, read_graph

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
