# ruff: noqa: F821 - programs find tf, np, tf_towers and small there
"""Checkpoints of a training with several optimizers: written from a trace's names, they are what a Saver saves."""


def _written(path):
    from tf_towers.checkpoint import checkpoint_of, start_from_checkpoint

    def adam(rate):
        return lambda: tf_towers.make_optimizer({"name": "adam", "learning_rate": rate})

    others = {"bias": tf_towers.Part(adam(0.2), "^b$", None)}
    training = tf_towers.build(small.linear, small.inputs(4), 2, adam(0.1), optimizers=others, ema={"decay": 0.5})
    session = tf_towers.session(training.graph, 2)
    stepper = tf_towers.Stepper(training, session)
    stepper.initialize()
    stepper.step(small.batch(4))
    state, variables = stepper.state(), tf_towers.describe_variables(training)
    with training.graph.as_default():
        saved = tf.train.Saver(training.saved).save(session, path)
    stepper.initialize()
    content = checkpoint_of(dict(state, **{"section/bias/state/learning_rate": np.float32(0.2)}), variables)
    started, missing = start_from_checkpoint(saved, stepper.state(), variables)
    stepper.close()
    found = tf_towers.read_checkpoint(saved)
    return {
        "left_out": content.left_out,
        "names": sorted(content.arrays) == sorted(found),
        "equal": all(np.array_equal(content.arrays[name], found[name]) for name in found),
        "missing": missing,
        "again": all(np.array_equal(started[name], state[name]) for name in state) and len(started) == len(state),
        "of the part": sorted(name for name in state if name.startswith("section/")),
        "hanging": sorted(name for name in variables["b"]["saved_as"]),
    }


def test_slots_and_counters_of_every_optimizer_go_into_a_checkpoint_and_come_out_of_it(tf, tmp_path):
    answer = tf(_written, path=str(tmp_path / "model.ckpt"))
    of_the_part = [
        "section/bias/slot/m/b",
        "section/bias/slot/v/b",
        "section/bias/state/beta1_power",
        "section/bias/state/beta2_power",
    ]
    assert answer == {
        "left_out": [],
        "names": True,
        "equal": True,
        "missing": [],
        "again": True,
        "of the part": of_the_part,
        "hanging": ["ema", "section/bias/slot/m", "section/bias/slot/v", *of_the_part[2:]],
    }
