"""What names of variables say: the same in every habit of writing them."""

import pytest

from parity.mapping.names import meanings
from parity.mapping.similarity import Similarity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("conv01/kernel", "conv1.weight"),
        ("conv_1/kernel:0", "Conv1.weight"),
        ("module/batch_norm/gamma", "batchnorm.weight"),
        ("layer/1/0/w", "layer.1.0.weight"),
        ("block/fn/w_query", "block.query.weight"),
    ],
)
def test_two_habits_of_writing_a_name_say_the_same(one, other):
    assert meanings([one]) == meanings([other])


@pytest.mark.parametrize(("one", "other"), [("layer/1/0/w", "layer/10/w"), ("conv1/kernel", "conv2/kernel")])
def test_other_numbers_say_something_else(one, other):
    assert meanings([one]) != meanings([other])


def test_names_that_share_their_words_are_alike_and_their_numbers_count_where_both_sides_have_them():
    names = ["encoder/conv1/kernel", "encoder/conv2/kernel", "decoder/dense/kernel"]
    others = ["enc.conv1.weight", "enc.conv2.weight", "dec.fc.weight"]
    alike = Similarity(names, others)
    for name, other in zip(names, others, strict=True):
        assert alike(name, other) == pytest.approx(1.0)
        assert all(alike(name, each) < 0.95 for each in others if each != other)
    # Where the numbers are other ones on both sides, they mean different things: only words count.
    shifted = Similarity(names, ["enc.conv0.weight", "enc.conv1.weight", "dec.fc.weight"])
    assert shifted(names[0], "enc.conv1.weight") == shifted(names[0], "enc.conv0.weight") == pytest.approx(1.0)
