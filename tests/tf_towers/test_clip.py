# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest


def _clipped(by, limit, first, second, rows=None, sum_duplicates=False):
    a, b = (tf.get_variable(name, [4], tf.float64) for name in "ab")
    gradient = tf.constant(first)
    if rows is not None:
        gradient = tf.IndexedSlices(gradient, tf.constant(rows), tf.constant([4]))
    pairs = [(gradient, a), (None, b), (tf.constant(second), b)]
    clipped = tf_towers.clip_gradients(pairs, by, limit, sum_duplicates)
    found = {
        "sparse": isinstance(clipped.gradients[0][0], tf.IndexedSlices),
        "none": clipped.gradients[1][0] is None,
        "variables": [variable.op.name for _, variable in clipped.gradients],
        "has_norm": clipped.norm is not None,
    }
    values = [tf.convert_to_tensor(clipped.gradients[place][0]) for place in (0, 2)]
    first, second = small.run(values)
    norm = small.run(clipped.norm) if found["has_norm"] else np.zeros(())
    return dict(found, first=first, second=second, norm=np.asarray(norm))


FIRST, SECOND = np.array([3.0, 0.0, -4.0, 0.0]), np.array([0.0, 12.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("by", "first", "second"),
    [
        ("global_norm", FIRST * 2 / 13, SECOND * 2 / 13),
        ("norm", FIRST * 2 / 5, SECOND * 2 / 12),
        ("value", np.clip(FIRST, -2, 2), np.clip(SECOND, -2, 2)),
    ],
)
def test_gradients_are_clipped_together_one_by_one_or_by_value(tf, by, first, second):
    answer = tf(_clipped, by=by, limit=2.0, first=FIRST, second=SECOND)
    np.testing.assert_allclose(answer["first"], first, rtol=1e-15)
    np.testing.assert_allclose(answer["second"], second, rtol=1e-15)
    assert answer["variables"] == ["a", "b", "b"]
    assert answer["none"]
    assert answer["has_norm"] == (by == "global_norm")
    assert not answer["has_norm"] or float(answer["norm"]) == 13.0


@pytest.mark.parametrize("by", ["global_norm", "norm", "value"])
def test_what_is_within_the_limit_stays_as_it_is(tf, by):
    answer = tf(_clipped, by=by, limit=100.0, first=FIRST, second=SECOND)
    np.testing.assert_allclose(answer["first"], FIRST, rtol=1e-15)
    np.testing.assert_allclose(answer["second"], SECOND, rtol=1e-15)


@pytest.mark.parametrize("by", ["global_norm", "norm", "value"])
def test_sparse_gradients_stay_sparse(tf, by):
    answer = tf(_clipped, by=by, limit=2.0, first=FIRST, second=SECOND, rows=[0, 1, 2, 3])
    dense = tf(_clipped, by=by, limit=2.0, first=FIRST, second=SECOND)
    assert answer["sparse"]
    np.testing.assert_array_equal(answer["first"], dense["first"])


def test_the_norm_of_rows_that_repeat_is_too_small_unless_they_are_added_up_first(tf):
    """Four hits on one row: tensorflow says 2, the dense gradient 4."""
    ones, none = np.ones(4), np.zeros(4)
    plain, added = (
        tf(_clipped, by="global_norm", limit=1.0, first=ones, second=none, rows=[2] * 4, sum_duplicates=added)
        for added in (False, True)
    )
    assert (float(plain["norm"]), float(added["norm"])) == (2.0, 4.0)
    assert plain["first"].tolist() == [0.0, 0.0, 2.0, 0.0]
    assert added["first"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert added["sparse"]


def test_a_norm_that_is_infinite_makes_every_gradient_nan(tf):
    answer = tf(_clipped, by="global_norm", limit=1.0, first=np.array([np.inf, 0, 0, 0]), second=SECOND)
    assert np.isnan(answer["first"]).all()
    assert np.isnan(answer["second"]).all()


def _built(clip, towers):
    def tower(x, y):
        return small.linear(x, 10 * y)

    training = tf_towers.build(tower, small.inputs(8), towers, small.sgd(), clip=clip)
    stepper = small.stepper(training)
    before = stepper.state()
    recorded = stepper.step(small.batch(8))
    after = stepper.state()
    stepper.close()
    found = {name: value for name, value in recorded.items() if "grad" in name or "clip" in name}
    found.update({"moved:" + name: before["var/" + name] - after["var/" + name] for name in "wb"})
    return found


def _norm(answer, prefix):
    return np.sqrt(sum(np.sum(answer[f"{prefix}/{name}"] ** 2) for name in "wb"))


def test_clipped_after_combining_the_update_takes_the_clipped_gradient(tf):
    answer = tf(_built, clip={"by": "global_norm", "limit": 1.0}, towers=2)
    assert not any(name.startswith("tower_clip") for name in answer)
    scale = 1 / _norm(answer, "grad")
    assert scale < 1
    for name in "wb":
        np.testing.assert_allclose(answer[f"clip/{name}"], answer[f"grad/{name}"] * scale, rtol=1e-14)
        np.testing.assert_allclose(answer[f"moved:{name}"], 0.5 * answer[f"clip/{name}"], rtol=1e-14)


def test_clipped_in_every_tower_the_mean_is_of_clipped_gradients_and_another_one(tf):
    answer = tf(_built, clip={"by": "global_norm", "limit": 1.0, "at": "tower"}, towers=2)
    after = tf(_built, clip={"by": "global_norm", "limit": 1.0}, towers=2)
    assert not any(name.startswith("clip") for name in answer)
    for tower in range(2):
        scale = 1 / _norm(answer, f"tower_grad/{tower}")
        for name in "wb":
            np.testing.assert_allclose(
                answer[f"tower_clip/{tower}/{name}"], answer[f"tower_grad/{tower}/{name}"] * scale, rtol=1e-14
            )
    for name in "wb":
        mean = (answer[f"tower_clip/0/{name}"] + answer[f"tower_clip/1/{name}"]) / 2
        np.testing.assert_allclose(answer[f"grad/{name}"], mean, rtol=1e-14)
        assert np.abs(answer[f"moved:{name}"] - after[f"moved:{name}"]).max() > 1e-3


def test_a_sum_instead_of_a_mean_is_hidden_by_a_global_norm(tf):
    mean, total = (tf(_sum_or_mean, reduce=reduce) for reduce in ("mean", "sum"))
    np.testing.assert_allclose(total["grad"], 2 * mean["grad"], rtol=1e-14)
    np.testing.assert_allclose(total["moved"], mean["moved"], rtol=1e-12)


def _sum_or_mean(reduce):
    clip = {"by": "global_norm", "limit": 0.1}
    training = tf_towers.build(small.linear, small.inputs(8), 2, small.sgd(), reduce, clip=clip)
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(8))
    state = stepper.state()
    stepper.close()
    return {"grad": recorded["grad/w"], "moved": 1 - state["var/w"]}


def _refused():
    def build(**clip):
        return small.refused(tf_towers.build, small.linear, small.inputs(4), 2, small.sgd(), clip=clip)

    return {
        "by": small.refused(tf_towers.clip_gradients, [], "size", 1.0),
        "limit": small.refused(tf_towers.clip_gradients, [], "norm", 0.0),
        "none": build(by="norm"),
        "unknown": build(by="norm", limit=1.0, where="tower"),
        "at": build(by="norm", limit=1.0, at="towers"),
    }


def test_wrong_use_is_refused_in_one_line(tf):
    keys = "expected clip to be a dict of by, limit, at, sum_duplicates, got"
    assert tf(_refused) == {
        "by": "clip_gradients: expected by to be 'global_norm', 'norm' or 'value', got 'size'.",
        "limit": "clip_gradients: expected a positive limit, got 0.0.",
        "none": f"build: {keys} by. Add limit.",
        "unknown": f"build: {keys} by, limit, where. Leave out where.",
        "at": "build: expected clip.at to be one of combined, tower, got 'towers'.",
    }
