"""Draws inside loops and branches: recorded without a change to the script's graph, and given back in the shadow's."""

import base64
import json
import shutil

import pytest

from parity.trace import Trace, TraceWriter, read_graph
from parity.worker import bootstrap

from .conftest import run, run_bare, run_recorded
from .test_shadow import MOST, farthest

START = """
import hashlib, sys
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.set_random_seed(3)
x = tf.placeholder(tf.float32, [3, 4, 2], "x")
w = tf.get_variable("w", [2, 2], initializer=tf.random_normal_initializer(seed=1))
"""
END = """
opt = tf.train.MomentumOptimizer(0.1, 0.9)
train = opt.apply_gradients(opt.compute_gradients(tf.reduce_mean(tf.square(state), name="loss")))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(3):
        sess.run(train, {x: [[[0.1, 0.2 - step], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8 - step]]] * 3})
    graph = tf.get_default_graph()
    for each in list(graph.get_operations()):
        if each.type == "Enter" and "as_built" in sys.argv:
            each._set_attr("parallel_iterations", type(each.node_def.attr["T"])(i=0))
    text = graph.as_graph_def().SerializeToString(deterministic=True)
    print("graph", len(graph.get_operations()), hashlib.sha256(text).hexdigest())
    print("weights", sess.run(w).tobytes().hex())
"""
PLAIN = """
def step(t, state):
    return t + 1, tf.tanh(tf.matmul(state, w) + tf.nn.dropout(x[:, t], rate=0.3))
_, state = tf.while_loop(lambda t, _: t < 4, step, [0, tf.zeros([3, 2])], parallel_iterations=PARALLEL)
"""
# A draw in a loop in a loop, one in a branch that is taken now and then, and one beside the inner loop.
NESTED = """
def inner(k, state):
    return k + 1, tf.tanh(tf.matmul(state, w) + tf.nn.dropout(x[:, k], rate=0.4))
def outer(t, state):
    state = tf.cond(tf.equal(t, 1), lambda: state + tf.random_normal([3, 2]), lambda: state)
    _, state = tf.while_loop(lambda k, _: k < 3, inner, [0, state])
    return t + 1, tf.nn.dropout(state, rate=0.25)
_, state = tf.while_loop(lambda t, _: t < 2, outer, [0, tf.ones([3, 2])])
state = tf.cond(tf.reduce_sum(x) > -99, lambda: tf.nn.dropout(state, rate=0.5), lambda: state)
"""
GROWING = """
def step(t, state):
    return t + 1, tf.matmul(state, w) * tf.reduce_mean(tf.random_uniform([t + 1]))
_, state = tf.while_loop(lambda t, _: t < 4, step, [0, tf.ones([3, 2])])
"""
# Their first inputs are a shape beside another float, what to choose from, and what to shuffle.
OTHER_DRAWS = """
def step(t, state):
    drawn = tf.random_gamma([3, 2], 2.0) + tf.cast(tf.multinomial(tf.zeros([3, 5]), 2), tf.float32)
    return t + 1, tf.tanh(tf.matmul(state, w) + 0.1 * drawn + tf.random_shuffle(tf.constant([[1.0], [2.0], [3.0]])))
_, state = tf.while_loop(lambda t, _: t < 4, step, [0, x[:, 0]])
"""
FUNCTIONS = START.replace("tf.disable_v2_behavior()", "tf.disable_eager_execution()")


def script_of(folder, *parts, **marks):
    script = folder / "script.py"
    text = "".join(parts)
    for name, value in marks.items():
        text = text.replace(name, value)
    script.write_text(text)
    return script


@pytest.mark.slow
def test_neither_graph_nor_weights_change_where_iterations_come_one_by_one(tf_python, tmp_path):
    script = script_of(tmp_path, START, PLAIN, END, PARALLEL="1")
    bare = run_bare(tf_python, script, cwd=tmp_path)
    done = run_recorded(tf_python, script, cwd=tmp_path)
    assert bare.stdout.startswith("graph "), bare.stderr
    assert done.printed == bare.stdout
    (name,) = [each for each in done.trace.step(2).names() if each.startswith("noise/")]
    assert done.trace.step(2).shape(name) == (4, 3, 2)


def test_a_loop_that_draws_runs_one_iteration_at_a_time_and_nothing_else_differs(tf_python, tmp_path):
    script = script_of(tmp_path, START, PLAIN, END, PARALLEL="7")
    graphs = [
        run_bare(tf_python, script, "as_built", cwd=tmp_path).stdout.splitlines()[0],
        run_recorded(tf_python, script, "as_built", cwd=tmp_path).printed.splitlines()[0],
    ]
    assert graphs[0] == graphs[1]
    assert graphs[0].startswith("graph ")
    recorded = read_graph(tmp_path / "script.trace")
    loops = [node["attr"] for node in recorded.nodes if node["op"] == "Enter"]
    at_once = {
        (b"gradients" in base64.b64decode(loop["frame_name"]["s"]), loop["parallel_iterations"]["i"]) for loop in loops
    }
    assert at_once == {(False, "1"), (True, "7")}


