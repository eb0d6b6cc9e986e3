"""Which loops run one iteration at a time while a script is watched: those that draw, and no other."""

# ruff: noqa: F821 - programs find tf there


def _at_once():
    from tf_towers.record.hooks import Patches, keep_iterations_in_order

    def built(name, body, start, **options):
        with tf.name_scope(name):
            return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, body(x)), [0, start], **options)[1]

    def drawing(x):
        return x + tf.random_uniform([2])

    def drawing_in_a_branch(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: drawing(x), lambda: x)

    def doubling(x):
        return 2 * x

    start, patches = tf.ones([2]), Patches()
    keep_iterations_in_order(patches)
    try:
        first = built("draws", drawing, start)
        built("plain", doubling, start, parallel_iterations=7)
        built("branch", drawing_in_a_branch, start)
        built("around", lambda x: built("within", drawing, x), start)
        built("outer", lambda x: drawing(built("inner", doubling, x)), start)
        with tf.Graph().as_default():
            built("plain", doubling, tf.ones([2]))
            other = tf.get_default_graph()
        tf.gradients(first, start)
    finally:
        patches.undo()
    built("after", drawing, start)
    found = {}
    for graph, mark in ((tf.get_default_graph(), ""), (other, "other ")):
        for op in graph.get_operations():
            if op.type == "Enter":
                frame = op.get_attr("frame_name").decode("utf-8").replace("while_context", "").strip("/")
                found.setdefault(mark + frame, set()).add(op.get_attr("parallel_iterations"))
    return {name: sorted(each) for name, each in found.items()}


def test_loops_with_draws_in_them_run_one_iteration_at_a_time_and_others_as_asked_for(tf):
    found = {}
    for name, counts in tf(_at_once).items():
        mark, _, frame = name.rpartition(" ")
        parts = [part for part in frame.split("/") if not part.startswith("while")]
        found.setdefault(" ".join([mark, *parts]).strip(), set()).update(counts)
    found = {name: sorted(counts) for name, counts in found.items()}
    assert {name: counts for name, counts in found.items() if not name.startswith("gradients")} == {
        "draws": [1],
        "plain": [7],
        "branch": [1],
        "around": [1],
        "around within": [1],
        "outer": [1],
        "outer inner": [10],
        "other plain": [10],
        "after": [10],
    }
