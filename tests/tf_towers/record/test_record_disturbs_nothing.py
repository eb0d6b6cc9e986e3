"""Recording a script changes nothing of what it does."""

import re

import numpy as np
import pytest
from support.tiers import few

from .conftest import SCRIPTS, run_bare, run_recorded

SAVING = {
    "placeholder_slices": ("--save", "saved.npz"),
    "split_sum": ("--save", "saved.npz"),
    "monitored": (),
}


@pytest.mark.parametrize("name", few(SAVING, "split_sum"))
def test_weights_after_n_steps_are_bit_equal_with_and_without_recording(tf_python, tmp_path, name):
    script = SCRIPTS / f"{name}.py"
    (tmp_path / "bare").mkdir()
    (tmp_path / "recorded").mkdir()
    soft = tmp_path / "soft.py"  # a script that asks for GPUs runs nowhere else without soft placement
    soft.write_text(
        script.read_text().replace("tf.Session()", "tf.Session(config=tf.ConfigProto(allow_soft_placement=True))")
    )
    text = soft.read_text().replace(
        "intra_op_parallelism_threads=1)", "intra_op_parallelism_threads=1, allow_soft_placement=True)"
    )
    soft.write_text(text)
    bare = run_bare(tf_python, soft, *SAVING[name], cwd=tmp_path / "bare", SAVE="saved.npz")
    assert bare.returncode == 0, bare.stderr
    done = run_recorded(tf_python, script, *SAVING[name], cwd=tmp_path / "recorded", SAVE="saved.npz")
    assert done.code == 0, done.said
    assert done.printed == bare.stdout
    with np.load(tmp_path / "bare" / "saved.npz") as one, np.load(tmp_path / "recorded" / "saved.npz") as other:
        assert sorted(one.files) == sorted(other.files)
        for each in one.files:
            if name == "monitored" and "moving" in each:
                continue  # the script races there, and says so: see test_every_hazard_of_a_script_is_found_and_no_other
            assert one[each].tobytes() == other[each].tobytes(), each
        last = done.trace.step(3)
        for each in done.trace.variables:
            np.testing.assert_array_equal(
                last.read(("stat/" if "moving" in each else "var/") + each), other[each.replace("/", "|")]
            )


GRAPH = """
import hashlib, sys
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.set_random_seed(3)
x = tf.placeholder(tf.float32, [4, 2], "x")
losses, grads = [], []
opt = tf.train.AdamOptimizer(0.1)
for tower, piece in enumerate(tf.split(x, 2)):
    with tf.name_scope("tower_%d" % tower), tf.variable_scope("m", reuse=tower > 0):
        w = tf.get_variable("w", [2, 1])
        losses.append(tf.reduce_mean(tf.nn.dropout(tf.matmul(piece, w), rate=0.5)))
        grads.append(opt.compute_gradients(losses[-1]))
train = opt.apply_gradients([((a + b) / 2, v) for (a, v), (b, _) in zip(*grads)])
init = tf.global_variables_initializer()
with tf.Session() as sess:
    sess.run(init)
    for step in range(3):
        sess.run(train, {x: [[1, 2], [3, 4], [5, 6], [7, 8]]})
    text = tf.get_default_graph().as_graph_def(add_shapes=False).SerializeToString(deterministic=True)
    print("graph", len(tf.get_default_graph().get_operations()), hashlib.sha256(text).hexdigest())
    print("weights", sess.run(w).tobytes().hex())
"""


@pytest.mark.slow
def test_no_op_of_ours_enters_the_graph_and_no_seed_moves(tf_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(GRAPH)
    bare = run_bare(tf_python, script, cwd=tmp_path)
    done = run_recorded(tf_python, script, cwd=tmp_path)
    assert re.search(r"^graph \d+ \w{64}\nweights \w{16}$", bare.stdout, re.MULTILINE), bare.stderr
    assert done.printed == bare.stdout
    assert done.trace.complete
    assert [key for key in done.trace.step(0).names() if key.startswith("noise/1/")]
