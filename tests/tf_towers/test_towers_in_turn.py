# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""Towers that are built in turn: what they meet at, what they see, and how they end when one of them fails."""

import pytest


def _tower(behave):
    """A tower with one synchronised layer that does something else depending on which tower it is."""
    calls = []

    def tower(x, y):
        calls.append(None)
        index = len(calls) - 1
        images = tf.reshape(x, [-1, 1, 1, 3])
        normed = tf_towers.batch_norm(images, "norm")
        if behave == "more layers" and index == 1:
            normed = tf_towers.batch_norm(normed, "norm")
        if behave == "other layers":
            normed = tf_towers.over_towers(normed, f"of_{index}")[0]
        if behave == "raises" and index == 1:
            raise KeyError("no such key")  # the user's line
        return small.linear(tf.reshape(normed, [-1, 3]), y)

    return tower


def _refused(behave, towers=2, options=None):
    found = {}
    options = dict({"batch_norm": "synchronised"}, **(options or {}))
    tower = small.linear if behave == "no layers" else _tower(behave)
    try:
        tf_towers.build(tower, small.inputs(4 * towers), towers, small.sgd(), **options)
    except Exception as error:
        found = {"kind": type(error).__name__, "message": str(error), "trace": _text(error)}
    return dict(found, alive=_alive())


def _text(error):
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _alive():
    import threading

    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tower ")]


def test_another_number_of_layers_is_one_line(tf):
    answer = tf(_refused, behave="more layers")
    assert answer["kind"] == "TowerError"
    assert answer["message"] == (
        "tower: expected every tower to come to the same synchronised layers in the same order, got the end of its model "
        "in tower 0 where tower 1 came to 'norm/moments (2)'. Build the same layers in every tower."
    )
    assert answer["alive"] == []


def test_other_layers_are_one_line(tf):
    answer = tf(_refused, behave="other layers", towers=3)
    assert "got 'of_0' in tower 0 where tower 1 came to 'of_1'." in answer["message"]
    assert answer["alive"] == []


def test_what_one_tower_raises_ends_the_others_and_keeps_its_traceback(tf):
    answer = tf(_refused, behave="raises", towers=3)
    assert (answer["kind"], answer["message"]) == ("KeyError", "'no such key'")
    assert 'raise KeyError("no such key")  # the user\'s line' in answer["trace"]
    assert answer["alive"] == []


def test_a_model_without_such_layers_is_refused(tf):
    assert tf(_refused, behave="no layers")["message"] == (
        'build: expected layers that exchange with the other towers under batch_norm="synchronised", got none. '
        "Normalise with tf_towers.batch_norm in training mode; layers of TensorFlow's own see one tower only."
    )


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"share": "make_template"}, 'share="make_template"'),
        ({"share": "model_first"}, 'share="model_first"'),
        ({"reduce": "examples"}, 'reduce="examples"'),
        ({"batch_norm_updates": "last"}, "batch_norm_updates"),
    ],
)
def test_choices_that_cannot_be_built_in_turn_are_refused(tf, options, other):
    assert tf(_refused, behave="", options=options)["message"] == (
        f"build: expected synchronised batch norm or {other}, got both. Leave one of them out."
    )


def _alone():
    return {"message": small.refused(tf_towers.over_towers, tf.zeros([2]))}


def test_a_tower_by_itself_has_nobody_to_exchange_with(tf):
    assert tf(_alone)["message"] == (
        "over_towers: expected to be called by a tower that is built beside the others, got no such tower. "
        'Build with batch_norm="synchronised".'
    )


def _nothing():
    import contextlib

    return contextlib.ExitStack()


def _hangs():
    import threading

    from tf_towers.graph.cross_tower.scheduler import in_turn

    never = threading.Event()
    functions = [lambda: 0, lambda: never.wait(60)]
    try:
        message = small.refused(in_turn, functions, lambda index: _nothing(), within=0.2)
    finally:
        never.set()
    return {"message": message}


def test_a_model_that_never_comes_to_its_end_is_waited_for_no_longer_than_allowed(tf):
    assert tf(_hangs)["message"] == (
        "tower: expected the model of tower 1 to come to a synchronised layer or its end within 0.2 s, got neither. "
        "Look for what it waits for."
    )


def _rounds():
    from tf_towers.graph.cross_tower.scheduler import current_turn, in_turn

    order = []

    def function(index):
        def run():
            got = []
            for place in range(2):
                order.append([index, place])
                got.append(current_turn().meet(f"place {place}", 10 * place + index))
            order.append([index, 2])
            return got

        return run

    returned = in_turn([function(index) for index in range(3)], lambda index: _nothing())
    return {"order": order, "returned": returned, "outside": current_turn() is None}


def test_one_runs_at_a_time_in_the_order_of_the_towers(tf):
    answer = tf(_rounds)
    assert answer["order"] == [[tower, place] for place in range(3) for tower in range(3)]
    assert answer["returned"] == [[[0, 1, 2], [10, 11, 12]]] * 3
    assert answer["outside"]


def _seen(batch_norm):
    """What towers find in collections, before the layer where they meet and at the end."""
    seen = []

    def tower(x, y):
        index, found = len(seen), []
        seen.append(found)
        for part in ("before", "after"):
            tf.add_to_collection("parts", tf.identity(x, f"{part}_{index}"))
            found.append([tensor.op.name.split("/")[-1] for tensor in tf.get_collection("parts")])
            if part == "before":
                x = tf.reshape(tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm"), [-1, 3])
        return small.linear(x, y)

    training = tf_towers.build(tower, small.inputs(6), 2, small.sgd(), batch_norm=batch_norm)
    names = [tensor.op.name.split("/")[-1] for tensor in training.graph.get_collection("parts")]
    return {"at the end": [found[-1] for found in seen], "in all": names, "first": seen[0][0], "second": seen[1][0]}


def test_each_tower_finds_in_collections_what_it_finds_where_towers_are_built_one_by_one(tf):
    together, one_by_one = tf(_seen, batch_norm="synchronised"), tf(_seen, batch_norm="each_tower")
    for what in ("at the end", "in all", "first"):
        assert together[what] == one_by_one[what]
    assert together["second"] == ["before_0", "before_1"]  # the rest of tower 0 is still to come


def _own_layer():
    """A layer of one's own that looks at all towers: here the largest element of all."""

    def tower(x, y):
        everyones = tf_towers.over_towers(tf.reduce_max(x))
        return small.linear(x / tf.reduce_max(tf.stack(everyones)), y)

    training = tf_towers.build(tower, small.inputs(6), 3, small.sgd(), batch_norm="synchronised")
    stepper = small.stepper(training)
    batch = small.batch(6)
    together = stepper.step(batch)
    stepper.close()

    alone = tf_towers.build(lambda x, y: small.linear(x / tf.reduce_max(x), y), small.inputs(6), 1, small.sgd())
    stepper = small.stepper(alone)
    one = stepper.step(batch)
    stepper.close()
    return {"together": together["grad/w"], "one": one["grad/w"]}


def test_layers_of_one_s_own_exchange_what_they_like(tf):
    answer = tf(_own_layer)
    assert abs(answer["together"] - answer["one"]).max() <= 1e-14 * abs(answer["one"]).max()
