"""Which piece of a batch is a tower's, where it cuts the batch several times."""

# ruff: noqa: F821 - programs find tf there

import pytest


def _cut(rows, known):
    from tf_towers.record.inputs import inputs_of

    x = tf.placeholder(tf.float32, [4, 2], "x")
    before = set(tf.get_default_graph().get_operations()) - {x.op}
    pieces = []
    for number, row in enumerate(rows):
        begin = tf.constant([row, 0])
        # A begin that is fed is no constant: nobody knows which rows these are.
        begin = begin if known[number] else tf.placeholder_with_default(begin, [2])
        pieces.append(tf.slice(x, begin, [2, 2], name=f"piece{number}"))
    tf.reduce_sum(tf.add_n([tf.square(each) for each in pieces]))
    ops = set(tf.get_default_graph().get_operations()) - before
    inputs, missed = inputs_of([ops])
    return {"found": {each.name: each.tensor.op.name for each in inputs[0] if each.name == "x"}, "missed": missed}


@pytest.mark.parametrize(
    ("rows", "known", "piece"),
    [
        ([2], [True], "piece0"),
        ([2], [False], "piece0"),
        ([2, 2], [True, True], "piece0"),  # the same piece, cut twice
        ([0, 2], [True, True], "x"),
        ([2, 2], [False, False], "x"),  # nobody knows whether they are the same
        ([2, 2], [True, False], "x"),
        ([2, 2, 2], [True, True, True], "piece0"),
        ([2, 2, 0], [True, True, True], "x"),
    ],
)
def test_pieces_are_taken_for_the_same_where_they_are_cut_at_equal_constants(tf, rows, known, piece):
    assert tf(_cut, rows=rows, known=known) == {"found": {"x": piece}, "missed": []}
