# ruff: noqa: F821 - programs find tf there
"""Where the value of a read that races goes: through what is written and read again, and not to what only waits."""

import pytest

RESOURCES = pytest.mark.parametrize("use_resource", [False, True])


def _reached(way, use_resource):
    from tf_towers.graph.races import find_races
    from tf_towers.graph.traversal import ancestors

    def variable(name):
        return tf.get_variable(name, [], initializer=tf.zeros_initializer(), use_resource=use_resource)

    def keep():
        return kept.assign(racing(), read_value=False)

    def racing():
        return counter * 2.0

    def behind(op, step):
        with tf.control_dependencies([op]):
            return step()

    def in_no_order():
        read = kept * 2.0
        return [keep()], read

    def before():
        read = kept * 2.0
        with tf.control_dependencies([read]):
            return [keep()], read

    def in_a_branch(behind=(), read=lambda: kept * 2.0):
        with tf.control_dependencies(list(behind)):
            return tf.cond(tf.placeholder(tf.bool, []), read, lambda: tf.constant(1.0))

    def behind_one_of_two():
        return [keep()], behind(kept.assign(3.0, read_value=False), kept.read_value)

    def by_a_stack():
        stack = tf.raw_ops.StackV2(max_size=1, elem_type=tf.float32, stack_name="stack")
        pushed = tf.raw_ops.StackPushV2(handle=stack, elem=racing())
        return [keep()], behind(pushed.op, lambda: tf.raw_ops.StackPopV2(handle=stack, elem_type=tf.float32))

    ways = {
        "reads what was written": lambda: ([], behind(keep(), kept.read_value)),
        "computes behind the write": lambda: ([], behind(keep(), lambda: kept * 2.0)),
        "reads behind a group": lambda: ([], behind(tf.group(keep(), tf.no_op()), kept.read_value)),
        "reads what is added to": lambda: (
            [],
            behind(behind(keep(), lambda: kept.assign_add(1.0)).op, kept.read_value),
        ),
        "reads in no order": in_no_order,
        "reads behind one of two writes": behind_one_of_two,
        "reads in a branch behind the write": lambda: ([], in_a_branch([keep()])),
        "reads in a branch in no order": lambda: ([keep()], in_a_branch()),
        "is read in a branch as it is in no order": lambda: ([keep()], in_a_branch(read=lambda: kept)),
        "reads before the write": before,
        "waits for the write": lambda: ([], behind(keep(), lambda: tf.constant(2.0))),
        "waits for what is computed": lambda: ([keep()], behind(racing().op, lambda: tf.constant(2.0))),
        "chooses a constant": lambda: ([keep()], tf.cond(counter > 1.0, lambda: tf.constant(2.0), lambda: 1.0)),
        "waits for what is chosen": lambda: (
            [keep()],
            behind(tf.cond(counter > 1.0, lambda: tf.constant(2.0), lambda: 1.0).op, lambda: tf.constant(2.0)),
        ),
        "counts a loop": lambda: (
            [keep()],
            tf.while_loop(lambda i: i < counter, lambda i: [i + 1.0], [tf.constant(0.0)]),
        ),
        "pops what was pushed": by_a_stack,
    }
    with tf.Graph().as_default():
        kept, counter, weight = variable("kept"), variable("counter"), variable("weight")
        count = counter.assign_add(1.0, read_value=False)
        more, step = ways[way]()
        update = weight.assign_sub(step, read_value=False)
        watched = {"state/kept": kept, "state/counter": counter, "var/weight": weight}
        races = find_races(watched, ancestors([tf.group(count, update, *more)]), [])
        (_, *others) = sorted({race.variable for race in races} | {""})
        return {
            "races": others,
            "reached": sorted({k for r in races if r.variable == "state/counter" for k in r.reaches}),
        }


@RESOURCES
@pytest.mark.parametrize(
    "way",
    [
        "reads what was written",
        "computes behind the write",
        "reads behind a group",
        "reads what is added to",
        "reads in no order",
        "reads behind one of two writes",
        "reads in a branch behind the write",
        "chooses a constant",
        "counts a loop",
        "pops what was pushed",
    ],
)
def test_a_race_reaches_what_its_value_decides(tf, way, use_resource):
    found = tf(_reached, way=way, use_resource=use_resource)
    assert "state/counter" in found["races"]
    assert found["reached"] == ["state/kept", "var/weight"]


@RESOURCES
@pytest.mark.parametrize(
    "way",
    ["waits for the write", "waits for what is computed", "waits for what is chosen", "reads before the write"],
)
def test_a_race_does_not_reach_what_waits_for_it_or_reads_before_it(tf, way, use_resource):
    assert tf(_reached, way=way, use_resource=use_resource) == {"races": ["state/counter"], "reached": ["state/kept"]}


@RESOURCES
@pytest.mark.parametrize("way", ["reads in a branch in no order", "is read in a branch as it is in no order"])
def test_a_race_does_not_reach_what_reads_in_a_branch_in_no_order(tf, way, use_resource):
    found = tf(_reached, way=way, use_resource=use_resource)
    assert found == {"races": ["state/counter", "state/kept"], "reached": ["state/kept"]}


@RESOURCES
def test_a_race_reaches_the_loss_that_takes_its_value(tf, use_resource):
    assert tf(_losses, use_resource=use_resource) == {"taking": ["loss"], "waiting": []}


def _losses(use_resource):
    from tf_towers.graph.races import find_races
    from tf_towers.graph.traversal import ancestors

    found = {}
    for way in ("taking", "waiting"):
        with tf.Graph().as_default():
            weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer(), use_resource=use_resource)
            read = weight * 2.0
            with tf.control_dependencies([read]):
                loss = read + 1.0 if way == "taking" else tf.constant(1.0) + 1.0
            update = weight.assign_sub(1.0, read_value=False)
            (race,) = find_races({"var/weight": weight}, ancestors([loss.op, update]), [loss])
            found[way] = race.reaches
    return found
