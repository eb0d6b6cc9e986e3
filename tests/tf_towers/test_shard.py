# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

from parity.worker.process import SideFailed


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
        "TensorFlow side: shard: expected the batch of 'x' to be divisible by 3 towers, got 7. Use 6 or 9 examples."
    )


def test_a_batch_of_unknown_size_is_split_when_it_comes_and_refused_then(tf):
    assert tf(_of_unknown_size, size=4)["second"].tolist() == [[4.0, 5.0], [6.0, 7.0]]
    with pytest.raises(SideFailed, match="InvalidArgumentError"):
        tf(_of_unknown_size, size=5)


def _cut(x, towers, cut):
    rate = tf.placeholder_with_default(0.5, [])
    shards = tf_towers.shard({"x": tf.constant(x), "rate": rate}, towers, cut)
    ours = small.run(shards)
    found = {f"x{tower}": ours[tower]["x"] for tower in range(towers)}
    return dict(found, rates=[float(one["rate"]) for one in ours], same=all(one["rate"] is rate for one in shards))


@pytest.mark.parametrize("cut", ["split", "slices"])
def test_slices_and_split_give_the_same_and_scalars_go_to_every_tower(tf, cut):
    x = np.arange(12.0).reshape(6, 2)
    answer = tf(_cut, x=x, towers=3, cut=cut)
    for tower in range(3):
        np.testing.assert_array_equal(answer[f"x{tower}"], x[2 * tower : 2 * tower + 2])
    assert answer["rates"] == [0.5, 0.5, 0.5]
    assert answer["same"]


def _uneven(size, towers, policy, known):
    x = tf.placeholder("float64", [size if known else None, 1])
    cut = tf_towers.shard_uneven({"x": x, "rate": tf.constant(1.0)}, towers, policy)
    fetches = [[one["x"][:, 0] for one in cut.inputs], cut.examples, cut.weights]
    with tf.Session() as session:
        inputs, examples, weights = session.run(fetches, {x: np.arange(size)[:, None]})
    return {
        "inputs": [one.tolist() for one in inputs],
        "examples": [int(one) for one in examples],
        "weights": [one.tolist() for one in weights],
        "shapes": [one["x"].shape.as_list()[0] for one in cut.inputs],
    }


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("policy", "size", "inputs", "examples"),
    [
        ("drop", 7, [[0, 1], [2, 3], [4, 5]], [2, 2, 2]),
        ("sizes", 7, [[0, 1, 2], [3, 4], [5, 6]], [3, 2, 2]),
        ("sizes", 2, [[0], [1], []], [1, 1, 0]),
        ("pad", 7, [[0, 1, 2], [3, 4, 5], [6, 6, 6]], [3, 3, 1]),
        ("pad", 1, [[0], [0], [0]], [1, 0, 0]),
        *[(policy, 6, [[0, 1], [2, 3], [4, 5]], [2, 2, 2]) for policy in ("drop", "sizes", "pad")],
    ],
)
def test_a_batch_that_does_not_divide_is_cut_as_the_policy_says(tf, policy, size, inputs, examples, known):
    answer = tf(_uneven, size=size, towers=3, policy=policy, known=known)
    assert answer["inputs"] == inputs
    assert answer["examples"] == examples
    assert [sum(weights) for weights in answer["weights"]] == examples
    assert [len(weights) for weights in answer["weights"]] == [len(piece) for piece in inputs]
    assert not known or answer["shapes"] == [len(piece) for piece in inputs]


def _refused_policy():
    return {"refused": small.refused(tf_towers.shard_uneven, {"x": tf.zeros([3])}, 2, "repeat")}


def test_an_unknown_policy_is_refused(tf):
    assert tf(_refused_policy) == {
        "refused": "shard_uneven: expected policy to be one of drop, pad, sizes, got 'repeat'."
    }


def _weighted_linear(x, y, example_weights):
    w = tf.get_variable("w", [3, 2], x.dtype, tf.ones_initializer())
    each = tf.reduce_mean(tf.square(tf.matmul(x, w) - y), 1)
    return tf.reduce_sum(each * example_weights) / tf.reduce_sum(example_weights)


def _unbiased_linear(x, y):
    return _weighted_linear(x, y, tf.ones_like(x[:, 0]))


def _trained(size, towers, uneven, reduce, cut="split"):
    tower = _weighted_linear if uneven == "pad" else _unbiased_linear
    inputs = {"x": ("float64", [size, 3]), "y": ("float64", [size, 2])}
    training = tf_towers.build(tower, inputs, towers, small.sgd(), reduce, uneven=uneven, cut=cut)
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(size))
    stepper.close()
    return {name: value for name, value in recorded.items() if name.startswith(("grad", "loss", "feed"))}


def _gradient(size):
    random = np.random.RandomState(0)
    x, y = random.randn(size, 3), random.randn(size, 2)
    return x.T @ (x @ np.ones((3, 2)) - y) / size


@pytest.mark.parametrize("uneven", ["sizes", "pad"])
def test_a_mean_weighted_by_examples_is_the_mean_over_the_batch_and_the_plain_one_is_not(tf, uneven):
    weighted, plain = (tf(_trained, size=7, towers=3, uneven=uneven, reduce=reduce) for reduce in ("examples", "mean"))
    np.testing.assert_allclose(weighted["grad/w"], _gradient(7), rtol=1e-13)
    assert np.abs(plain["grad/w"] - _gradient(7)).max() > 1e-3


