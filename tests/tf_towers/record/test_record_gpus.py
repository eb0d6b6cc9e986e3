"""Scripts that count GPUs find as many as the recorder is told to stand in for; the plan of what trains is printed."""

from .conftest import run_recorded

SCRIPT = """
import os
import tensorflow.compat.v1 as tf
from tensorflow.python.client import device_lib
tf.disable_v2_behavior()
gpus = [each.name for each in device_lib.list_local_devices() if each.device_type == "GPU"]
assert len(tf.config.experimental.list_physical_devices("GPU")) == len(gpus)
assert tf.test.is_gpu_available() == bool(gpus)
assert len(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")) == max(1, len(gpus))
x = tf.placeholder(tf.float32, [6, 2], "x")
opt, grads = tf.train.MomentumOptimizer(0.1, 0.9), []
for number, piece in enumerate(tf.split(x, len(gpus))):
    with tf.device(gpus[number]), tf.name_scope("tower_%d" % number), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
        grads.append(opt.compute_gradients(tf.reduce_mean(tf.matmul(piece, tf.get_variable("w", [2, 1])))))
averaged = [(tf.clip_by_norm(tf.add_n([g for g, _ in each]) / len(gpus), 0.1), each[0][1]) for each in zip(*grads)]
train = opt.apply_gradients(averaged, tf.train.get_or_create_global_step())
with tf.Session() as sess:
    assert len([each for each in sess.list_devices() if each.device_type == "GPU"]) == len(gpus)
    sess.run(tf.global_variables_initializer())
    sess.run(train, {x: [[float(row), 2.0] for row in range(6)]})
"""


def test_a_script_that_counts_gpus_trains_so_many_towers_and_says_its_plan(tf_python, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = run_recorded(tf_python, tmp_path / "script.py", options=("--gpus", "3", "--no-shadow"), cwd=tmp_path)
    assert done.code == 0, done.said
    assert done.trace.facts["towers"] == 3
    assert done.trace.facts["gpus_stood_in_for"] == 3
    plan = "gradients averaged over 3 towers, clipped or scaled before the update, applied by MomentumOptimizer"
    assert plan in done.said
    assert done.hazards == set()
