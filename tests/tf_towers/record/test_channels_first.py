"""What a script computes with channels first the shadow computes with channels last."""

from pathlib import Path

import numpy as np
import pytest

from parity.trace import Trace

from .conftest import run, run_recorded
from .test_shadow import MOST, farthest

NET = Path(__file__).parent / "channels_first.py"
TURNED = [
    "AvgPool",
    "AvgPoolGrad",
    "Conv2D",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter",
    "DepthwiseConv2dNativeBackpropInput",
    "MaxPool",
    "MaxPoolGrad",
]
TURN = """
import runpy, sys
sys.path.insert(0, {root!r})
import numpy as np
import tensorflow.compat.v1 as tf
found = runpy.run_path({net!r})
graph, weights = tf.get_default_graph(), tf.trainable_variables()
wanted = [[loss] + tf.gradients(loss, weights) for loss in (found["first"], found["last"])]
init = tf.global_variables_initializer()
from tf_towers.shadow.split import import_graph
from tf_towers.float64.graph_def import pruned
from tf_towers.float64.op_rewrites import expand
from tf_towers.shadow.nhwc import to_channels_last
from tf_towers.float64.to_float64 import widen
needed = [each.op.name for tensors in wanted for each in tensors] + [init.name]
definition = pruned(graph.as_graph_def(), needed)
types, renamed = to_channels_last(definition)
widen(definition, set())
renamed.update(expand(definition, graph)[1])
with tf.Session(graph=import_graph(definition)) as session:
    session.run(init.name)
    names = [[renamed.get(each.name, each.name) for each in tensors] for tensors in wanted]
    first, last = session.run(names, {{"x:0": np.random.RandomState(0).randn(2, 2, 9, 8)}})
print("apart", max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(first, last)))
print("turned", *types)
"""
CONV3D = """
import tensorflow.compat.v1 as tf
from tf_towers.shadow.nhwc import to_channels_last
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [1, 2, 4, 4, 4])
tf.nn.conv3d(x, tf.ones([1, 1, 1, 2, 2]), [1] * 5, "SAME", data_format="NCDHW", name="deep")
try:
    to_channels_last(tf.get_default_graph().as_graph_def())
except ValueError as error:
    print(error)
"""
ROOT = str(Path(__file__).parents[3])


def test_losses_and_gradients_are_the_same_in_both_layouts(tf_python, tmp_path):
    script = tmp_path / "turn.py"
    script.write_text(TURN.format(root=ROOT, net=str(NET)))
    done = run(tf_python, [str(script)], tmp_path)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("apart", "turned")))
    assert 0.0 <= float(said["apart"]) < 1e-13
    assert set(said["turned"].split()) == set(TURNED)


@pytest.mark.slow
def test_a_script_with_channels_first_that_runs_on_the_cpu_has_a_shadow(request, tf_python, tmp_path):
    if "tf2" not in request.node.name:
        pytest.skip(
            "TensorFlow 1.15 runs no convolution with channels first on a CPU: run the tf2 leg, or record on a GPU"
        )
    done = run_recorded(tf_python, NET, "NCHW", options=(), cwd=tmp_path)
    assert done.code == 0, done.said
    shadow = Trace(done.out / "shadow")
    assert {f"{each} in NCHW" for each in TURNED} <= set(shadow.facts["expanded"])
    distance, where = farthest(done.trace, shadow)
    assert 0.0 < distance < MOST, where
    assert np.abs(shadow.step(0).read("tower_grad/0/net/first")).max() > 0.0


@pytest.mark.slow
def test_what_is_not_known_in_another_layout_is_named(tf_python, tmp_path):
    script = tmp_path / "deep.py"
    script.write_text(f"import sys\nsys.path.insert(0, {ROOT!r})\n{CONV3D}")
    done = run(tf_python, [str(script)], tmp_path)
    assert "got the op deep, a Conv3D with channels first. Level 2 only can be judged." in done.stdout, done.stderr