def test_an_empty_shard_makes_the_loss_nan_and_the_gradient_of_a_mean_zero(tf):
    """Training goes on at a fraction of its strength while the reported loss is not a number."""
    answer = tf(_empty)
    assert np.isnan(answer["loss"])
    assert answer["gradient"].tolist() == [0.0, 0.0]


def _empty():
    w = tf.get_variable("w", [2], tf.float64)
    loss = tf.reduce_mean(tf.zeros([0, 2], tf.float64) * w)
    loss, gradient = small.run([loss, tf.gradients(loss, w)[0]])
    return {"loss": np.asarray(loss), "gradient": gradient}


def _without_weights():
    inputs = small.inputs(3)
    return {"refused": small.refused(tf_towers.build, small.linear, inputs, 2, small.sgd(), uneven="pad")}


def test_a_tower_that_cannot_tell_padding_is_refused(tf):
    assert tf(_without_weights)["refused"] == (
        "tower: expected an argument example_weights, [shard], 0 where the batch was padded, got none. "
        "Take it, and weight the losses of the examples with it."
    )


def _of_other_names():
    towers = {
        "one": lambda a, y: a,
        "more": lambda x, y, z: x,
        "fewer": lambda x: x,
        "any": lambda **inputs: inputs["x"],
    }
    return {
        name: small.refused(tf_towers.build, tower, small.inputs(4), 2, small.sgd()) for name, tower in towers.items()
    }


def test_a_tower_that_does_not_take_what_the_batches_hold_is_told_their_names(tf):
    found = tf(_of_other_names)
    told = "tower: expected a function of x, y, got {}: {}. Name its arguments as the batches name their arrays."
    assert found["one"] == told.format("(a, y)", "missing a required argument: 'a'")
    assert found["more"] == told.format("(x, y, z)", "missing a required argument: 'z'")
    assert found["fewer"] == told.format("(x)", "got an unexpected keyword argument 'y'")
    assert found["any"].startswith("tower: expected a scalar loss")


def test_every_tower_can_be_fed_by_itself(tf):
    split, feeds = (
        tf(_trained, size=6, towers=3, uneven="refuse", reduce="mean", cut=cut) for cut in ("split", "feeds")
    )
    assert set(split) == set(feeds)
    for name in split:
        np.testing.assert_array_equal(split[name], feeds[name])


def _badly_fed():
    feeds = tf_towers.tower_feeds({"x": ("float32", [6, 2])}, 3)
    training = tf_towers.build(small.linear, small.inputs(None), 2, small.sgd(), cut="feeds")
    stepper = small.stepper(training)
    refused = small.refused(stepper.step, small.batch(3))
    stepper.close()
    return {
        "names": [one["x"].op.name for one in feeds],
        "shapes": [one["x"].shape.as_list() for one in feeds],
        "size": small.refused(tf_towers.tower_feeds, {"x": ("float32", [5, 2])}, 3),
        "step": refused,
    }


def test_placeholders_of_towers_have_the_shard_s_shape(tf):
    answer = tf(_badly_fed)
    assert answer["names"] == ["x_0", "x_1", "x_2"]
    assert answer["shapes"] == [[2, 2]] * 3
    assert answer["size"] == "shard: expected the batch of 'x' to be divisible by 3 towers, got 5. Use 3 or 6 examples."
    assert answer["step"] == "step: expected 'x' to have a multiple of 2 examples, got 3. Feed a whole batch."


def _examples_seen(cut):
    def tower(x, y):
        return small.linear(x, y), {"x": x}

    training = tf_towers.build(tower, small.inputs(6), 3, small.sgd(), cut=cut)
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(6))
    stepper.close()
    return {"seen": np.concatenate([recorded[f"act/{index}/x"] for index in range(3)]), "all": small.batch(6)["x"]}


@pytest.mark.parametrize("cut", ["split", "slices", "feeds"])
def test_together_the_towers_see_every_example_once(tf, cut):
    answer = tf(_examples_seen, cut=cut)
    np.testing.assert_array_equal(answer["seen"], answer["all"])


def _nested(size):
    rows = tf.SparseTensor([[0, 1], [size - 1, 0]], [5.0, 7.0], [size, 2])
    batch = {"features": {"dense": tf.range(size), "sparse": rows, "rate": tf.constant(0.5)}, "labels": tf.range(size)}
    try:
        shards = tf_towers.shard(batch, 2)
    except tf_towers.TowerError as error:
        return {"refused": str(error)}
    dense = [[one["features"]["dense"], one["labels"], tf.sparse.to_dense(one["features"]["sparse"])] for one in shards]
    first, second = small.run(dense)
    return {"first": [part.tolist() for part in first], "second": [part.tolist() for part in second]}


def test_nested_and_sparse_features_are_cut_alike(tf):
    assert tf(_nested, size=4) == {
        "first": [[0, 1], [0, 1], [[0.0, 5.0], [0.0, 0.0]]],
        "second": [[2, 3], [2, 3], [[0.0, 0.0], [7.0, 0.0]]],
    }


def test_a_nested_feature_that_does_not_divide_is_refused_by_its_name(tf):
    refused = tf(_nested, size=5)["refused"]
    assert refused == "shard: expected the batch of 'dense' to be divisible by 2 towers, got 5. Use 4 or 6 examples."