@pytest.fixture(scope="module")
def nested(tf_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nested")
    return run_recorded(tf_python, script_of(folder, START, NESTED, END), options=(), cwd=folder)


@pytest.mark.slow
def test_draws_of_loops_in_loops_and_of_branches_give_the_recorded_gradients(nested):
    assert nested.code == 0, nested.said
    assert nested.trace.facts["not_recorded"] == {}
    step = nested.trace.step(0)
    shapes = {name.split("/", 2)[2]: step.shape(name) for name in step.names() if name.startswith("noise/")}
    assert sorted(shapes.values()) == [(1, 3, 2), (1, 3, 2), (2, 3, 2), (6, 3, 2)], shapes
    distance, where = farthest(nested.trace, Trace(nested.out / "shadow"))
    assert 0.0 < distance < MOST, where


@pytest.mark.slow
def test_draws_that_are_given_no_shape_or_more_than_that_give_the_recorded_gradients(tf_python, tmp_path):
    done = run_recorded(tf_python, script_of(tmp_path, START, OTHER_DRAWS, END), options=(), cwd=tmp_path)
    assert "shadow: in float64" in done.said, done.said
    distance, where = farthest(done.trace, Trace(done.out / "shadow"))
    assert 0.0 < distance < MOST, where


@pytest.mark.slow
def test_draws_in_another_order_are_refused(tf_python, nested, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(nested.out, copy)
    step = Trace(copy).step(0)
    changed = {name: step.read(name) for name in step.names()}
    (name,) = [each for each in changed if each.startswith("noise/") and len(changed[each]) == 6]
    changed[name] = changed[name][[1, 0, 2, 3, 4, 5]]
    TraceWriter(tmp_path / "other", {"package": "test"}, {}).step(0, changed)
    shutil.copy(tmp_path / "other" / "step-000000.safetensors", copy)
    done = run(tf_python, [str(bootstrap.__file__), "tf_towers.shadow", str(copy)], tmp_path)
    assert done.returncode == 2
    assert (
        "expected the draws recorded inside loops to give the recorded losses and gradients, got others in step 0"
        in (json.loads((copy / "shadow.json").read_text())["reason"])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (slice(0, 5), "expected as many draws of noise/0/while/while/dropout"),
        ([0, 1, 2, 3, 4, 5, 5], "to be requested, got 1 that were not"),
    ],
)
def test_draws_too_few_or_too_many_are_refused(tf_python, nested, tmp_path, more, said):
    copy = tmp_path / "copy"
    shutil.copytree(nested.out, copy)
    step = Trace(copy).step(0)
    changed = {name: step.read(name) for name in step.names()}
    (name,) = [each for each in changed if each.startswith("noise/") and len(changed[each]) == 6]
    changed[name] = changed[name][more]
    TraceWriter(tmp_path / "other", {"package": "test"}, {}).step(0, changed)
    shutil.copy(tmp_path / "other" / "step-000000.safetensors", copy)
    done = run(tf_python, [str(bootstrap.__file__), "tf_towers.shadow", str(copy)], tmp_path)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_draws_whose_shape_changes_are_named_and_leave_no_shadow(tf_python, tmp_path):
    done = run_recorded(tf_python, script_of(tmp_path, START, GROWING, END), options=(), cwd=tmp_path)
    assert done.code == 0, done.said
    assert set(done.trace.facts["not_recorded"].values()) == {"drawn inside a loop, in another shape from time to time"}
    assert "in another shape from time to time. Level 2 only can be judged." in done.said
    assert not (done.out / "shadow").exists()


@pytest.mark.slow
def test_a_script_that_debugs_its_own_runs_is_left_to_it(tf_python, tmp_path):
    options = "tf.RunOptions(); options.debug_options.debug_tensor_watch_opts.add(node_name='loss', output_slot=0, "
    options += "debug_ops=['DebugIdentity'], debug_urls=['file://" + str(tmp_path / "own") + "'])"
    end = END.replace("    for step", f"    options = {options}\n    for step").replace(
        "] * 3})", "] * 3}, options=options)"
    )
    script = script_of(tmp_path, START, PLAIN, end, PARALLEL="4")
    done = run_recorded(tf_python, script, cwd=tmp_path)
    assert done.code == 0, done.said
    (why,) = done.trace.facts["not_recorded"].values()
    assert why.startswith("drawn inside a loop or a branch, and the script debugs its run itself")
    assert any((tmp_path / "own").iterdir())


@pytest.mark.slow
def test_a_loop_that_is_a_function_is_named_where_it_draws(request, tf_python, tmp_path):
    if "tf2" not in request.node.name:
        pytest.skip("TensorFlow 1.15 keeps no loops as functions unless it is told to: run the tf2 leg")
    script = script_of(tmp_path, FUNCTIONS, PLAIN, END, PARALLEL="4")
    done = run_recorded(tf_python, script, options=(), cwd=tmp_path)
    assert done.code == 0, done.said
    (why,) = done.trace.facts["not_recorded"].values()
    assert why == "drawn inside a loop, a branch or a call that is kept as a function of the graph"
    assert "Level 2 only can be judged." in done.said
