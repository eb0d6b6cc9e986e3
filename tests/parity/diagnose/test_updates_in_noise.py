"""Several bugs of one update are read off beside rounding, and faint noise on an update is none of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.detectors.updates.model import updates_at_once

SHAPES = {"a": (8, 6), "b": (6,), "c": (6, 4), "d": (4,)}
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
POWERS = {"beta1_power": 0.9**3, "beta2_power": 0.999**3}
RATE = 0.01


class Update:
    """Evidence of one step of Adam: `change(key, value)` is what the candidate has."""

    is_whole = True  # one optimizer trains everything

    def __init__(self, seed, change=lambda key, value: value, decay=0.0, epsilon=ADAM["epsilon"]):
        random = np.random.default_rng(seed)
        self.start, self.one, self.other = {}, {}, {}
        self.reference = SimpleNamespace(step_numbers=[0], facts={})
        self.optimizers = (ADAM, ADAM)
        for name, shape in SHAPES.items():
            gradient, m, weight = (random.standard_normal(shape) for _ in range(3))
            v = random.random(shape)
            self.start.update({f"slot/m/{name}": m, f"slot/v/{name}": v, f"var/{name}": weight})
            for side, added, own in ((self.one, 0.0, ADAM["epsilon"]), (self.other, decay, epsilon)):
                used = gradient + added * weight
                new_m, new_v = 0.9 * m + 0.1 * used, 0.999 * v + 0.001 * used**2
                rate = RATE * np.sqrt(1 - POWERS["beta2_power"]) / (1 - POWERS["beta1_power"])
                moved = weight - rate * new_m / (np.sqrt(new_v) + own)
                made = {f"slot/m/{name}": new_m, f"slot/v/{name}": new_v, f"var/{name}": moved}
                side.update({f"grad/{name}": gradient, **made})
        self.other = {key: change(key, value) for key, value in self.other.items()}

    def pairs(self, step, quantity, slot="", tower=""):
        for name in SHAPES:
            key = f"{quantity}/{slot}/{name}" if slot else f"{quantity}/{name}"
            yield name, self.one[key], self.other[key]

    def applied(self, step):
        return {name: (one, other) for name, one, other in self.pairs(step, "grad")}

    def slots(self, step):
        return ["m", "v"]

    def before(self, step, quantity, name, slot=""):
        return self.start[f"{quantity}/{slot}/{name}" if slot else f"{quantity}/{name}"]

    def once(self, what, make):
        return make()

    def counter(self, step, name):
        return POWERS[name]

    def learning_rate(self, step):
        return RATE


def named(*arguments, **options):
    return [cause.name for cause in updates_at_once(Update(*arguments, **options), 0)]


def noisy(seed, size):
    """Noise on the slots."""
    random = np.random.default_rng(1000 + seed)
    return lambda key, value: value * (1 + size * random.standard_normal(value.shape)) if key[:4] == "slot" else value


@pytest.mark.parametrize("size", [1e-9, 3e-8, 5e-8, 1e-7, 2e-7])
def test_faint_noise_on_slots_is_no_bug_of_the_update(size):
    assert [named(seed, noisy(seed, size)) for seed in range(60)] == [[]] * 60


def test_a_right_update_has_no_cause():
    assert named(0) == []


@pytest.mark.parametrize("decay", [1e-5, 1e-2])
def test_decay_in_the_optimizer_is_named_however_small(decay):
    assert named(0, decay=decay) == ["weight_decay"]


def test_another_epsilon_is_named_beside_decay():
    assert named(0, epsilon=1.02e-8) == ["adam_epsilon"]
    assert named(0, decay=1e-2, epsilon=2e-8) == ["weight_decay", "adam_epsilon"]
