"""Sessions whose graph is not the default one, and training that comes from threads: recorded whole, or refused by name."""

from pathlib import Path

from .conftest import run_bare, run_recorded

BLOCKED = """
import threading, time
import numpy as np
import tensorflow.compat.v1 as tf
import sys
record = sys.modules.get("tf_towers.record.recorder")
if record:
    record.WAIT_SECONDS = 0.5
tf.disable_v2_behavior()
queue = tf.FIFOQueue(1, [tf.float32], [[]])
w = tf.get_variable("w", [], initializer=tf.ones_initializer())
opt = tf.train.GradientDescentOptimizer(0.1)
first = opt.minimize(tf.square(w) * queue.dequeue())
with tf.control_dependencies([opt.minimize(tf.square(w - 1.0))]):
    second = queue.enqueue(1.0)
session = tf.Session()
session.run(tf.global_variables_initializer())
thread = threading.Thread(target=lambda: session.run(first))
thread.start()
time.sleep(0.3)
session.run(second)
thread.join()
print("trained")
"""


def test_a_graph_that_is_not_the_default_one_is_recorded_whole_though_a_thread_trains_it(recorded):
    done = recorded("own_graph")
    assert done.code == 0, done.said
    assert done.trace.complete
    assert done.trace.step_numbers == [0, 1, 2, 3]
    assert (done.trace.facts["towers"], done.trace.facts["combine"]) == (2, "mean")
    assert done.trace.step(3).read("feed/1/x").shape == (4, 3)
    (hazard,) = [each for each in done.trace.facts["hazards"] if each["name"] == "trained_in_threads"]
    assert hazard["evidence"] == "training runs come from several threads, e.g. MainThread and trainer"
    assert "shadow: in float64 beside the trace" in done.said


def test_threads_whose_training_runs_wait_for_each_other_are_refused_by_name(tf_python, tmp_path):
    script = Path(tmp_path) / "blocked.py"
    script.write_text(BLOCKED)
    done = run_recorded(tf_python, script, cwd=tmp_path)
    assert (done.code, done.printed) == (2, "trained\n"), done.said
    assert "record: stopped recording: RecordError: expected training runs that each end by themselves" in done.said
    assert run_bare(tf_python, script, cwd=tmp_path).stdout == "trained\n"
