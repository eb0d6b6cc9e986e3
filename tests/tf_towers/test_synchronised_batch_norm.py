# ruff: noqa: F821 - programs find tf, tf_towers, np and small there
"""Batch norm over all towers: against one tower that normalises the whole batch."""

import numpy as np
import pytest
from support.tiers import few


def _model(layers, total):
    def tower(x, y):
        hidden = tf.reshape(x, [-1, 1, 1, 3])
        for layer in range(layers):
            kernel = tf.get_variable(f"kernel{layer}", [1, 1, 3, 3], x.dtype, tf.random_normal_initializer(seed=layer))
            hidden = tf.tanh(tf.nn.conv2d(hidden, kernel, strides=[1, 1, 1, 1], padding="SAME"))
            hidden = tf_towers.batch_norm(hidden, f"norm{layer}", 0.5)
        out = tf.layers.dense(tf.reshape(hidden, [-1, 3]), 2, kernel_initializer=tf.ones_initializer(), name="out")
        losses = tf.reduce_sum(tf.square(out - y), 1)
        loss = tf.reduce_sum(losses) if total else tf.reduce_mean(losses)
        return loss, {"hidden": hidden, "second": tf.reduce_mean(tf.abs(out))}

    return tower


def _step(towers, size=12, steps=2, dtype="float64", total=False, options=None, order=None, parts=False):
    """Steps of a training: what the last recorded, and the state after."""
    options = dict(options or {}, batch_norm="synchronised" if towers > 1 else "each_tower")
    inputs = small.inputs(size, dtype)
    others = {"out": tf_towers.Part(small.sgd(0.3), "^out", "second")} if parts else {}
    training = tf_towers.build(_model(2, total), inputs, towers, small.sgd(0.1), optimizers=others, **options)
    stepper = small.stepper(training)
    for step in range(steps):
        batch = small.batch(size, step, dtype)
        recorded = stepper.step({name: value[order or slice(None)] for name, value in batch.items()})
    state = stepper.state()
    stepper.close()
    return dict(recorded, **state)


def agree(many, one, rtol=1e-12):
    compared = [name for name in one if name.split("/")[0] in ("grad", "var", "stat")]
    assert len(compared) == 20
    for name in compared:
        assert np.abs(many[name] - one[name]).max() <= rtol * max(np.abs(one[name]).max(), 0.1), name


@pytest.mark.parametrize("towers", few([2, 3, 4], 3))
def test_towers_together_train_as_one_tower_on_the_whole_batch(tf, towers):
    many, one = tf(_step, towers=towers), tf(_step, towers=1)
    agree(many, one)
    hidden = np.concatenate([many[f"act/{index}/hidden"] for index in range(towers)])
    np.testing.assert_allclose(hidden, one["act/0/hidden"], rtol=1e-10, atol=1e-12)
    mean = sum(many[f"tower_grad/{index}/kernel0"] for index in range(towers)) / towers
    np.testing.assert_allclose(mean, many["grad/kernel0"], rtol=1e-12)


CHOICES = {
    "replicated": ({"variables": "replicated"}, {}),
    "balanced, from a queue": ({"variables": "balanced", "cut": "queue"}, {}),
    "mean of losses": ({"reduce": "mean_of_losses"}, {}),
    "prescaled, with a loss scale": ({"reduce": "prescaled", "loss_scale": {"initial": 64.0}}, {}),
    "decay in every tower": ({"share": "reuse_variables"}, {"weight_decay": {"coefficient": 0.1}}),
    "decay in the first tower": (
        {"share": "auto_reuse", "reduce": "sum"},
        {"weight_decay": {"coefficient": 0.1}, "regularization": "first_tower"},
    ),
}


@pytest.mark.parametrize("choice", few(CHOICES, "decay in every tower", "replicated"))
def test_whatever_else_is_chosen_towers_together_are_as_one(tf, choice):
    of_towers, of_both = CHOICES[choice]
    total = of_towers.get("reduce") == "sum"
    many = tf(_step, towers=2, total=total, options={**of_towers, **of_both})
    agree(many, tf(_step, towers=1, total=total, options=of_both))


@pytest.mark.parametrize("size", [7, 2])
def test_every_example_counts_once_in_shards_of_any_size_none_included(tf, size):
    options = {"uneven": "sizes", "reduce": "sum"}
    many, one = tf(_step, towers=3, size=size, total=True, options=options), tf(_step, towers=1, size=size, total=True)
    agree(many, one)


def test_micro_batches_are_normalised_with_those_of_the_other_towers(tf):
    # Micro-batch 0 of both towers together is the first half of the other order.
    order = [0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]
    options = {"accumulate": {"steps": 2}}
    many, one = tf(_step, towers=2, options=options), tf(_step, towers=1, options=options, order=order)
    agree(many, one)


def test_optimizers_with_losses_of_their_own_see_all_towers_too(tf):
    agree(tf(_step, towers=2, parts=True), tf(_step, towers=1, parts=True))


def test_float32_does_the_same_up_to_rounding(tf):
    many, one = (tf(_step, towers=towers, dtype="float32") for towers in (3, 1))
    assert many["var/kernel0"].dtype == np.float32
    agree(many, one, 2e-5)


def _against_own_statistics():
    found = {}
    for batch_norm in ("each_tower", "synchronised"):
        training = tf_towers.build(_model(2, False), small.inputs(8), 2, small.sgd(), batch_norm=batch_norm)
        stepper = small.stepper(training)
        found[batch_norm] = stepper.step(small.batch(8))["grad/kernel0"]
        stepper.close()
    facts = tf_towers.facts(training, "float64", 1)
    updates = [len(tower.updates) for tower in training.towers]
    return dict(found, layers=facts["synchronised"], plan=facts["plan"]["batch_norm"], updates=updates)


def test_the_facts_name_the_layers_and_the_statistics_move_once(tf):
    answer = tf(_against_own_statistics)
    assert answer["layers"] == ["norm0/moments", "norm1/moments"]
    assert answer["plan"] == "synchronised"
    assert answer["updates"] == [4, 0]
    one, other = answer["each_tower"], answer["synchronised"]
    assert np.abs(one - other).max() > 1e-3 * np.abs(one).max()


def _graphs():
    texts, devices = [], []
    for _ in range(2):
        training = tf_towers.build(_model(2, False), small.inputs(8), 2, small.sgd(), batch_norm="synchronised", seed=3)
        texts.append(str(training.graph.as_graph_def()))
        devices = [
            [small.cpu(op.device) for op in training.graph.get_operations() if op.name == name]
            for name in (
                "tower_0/norm1/moments/sent",
                "tower_1/norm1/moments/sent",
                "tower_1/norm1/moments/received",
            )
        ]
    return {"same": texts[0] == texts[1], "devices": devices}


def test_two_builds_make_the_same_graph_each_tower_on_its_device(tf):
    assert tf(_graphs) == {"same": True, "devices": [["/cpu:1"], ["/cpu:2"], ["/cpu:2"]]}


def _ops():
    counts = []
    for towers in (2, 3, 4):
        inputs = small.inputs(12)
        training = tf_towers.build(_model(2, False), inputs, towers, small.sgd(), batch_norm="synchronised")
        counts.append(len(training.graph.get_operations()))
    return {"ops": counts}


def test_each_further_tower_adds_as_many_ops_as_the_one_before(tf):
    two, three, four = tf(_ops)["ops"]
    assert four - three == three - two
