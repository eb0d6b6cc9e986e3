# ruff: noqa: F821 - programs find tf_towers and small there
import numpy as np
import pytest


def _planned(chosen):
    try:
        plan = tf_towers.make_plan(**chosen)
    except tf_towers.TowerError as error:
        return {"refused": str(error)}
    return {"plan": dict(plan._asdict())}


DEFAULTS = {
    "reduce": "mean",
    "variables": "cpu",
    "batch_norm": "each_tower",
    "batch_norm_updates": "first",
    "update_ops": "before",
    "cut": "split",
    "uneven": "refuse",
    "share": "variable_scope",
    "missing": "refuse",
    "sparse": "dense",
    "regularization": "none",
    "accumulate": None,
    "clip": None,
    "ema": None,
    "loss_scale": None,
    "weight_decay": None,
}


def test_the_defaults_are_these(tf):
    assert tf(_planned, chosen={})["plan"] == DEFAULTS


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (
            {"clip": {"limit": 1.0}},
            {"clip": {"by": "global_norm", "limit": 1.0, "at": "combined", "sum_duplicates": False}},
        ),
        ({"ema": {"decay": 0.9}}, {"ema": {"decay": 0.9, "num_updates": False, "order": "after"}}),
        ({"loss_scale": 8}, {"loss_scale": 8}),
        ({"loss_scale": {}}, {"loss_scale": {"initial": 32768.0, "growth_interval": 2000, "factor": 2.0}}),
        ({"accumulate": {"steps": 2}}, {"accumulate": {"steps": 2, "reduce": "mean"}}),
        (
            {"weight_decay": {"coefficient": 0.1}},
            {"weight_decay": {"coefficient": 0.1, "only": ""}, "regularization": "every_tower"},
        ),
        (
            {"weight_decay": {"coefficient": 0.1}, "regularization": "once"},
            {"weight_decay": {"coefficient": 0.1, "only": ""}, "regularization": "once"},
        ),
    ],
)
def test_tables_are_filled_in(tf, chosen, expected):
    assert tf(_planned, chosen=chosen)["plan"] == {**DEFAULTS, **expected}


@pytest.mark.parametrize(
    ("chosen", "one"),
    [
        ({"accumulate": {"steps": 2}}, "accumulate"),
        ({"loss_scale": 2.0}, "loss_scale"),
        ({"missing": "zeros"}, "missing"),
        ({"sparse": "slices"}, "sparse"),
        ({"clip": {"limit": 1.0, "at": "tower"}}, "clipping in towers"),
        ({"variables": "replicated"}, "replicated variables"),
    ],
)
def test_one_gradient_of_the_mean_loss_excludes_what_is_done_to_each_tower_s(tf, chosen, one):
    refused = tf(_planned, chosen={"reduce": "mean_of_losses", **chosen})["refused"]
    assert refused == f"build: expected {one} or mean_of_losses, got both. Leave one of them out."


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"cut": "halves"}, "build: expected cut to be one of split, slices, feeds, queue, iterator, got 'halves'."),
        (
            {"uneven": "pad", "cut": "feeds"},
            'build: expected uneven shards or cut="feeds", got both. Leave one of them out.',
        ),
        (
            {"ema": {"decay": 0.9, "order": "before"}},
            "build: expected ema.order to be one of after, unordered, got 'before'.",
        ),
        ({"ema": {}}, "build: expected ema to be a dict of decay, num_updates, order, got nothing. Add decay."),
        ({"ema": 0.9}, "build: expected ema to be a dict of decay, num_updates, order, got 0.9. Write a dict."),
        ({"accumulate": {"steps": 0}}, "build: expected accumulate.steps to be at least 1, got 0."),
        ({"loss_scale": 0}, "build: expected loss_scale to be positive, got 0."),
        (
            {"loss_scale": True},
            "build: expected loss_scale to be a dict of initial, growth_interval, factor, got True. Write a dict.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tf, chosen, message):
    assert tf(_planned, chosen=chosen) == {"refused": message}


def _growing(sizes):
    """One graph, batches of several sizes, the last of an epoch being shorter."""

    def tower(x, y):
        w = tf.get_variable("w", [3, 2], x.dtype, tf.ones_initializer())
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - y))

    training = tf_towers.build(tower, small.inputs(None), 2, small.sgd(0.0), "examples", uneven="sizes")
    stepper = small.stepper(training)
    found = {f"{size}": stepper.step(small.batch(size))["grad/w"] for size in sizes}
    stepper.close()
    return dict(
        found,
        **{f"x{size}": small.batch(size)["x"] for size in sizes},
        **{f"y{size}": small.batch(size)["y"] for size in sizes},
    )


def test_a_graph_of_unknown_batch_size_takes_the_short_last_batch_too(tf):
    answer = tf(_growing, sizes=[6, 5])
    for size in (6, 5):
        x, y = answer[f"x{size}"], answer[f"y{size}"]
        np.testing.assert_allclose(answer[f"{size}"], x.T @ (x @ np.ones((3, 2)) - y) / size, rtol=1e-13)
