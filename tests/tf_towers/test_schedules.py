# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

from parity.worker.process import SideFailed

DECAY = {"schedule": "exponential_decay", "learning_rate": 0.1, "decay_steps": 4, "decay_rate": 0.5}


def _rates(description, steps):
    """Learning rates that a training records, and the moves of a weight whose gradient is 1."""

    def tower(x, y):
        return tf.reduce_sum(tf.get_variable("w", [], x.dtype, tf.zeros_initializer()))

    optimizer = {"name": "sgd", "learning_rate": description}
    training = tf_towers.build(tower, small.inputs(2), 2, lambda: tf_towers.make_optimizer(optimizer))
    stepper = small.stepper(training)
    rates, weights = [], [0.0]
    for _ in range(steps):
        rates.append(stepper.step(small.batch(2))["state/learning_rate"])
        weights.append(float(stepper.state()["var/w"]))
    stepper.close()
    told = tf_towers.hyper_parameters(training.optimizer)["learning_rate"]
    return {"rates": np.array(rates), "moves": -np.diff(weights), "told": told}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (0.25, [0.25] * 4),
        (DECAY, [0.1 * 0.5 ** (step / 4) for step in range(4)]),
        (dict(DECAY, staircase=True, decay_steps=2), [0.1, 0.1, 0.05, 0.05]),
        (dict(DECAY, step_size=4), [0.1, 0.05, 0.025, 0.0125]),
        (dict(DECAY, warm_up_steps=2), [0.0, 0.05 * 0.5**0.25, 0.1 * 0.5**0.5, 0.1 * 0.5**0.75]),
        ({"schedule": "piecewise_constant", "boundaries": [1, 2], "values": [3.0, 2.0, 1.0]}, [3.0, 3.0, 2.0, 1.0]),
        (
            {"schedule": "polynomial_decay", "learning_rate": 1.0, "decay_steps": 2, "end_learning_rate": 0.5},
            [1.0, 0.75, 0.5, 0.5],
        ),
        (
            {"schedule": "cosine_decay", "learning_rate": 1.0, "decay_steps": 2},
            [1.0, 0.5, 0.0, 0.0],
        ),
        (
            {"schedule": "inverse_time_decay", "learning_rate": 1.0, "decay_steps": 1, "decay_rate": 1.0},
            [1, 1 / 2, 1 / 3, 1 / 4],
        ),
        (
            {"schedule": "natural_exp_decay", "learning_rate": 1.0, "decay_steps": 1, "decay_rate": 1.0},
            np.exp(-np.arange(4.0)),
        ),
        ({"schedule": "constant", "learning_rate": 0.5, "warm_up_steps": 2}, [0, 0.25, 0.5, 0.5]),
    ],
)
def test_the_rate_of_a_step_is_that_of_the_step_count_before_it_and_what_the_weights_move_by(tf, description, expected):
    answer = tf(_rates, description=description, steps=4)
    assert answer["rates"].dtype == np.float32
    np.testing.assert_allclose(answer["rates"], expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(answer["moves"], answer["rates"].astype(float), rtol=1e-12, atol=1e-15)
    assert answer["told"] == ("scheduled" if isinstance(description, dict) else 0.25)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"schedule": "step_decay"}, r"expected schedule to be one of constant, cosine_decay, .*, got 'step_decay'\."),
        ({"learning_rate": 0.1}, r"expected schedule to be one of .*, got None\."),
        (
            {"schedule": "cosine_decay", "learning_rate": 0.1, "steps": 3},
            r"expected what tf\.train\.cosine_decay takes, got learning_rate, steps: .* Name its own arguments\.",
        ),
    ],
)
def test_a_schedule_that_cannot_be_made_is_refused(tf, description, message):
    with pytest.raises(SideFailed, match="^TensorFlow side: learning_rate: " + message):
        tf(_rates, description=description, steps=1)
