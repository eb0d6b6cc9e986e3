# ruff: noqa: F821 - programs find tf, tf_towers, np and small there
"""What a built graph tells of its own hazards; what goes right says nothing."""

import pytest

NOTHING = {
    "racing_counters": [],
    "trainable_counters": [],
    "step_counted": 1,
    "gradients_in_towers": {},
    "random_ops": [],
}


def _of(training):
    facts = tf_towers.facts(training, "float64", 1)
    names = ("racing_counters", "trainable_counters", "step_counted", "statistics_written", "gradients_in_towers")
    return {name: facts[name] for name in (*names, "random_ops")}


def _normed(x, y):
    return small.linear(tf.reshape(tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm"), [-1, 3]), y)


def _without(kind, resource, options):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return _normed(x, y)

    rate = {"schedule": "exponential_decay", "learning_rate": 0.1, "decay_steps": 2, "decay_rate": 0.5}
    described = dict({"name": kind, "learning_rate": rate}, **({"momentum": 0.9} if kind == "momentum" else {}))
    return _of(tf_towers.build(tower, small.inputs(8), 2, lambda: tf_towers.make_optimizer(described), **options))


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("adam", {}),
        ("adam", {"loss_scale": {"initial": 8.0}, "ema": {"decay": 0.9, "num_updates": True}}),
        ("momentum", {"accumulate": {"steps": 2}, "variables": "replicated"}),
        ("rmsprop", {"clip": {"limit": 1.0}, "update_ops": "grouped", "batch_norm": "synchronised"}),
    ],
)
def test_what_the_builder_itself_makes_has_none_of_them(tf, kind, options, resource):
    answer = tf(_without, kind=kind, resource=resource, options=options)
    steps = 2 if "accumulate" in options else 1
    assert answer == {
        **NOTHING,
        "statistics_written": dict.fromkeys(["norm/moving_mean", "norm/moving_variance"], steps),
    }


def _by_hand(gated, counts):
    class ByHand(tf.train.Optimizer):
        """Keeps a counter that its updates read; by mistake it is trainable."""

        def __init__(self):
            super(ByHand, self).__init__(False, "by_hand")  # noqa: UP008
            self.t = tf.Variable(np.float64(1.0), "adam_t")

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            moves = [tf.assign_sub(var, 1.0 / self.t * tf.ones_like(grad)) for grad, var in grads_and_vars]
            with tf.control_dependencies(moves if gated else []):
                counted = tf.assign_add(self.t, 1.0)
            steps = [tf.assign_add(global_step, 1) for _ in range(counts)]
            return tf.group(counted, *(moves + steps))

    return _of(tf_towers.build(small.linear, small.inputs(4), 2, ByHand))


def test_a_counter_that_is_counted_beside_its_readers_races_and_one_behind_them_does_not(tf):
    racing, gated = (tf(_by_hand, gated=gated, counts=1) for gated in (False, True))
    assert racing == {
        **NOTHING,
        "racing_counters": ["Variable"],
        "trainable_counters": ["Variable"],
        "statistics_written": {},
    }
    assert gated == {**racing, "racing_counters": []}


@pytest.mark.parametrize("counts", [0, 2])
def test_a_step_count_that_stands_still_or_runs_ahead_is_told(tf, counts):
    assert tf(_by_hand, gated=True, counts=counts)["step_counted"] == counts


def _in_place():
    def tower(x, y):
        mean = tf.get_variable("mean", [3], x.dtype, tf.zeros_initializer(), trainable=False)
        tf.get_variable("never", [3], x.dtype, tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([tf.assign_sub(mean, (mean - tf.reduce_mean(x, 0)) * 0.5)]):
            x = tf.identity(x)
        return small.linear(x, y)

    return _of(tf_towers.build(tower, small.inputs(6), 3, small.sgd()))


def test_statistics_that_every_tower_moves_in_place_or_none_moves_are_counted(tf):
    assert tf(_in_place)["statistics_written"] == {"mean": 3, "never": 0}


def _odd_tower_out():
    def tower(x, y):
        extra = tf.get_variable("extra", [2], x.dtype, tf.ones_initializer())
        loss = small.linear(x, y)
        tower.calls += 1
        return loss + tf.reduce_sum(extra) if tower.calls == 2 else loss

    tower.calls = 0
    return _of(tf_towers.build(tower, small.inputs(6), 3, small.sgd(), missing="present"))


def test_gradients_that_some_towers_lack_are_told_with_the_towers_that_have_them(tf):
    assert tf(_odd_tower_out)["gradients_in_towers"] == {"extra": ["1"]}


def _drawing():
    def tower(x, y):
        return small.linear(tf.nn.dropout(x, rate=0.5), y)

    return _of(tf_towers.build(tower, small.inputs(6), 2, small.sgd()))


def test_draws_are_told_by_their_names_in_the_first_tower(tf):
    (drawn,) = tf(_drawing)["random_ops"]
    assert drawn.startswith("tower_0/dropout/") and drawn.endswith("RandomUniform")
