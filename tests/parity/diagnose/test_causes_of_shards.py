"""Which examples the ranks work on is told by the rows of the first layer that differs: moved, repeated, or exchanged."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose.detectors.inputs import examples_read, order_of_examples, other_shard, repeated_examples

RANDOM = np.random.default_rng(16)
ROWS = RANDOM.normal(size=(8, 3))  # of the batch: four of each tower
ORDER = [2, 0, 3, 1, 7, 4, 6, 5]  # within each rank
DEALT = [0, 2, 4, 6, 1, 3, 5, 7]


def evidence_of(folder, read, rows=ROWS, key="act/{}/layer", fed=4, before=None, off=0.0):
    """Two towers of four rows, and two ranks that hold the rows of some examples."""
    sides = [{}, {}]
    other = rows[list(read)] + off * RANDOM.normal(size=rows[list(read)].shape)
    for tower, part in enumerate(np.split(np.arange(len(rows)), 2)):
        for side, given in zip(sides, (rows, other), strict=True):
            if before is not None:
                side[f"act/{tower}/earlier"] = before[part]
            side[key.format(tower)] = given[part]
            side[f"feed/{tower}/x"] = np.zeros((fed, 2)) if "feed" not in key else given[part]
    return evidence_between(folder, *sides, {}, {})


def says(detector, evidence, key="act/0/layer"):
    cause = detector(first_at(key), evidence)
    return cause and f"{cause.title}: {cause.evidence}"


def test_examples_in_another_order_are_told_with_how_they_were_cut(tmp_path):
    within = says(order_of_examples, evidence_of(tmp_path / "within", ORDER))
    assert within.endswith("the rows of act layer over all ranks are those of the towers in another order")
    dealt = says(order_of_examples, evidence_of(tmp_path / "dealt", DEALT))
    assert dealt.endswith(
        "in another order: dealt out in turn (rank, rank + world size, ...), as DistributedSampler does"
    )
    assert within.partition(": ")[0] != dealt.partition(": ")[0]
    one = says(order_of_examples, evidence_of(tmp_path / "one", [0, 1, 2, 7, 4, 5, 6, 3]))
    assert one.partition(": ")[0] == dealt.partition(": ")[0]  # a single one went to another rank
    for number, read in enumerate((range(8), [0, 0, 2, 3, 4, 5, 6, 7])):
        assert says(order_of_examples, evidence_of(tmp_path / str(number), read)) is None


def test_examples_that_are_repeated_are_told_with_those_that_are_missing(tmp_path):
    text = says(repeated_examples, evidence_of(tmp_path / "two", [0, 0, 2, 2, 4, 5, 6, 7]))
    assert text.endswith("every row of act layer is that of an example of the batch; none is that of example 1, 3")
    assert "2 of" in text.partition(": ")[0] and "8" in text.partition(": ")[0]
    for number, read in enumerate((range(8), ORDER)):
        assert says(repeated_examples, evidence_of(tmp_path / str(number), read)) is None
    many = RANDOM.normal(size=(24, 3))
    read = [0] * 12 + list(range(12, 24))
    text = says(repeated_examples, evidence_of(tmp_path / "many", read, many, fed=12))
    assert text.endswith("none is that of example 1, 2, 3, 4, 5, 6, 7, 8")  # of eleven


@pytest.mark.parametrize("detector", [order_of_examples, repeated_examples])
def test_rows_are_the_same_to_a_billionth(tmp_path, detector):
    read = ORDER if detector is order_of_examples else [0, 0, 2, 2, 4, 5, 6, 7]
    for off, is_named in ((1e-10, True), (1e-8, False)):
        assert (says(detector, evidence_of(tmp_path / str(off), read, off=off)) is not None) == is_named


def test_which_example_stands_in_each_place_is_told_where_every_row_is_one(tmp_path):
    for number, read in enumerate((ORDER, DEALT, [7] * 8, [0, 0, 2, 2, 4, 5, 6, 7], range(8))):
        found = examples_read(first_at("act/0/layer"), evidence_of(tmp_path / str(number), read))
        np.testing.assert_array_equal(found, list(read))
    assert examples_read(first_at("act/0/layer"), evidence_of(tmp_path / "off", ORDER, off=1e-6)) is None


def test_rows_of_anything_but_examples_tell_nothing(tmp_path):
    assert says(order_of_examples, evidence_of(tmp_path / "fed", ORDER, fed=5)) is None
    assert says(order_of_examples, evidence_of(tmp_path / "flat", ORDER, ROWS[:, 0])) is None
    assert says(order_of_examples, evidence_of(tmp_path / "zero", ORDER, 0.0 * ROWS)) is None
    same = np.concatenate([ROWS[:4], ROWS[:4]])
    assert says(order_of_examples, evidence_of(tmp_path / "same", ORDER, same)) is None
    feed = evidence_of(tmp_path / "feed", ORDER, key="feed/{}/x")
    assert says(order_of_examples, feed, "feed/0/x") is None


def test_where_an_earlier_output_is_the_same_the_examples_are_in_place(tmp_path):
    earlier = RANDOM.normal(size=(8, 2))
    assert says(order_of_examples, evidence_of(tmp_path / "same", ORDER, before=earlier)) is None
    constant = np.ones((8, 2))  # tells no example from another
    assert says(order_of_examples, evidence_of(tmp_path / "one number", ORDER, before=constant)) is not None
    half = np.stack([np.ones(8), earlier[:, 0]], axis=1)
    assert says(order_of_examples, evidence_of(tmp_path / "half", ORDER, before=half)) is None


def test_shards_of_other_towers_are_told_rank_by_rank(tmp_path):
    exchanged = says(other_shard, evidence_of(tmp_path / "exchanged", [4, 5, 6, 7, 0, 1, 2, 3]))
    assert exchanged.endswith(
        "each rank's act layer is a tower's to the last bit but rounding: rank 0 that of tower 1, rank 1 that of tower 0"
    )
    one = says(other_shard, evidence_of(tmp_path / "one", [4, 5, 6, 7, 4, 5, 6, 7]))
    assert one.endswith("rank 0 that of tower 1, rank 1 that of tower 1")
    assert one.partition(": ")[0] != exchanged.partition(": ")[0]
    for number, read in enumerate((range(8), ORDER, [4, 5, 6, 7, 0, 1, 3, 2])):
        assert says(other_shard, evidence_of(tmp_path / str(number), read)) is None
    losses = evidence_of(tmp_path / "loss", [1, 0], np.array([1.0, 2.0]), key="loss/{}")
    assert "each rank's loss is a tower's" in says(other_shard, losses, "loss/0")
    for off, is_named in ((1e-10, True), (1e-8, False)):
        evidence = evidence_of(tmp_path / str(off), [4, 5, 6, 7, 0, 1, 2, 3], off=off)
        assert (says(other_shard, evidence) is not None) == is_named
    assert says(other_shard, evidence_of(tmp_path / "grad", ORDER, key="tower_grad/{}/w"), "tower_grad/0/w") is None
