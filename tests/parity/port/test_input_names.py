"""Inputs are called after the variables of the script, where it leaves their names to TensorFlow."""

from types import SimpleNamespace

import pytest

from parity.port.source.input_names import input_names
from parity.trace import parse_key

FRAMES = [
    ("train.py", 9, "tower", "images, labels = queue.dequeue()"),
    ("train.py", 10, "tower", "keep = tf.placeholder(tf.float32)"),
    ("train.py", 11, "tower", "loss = tf.nn.sampled_softmax_loss(w, b, labels, net, 5, 12)"),
    ("train.py", 12, "tower", "model = tf.placeholder(tf.float32)"),
]


def named(kind, node, fed, frame):
    """What inputs are called that are outputs of one op, made in a line of the script."""
    graph = SimpleNamespace(nodes=[{"name": node, "op": kind}], callers={node: [frame]}, frames=FRAMES)
    keys = [(f"{node}:{place}", parse_key(f"feed/0/{name}"), "float32") for place, name in enumerate(fed)]
    return input_names(graph, SimpleNamespace(fed=lambda number: keys))


@pytest.mark.parametrize(
    ("kind", "node", "fed", "frame", "want"),
    [
        ("QueueDequeueV2", "fifo_queue_Dequeue", ["fifo_queue_Dequeue_0", "fifo_queue_Dequeue_1"], 0, "images labels"),
        ("IteratorGetNext", "IteratorGetNext", ["IteratorGetNext_0", "IteratorGetNext_1"], 0, "images labels"),
        ("LogUniformCandidateSampler", "s", ["LogUniformCandidateSampler_0"], 2, "sampled_candidates"),
        ("Placeholder", "Placeholder_1", ["Placeholder_1"], 1, "keep"),
        ("Placeholder", "x", ["x"], 1, ""),  # the script's own
        ("Placeholder", "Placeholder", ["Placeholder"], 3, ""),  # which would stand for the module
    ],
)
def test_an_input_is_called_as_the_script_calls_it(kind, node, fed, frame, want):
    assert input_names_of(named(kind, node, fed, frame), fed) == want.split()


def input_names_of(found, fed):
    return [found[name] for name in fed if name in found]
