# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

from parity.sides.process import SideFailed


def _pieces(x, towers):
    batch = {"x": tf.constant(x), "rows": tf.range(len(x))}
    shards = tf_towers.shard(batch, towers)
    kinds = [shard["x"].op.type for shard in shards]
    split = tf.split(batch["x"], towers, axis=0)
    ours, theirs = small.run([shards, split])
    found = {"kinds": kinds, "count": len(ours), "keys": sorted(ours[0])}
    for tower in range(towers):
        found.update(
            {f"x{tower}": ours[tower]["x"], f"split{tower}": theirs[tower], f"rows{tower}": ours[tower]["rows"]}
        )
    return found


def _of_unknown_size(size):
    x = tf.placeholder("float32", [None, 2])
    shards = tf_towers.shard({"x": x}, 2)
    with tf.Session() as session:
        return {"second": session.run(shards[1]["x"], {x: np.arange(2.0 * size).reshape(size, 2)})}


@pytest.mark.parametrize("towers", [1, 2, 3, 6])
def test_a_shard_is_what_tf_split_gives(tf, towers):
    answer = tf(_pieces, x=np.arange(12.0).reshape(6, 2), towers=towers)
    assert answer["count"] == towers
    assert answer["keys"] == ["rows", "x"]
    assert set(answer["kinds"]) == {"Split"}
    for tower in range(towers):
        np.testing.assert_array_equal(answer[f"x{tower}"], answer[f"split{tower}"])
        assert answer[f"x{tower}"].dtype == np.float64


def test_shards_are_contiguous_and_tower_0_holds_the_first_examples(tf):
    answer = tf(_pieces, x=np.zeros((6, 1)), towers=3)
    assert [answer[f"rows{tower}"].tolist() for tower in range(3)] == [[0, 1], [2, 3], [4, 5]]


def test_a_batch_that_does_not_divide_is_refused_with_the_sizes_that_do(tf):
    with pytest.raises(SideFailed) as refused:
        tf(_pieces, x=np.zeros((7, 1)), towers=3)
    assert str(refused.value) == (
        "tf side: shard: expected the batch of 'x' to be divisible by 3 towers, got 7. Use 6 or 9 examples."
    )


def test_a_batch_of_unknown_size_is_split_when_it_comes_and_refused_then(tf):
    assert tf(_of_unknown_size, size=4)["second"].tolist() == [[4.0, 5.0], [6.0, 7.0]]
    with pytest.raises(SideFailed, match="InvalidArgumentError"):
        tf(_of_unknown_size, size=5)
