# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest


def _trained(cut, towers=3, steps=4):
    import threading

    training = tf_towers.build(
        small.linear, small.inputs(12), towers, lambda: tf.train.MomentumOptimizer(0.1, 0.9), cut=cut
    )
    before = threading.active_count()
    stepper = small.stepper(training)
    found = {}
    for step in range(steps):
        found.update({f"{step}:{name}": value for name, value in stepper.step(small.batch(12, step)).items()})
    found.update(stepper.state())
    running = threading.active_count() - before
    stepper.close()
    left = threading.active_count() - before
    return dict(found, running=running, left=left)


@pytest.mark.parametrize("cut", ["queue", "iterator"])
def test_towers_that_read_by_themselves_get_the_shards_that_tf_split_gives(tf, cut):
    split, read = tf(_trained, cut="split"), tf(_trained, cut=cut)
    assert split.pop("running") == split.pop("left") == 0
    running = read.pop("running")
    assert (running >= 1) == (cut == "queue")
    assert read.pop("left") == 0
    assert sorted(read) == sorted(split)
    for name, value in split.items():
        np.testing.assert_array_equal(read[name], value, err_msg=name)


def _closed(cut):
    training = tf_towers.build(small.linear, small.inputs(4), 2, small.sgd(), cut=cut)
    stepper = small.stepper(training)
    stepper.close()
    stepper.close()
    return {"after": small.refused(stepper.step, small.batch(4))}


@pytest.mark.parametrize("cut", ["queue", "iterator"])
def test_a_source_that_nobody_read_from_ends_too_and_takes_nothing_more(tf, cut):
    assert tf(_closed, cut=cut)["after"] == (
        "step: expected towers that still read, got a closed source. Open another session."
    )


def _refused():
    training = tf_towers.build(small.linear, small.inputs(4), 2, small.sgd(), cut="queue")
    stepper = small.stepper(training)
    ragged = small.refused(stepper.step, small.batch(3))
    stepper.close()
    unknown = {"x": ("float64", [None, 3]), "y": ("float64", [None, 2])}

    def build(inputs, towers=2, **options):
        return small.refused(tf_towers.build, small.linear, inputs, towers, small.sgd(), cut="queue", **options)

    return {
        "ragged": ragged,
        "unknown": build(unknown),
        "towers": build(small.inputs(4), 3),
        "uneven": build(small.inputs(4), uneven="pad"),
    }


def test_wrong_use_is_refused_in_one_line(tf):
    answer = tf(_refused)
    assert answer["ragged"] == "step: expected 'x' to have a multiple of 2 examples, got 3. Feed a whole batch."
    assert answer["unknown"] == (
        "build: expected a batch of known size for towers that read by themselves, got none for x, y. "
        "Say how many examples it has."
    )
    assert (
        answer["towers"] == "shard: expected the batch of 'x' to be divisible by 3 towers, got 4. Use 3 or 6 examples."
    )
    assert answer["uneven"] == 'build: expected uneven shards or cut="queue", got both. Leave one of them out.'
