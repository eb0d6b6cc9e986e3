# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest


def _trained(accumulate, towers=2, clip=None, updates="first", loss_scale=None):
    def tower(x, y):
        tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm", momentum=0.5)
        return small.linear(x, y)

    training = tf_towers.build(
        tower,
        small.inputs(12),
        towers,
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        batch_norm_updates=updates,
        accumulate=accumulate,
        clip=clip,
        loss_scale=loss_scale,
    )
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(12))
    recorded.update(stepper.state())
    stepper.close()
    recorded["towers"] = [replica.name for replica in training.towers]
    recorded["told"] = tf_towers.facts(training, "float64", 1)["towers"]
    return recorded


def test_the_mean_over_micro_batches_is_the_gradient_of_the_whole_shard(tf):
    one, answer = (tf(_trained, accumulate=accumulate) for accumulate in (None, {"steps": 3}))
    assert answer["towers"] == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]
    assert answer["told"] == one["told"] == 2
    for name in ("grad/w", "grad/b", "var/w", "slot/momentum/w"):
        np.testing.assert_allclose(answer[name], one[name], rtol=1e-13)
    assert int(answer["state/global_step"]) == 1
    shards = [answer[f"feed/0.{micro}/x"] for micro in range(3)]
    np.testing.assert_array_equal(np.concatenate(shards), one["feed/0/x"])


def test_the_sum_over_micro_batches_is_another_choice_than_that_over_towers(tf):
    mean, total = (tf(_trained, accumulate={"steps": 3, "reduce": reduce}) for reduce in ("mean", "sum"))
    np.testing.assert_allclose(total["grad/w"], 3 * mean["grad/w"], rtol=1e-13)


def test_every_micro_batch_of_the_first_tower_moves_the_statistics_in_order(tf):
    answer = tf(_trained, accumulate={"steps": 2})
    moving = np.zeros(3)
    for micro in range(2):
        moving = moving - (moving - answer[f"feed/0.{micro}/x"].mean(0)) * 0.5
    np.testing.assert_allclose(answer["stat/norm/moving_mean"], moving, rtol=1e-12)


def test_clipping_in_the_tower_is_of_every_micro_batch(tf):
    answer = tf(_trained, accumulate={"steps": 2}, clip={"by": "global_norm", "limit": 0.1, "at": "tower"})
    clipped = [answer[f"tower_clip/{tower}.{micro}/w"] for tower in range(2) for micro in range(2)]
    np.testing.assert_allclose(answer["grad/w"], sum(clipped) / 4, rtol=1e-13)
    assert np.abs(clipped[0]).max() < np.abs(answer["tower_grad/0.0/w"]).max()


@pytest.mark.parametrize("scale", [64.0, {"initial": 64.0}])
def test_loss_scaling_goes_with_accumulation(tf, scale):
    plain, scaled = (tf(_trained, accumulate={"steps": 2}, loss_scale=one) for one in (None, scale))
    np.testing.assert_array_equal(scaled["grad/w"], plain["grad/w"])


def _refused():
    def build(**options):
        return small.refused(tf_towers.build, small.linear, small.inputs(12), 2, small.sgd(), **options)

    return {
        "divide": build(accumulate={"steps": 5}),
        "both": build(accumulate={"steps": 2}, uneven="drop"),
        "table": build(accumulate={"reduce": "mean"}),
        "unknown": build(acumulate={"steps": 2}),
    }


def test_wrong_use_is_refused_in_one_line(tf):
    answer = tf(_refused)
    assert (
        answer["divide"]
        == "shard: expected the batch of 'x' to be divisible by 5 micro-batches, got 6. Use 5 or 10 examples."
    )
    assert answer["both"] == "build: expected uneven shards or accumulate, got both. Leave one of them out."
    assert answer["table"] == "build: expected accumulate to be a dict of steps, reduce, got reduce. Add steps."
    assert answer["unknown"].startswith(
        "build: expected one of the options accumulate, batch_norm, batch_norm_updates, "
    )
    assert answer["unknown"].endswith(", got 'acumulate'.")
