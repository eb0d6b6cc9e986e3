"""Several bugs in one set of gradients: all of them are read off, and a right set gives none."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.detectors.gradient_model import gradients_at_once, split
from parity.diagnose.fitting import fit_partly

RANDOM = np.random.default_rng(1)
SHAPES = {"first": (8, 6), "second": (6, 5), "bias": (5,)}
WEIGHTS = {name: RANDOM.standard_normal(shape) for name, shape in SHAPES.items()}
TOWERS = ["0", "1", "2"]
STEPS = [0, 1]
GRADIENTS = {(s, t): {n: RANDOM.standard_normal(x) for n, x in SHAPES.items()} for s in STEPS for t in TOWERS}
SILENT = 2  # a unit that is never active: the data leaves its gradient zero
for gradients in GRADIENTS.values():
    gradients["first"][:, SILENT] = 0.0


class Steps:
    """Evidence of gradients alone: the candidate's are ``change(step, tower, name, gradient)``."""

    def __init__(self, change, loss=1.0, decay=0.0, facts=None):
        self.change, self.loss = change, loss
        self.towers, self.close, self.close_losses = len(TOWERS), 1e-9, 1e-9
        self.reference = SimpleNamespace(step_numbers=STEPS, facts=facts or {}, step=lambda step: {})
        self.candidate = SimpleNamespace(facts={}, step=lambda step: {})
        self.decay, self.steps = decay, STEPS

    def tower_names(self, step, quantity):
        return TOWERS

    def before(self, step, quantity, name, slot=""):
        return WEIGHTS[name]

    def pairs(self, step, quantity, slot="", tower=""):
        if quantity == "loss":
            yield "", np.array(1.0), np.array(self.loss)
        if quantity == "feed":
            yield "images", np.zeros((4, 2)), np.zeros((4, 2))
        if quantity in ("tower_grad", "grad"):
            for name in SHAPES:
                ones = {t: GRADIENTS[step, t][name] + self.decay * WEIGHTS[name] for t in TOWERS}
                others = {t: self.change(step, t, name, one) for t, one in ones.items()}
                if quantity == "grad":
                    yield name, sum(ones.values()) / 3, sum(others.values()) / 3
                else:
                    yield name, ones[tower], others[tower]


def named(change, step=0, loss=1.0, facts=None):
    return [cause.name for cause in gradients_at_once(Steps(change, loss, facts=facts), step)]


def test_right_gradients_have_no_cause():
    assert named(lambda s, t, n, g: g) == []


def test_gradients_of_another_loss_follow_no_rule():
    noise = np.random.default_rng(2)
    assert named(lambda s, t, n, g: g + noise.standard_normal(g.shape)) == []


def test_a_tower_that_counts_more_and_a_layer_that_learns_faster():
    def change(step, tower, name, g):
        return g * (1.3 if tower == "2" else 1.0) * (1.01 if name == "first" else 1.0)

    causes = gradients_at_once(Steps(change), 0)
    assert [cause.name for cause in causes] == ["some_towers", "gradient_factor"]
    assert "1, 1, 1.3" in causes[0].evidence
    assert "of first is 1.01 times" in causes[1].evidence


def test_decay_beside_a_tower_left_out():
    def change(step, tower, name, g):
        return 0 * g if tower == "0" else g + (1e-3 * WEIGHTS[name] if g.ndim > 1 else 0)

    causes = gradients_at_once(Steps(change), 0)
    assert [cause.name for cause in causes] == ["some_towers", "weight_decay"]
    assert causes[1].title.startswith("weight decay of 0.001 in the candidate")
    assert "first, second" in causes[1].evidence


def test_a_graph_without_decay_and_a_gradient_cut_off():
    def change(step, tower, name, g):
        moved = g - 1e-3 * WEIGHTS[name]
        limit = 0.4 * np.abs(moved).max()
        return np.clip(moved, -limit, limit)

    causes = gradients_at_once(Steps(change), 0)
    assert [cause.name for cause in causes] == ["clipping", "weight_decay"]
    assert causes[1].title.startswith("weight decay of 0.001 in the reference")


def test_a_tower_left_out_of_gradients_in_half_precision():
    def change(step, tower, name, g):
        return (0 * g if tower == "1" else g).astype(np.float16).astype(np.float64)

    assert named(change) == ["reduced_precision", "some_towers"]


def test_the_step_before_is_still_in_gradients_of_one_tower():
    kept = {}

    def change(step, tower, name, g):
        own = 3.0 * g if tower == "2" else 0.0 * g
        kept[step, tower, name] = own
        return own + (sum(kept[0, each, name] for each in TOWERS) / 3 if step else 0.0)

    evidence = Steps(change)
    assert [cause.name for cause in gradients_at_once(evidence, 0)] == ["some_towers"]
    assert [cause.name for cause in gradients_at_once(evidence, 1)] == ["some_towers", "stale_gradient"]


@pytest.mark.parametrize(
    ("factor", "facts", "name"),
    [
        (4.0, {}, "loss_reduction"),
        (1024.0, {"plan": {"loss_scale": 1024.0}}, "loss_scale"),
        (1024.0, {}, "gradient_factor"),
        (0.5, {}, "gradient_factor"),
    ],
)
def test_a_factor_of_the_loss_beside_decay(factor, facts, name):
    found = named(lambda s, t, n, g: factor * (g + 1e-3 * WEIGHTS[n]), loss=factor, facts=facts)
    assert found == [name, "weight_decay"]


def beyond_decay(factor, decay, facts=None, missing=1.0):
    """A factor of the data's loss alone, in front of a decay that is `missing` times the reference's."""

    def change(step, tower, name, g):
        return factor * (g - decay * WEIGHTS[name]) + missing * decay * WEIGHTS[name]

    return gradients_at_once(Steps(change, 1.5, decay, facts), 0)


@pytest.mark.parametrize("factor", [0.5, 1.01, 128.0])
@pytest.mark.parametrize(
    "facts", [{}, {"plan": {"weight_decay": {"coefficient": 1e-3}, "regularization": "every_tower"}}]
)
def test_a_factor_that_does_not_reach_the_decay_added_behind_it_is_no_decay_beside_it(factor, facts):
    (cause,) = beyond_decay(factor, 1e-3, facts)
    assert cause.name == "gradient_factor"
    assert cause.evidence.split("; ")[-1].startswith("the factor does not reach the decay of 0.001")


def test_a_bias_that_has_no_gradient_but_its_decay_is_not_said_to_have_another_factor(monkeypatch):
    for gradients in GRADIENTS.values():
        monkeypatch.setitem(gradients, "bias", np.zeros(5))

    def change(step, tower, name, g):
        return (1.3 if tower == "2" else 1.0) * (g + 6e-4 * WEIGHTS[name])

    causes = gradients_at_once(Steps(change, decay=1e-3), 0)
    assert [cause.name for cause in causes] == ["some_towers", "weight_decay"]
    assert "first, second, bias" in causes[1].evidence
    # By another amount than the others' it is its own.
    other = Steps(lambda s, t, n, g: 2.0 * g if n == "bias" else g + 6e-4 * WEIGHTS[n], decay=1e-3)
    assert [cause.name for cause in gradients_at_once(other, 0)] == ["gradient_factor", "weight_decay"]


def test_a_variable_that_gets_nothing_but_its_decay_has_no_other_decay():
    def change(step, tower, name, g):
        return 1e-3 * WEIGHTS[name] if name == "second" else g

    causes = gradients_at_once(Steps(change, decay=1e-3), 0)
    assert "weight_decay" not in [cause.name for cause in causes], causes


def test_another_decay_behind_a_factor_that_does_not_reach_it_is_named_beside_it():
    assert [cause.name for cause in beyond_decay(0.5, 1e-3, missing=3.0)] == ["gradient_factor", "weight_decay"]


def test_a_decay_that_a_factor_may_not_reach_is_not_claimed_where_nobody_knows_what_the_reference_decays():
    def change(step, tower, name, g):
        return 0.5 * (g + 1e-3 * WEIGHTS[name]) if name == "second" else 0.5 * g

    (cause,) = gradients_at_once(Steps(change), 0)
    assert cause.evidence.endswith("does not reach a decay of 0.001, or weights decay by 0.001 otherwise")
    # On the other side of 1 no decay of the reference explains it.
    other = Steps(lambda s, t, n, g: 2.0 * (g + 1e-3 * WEIGHTS[n]) if n == "second" else 2.0 * g)
    assert [cause.name for cause in gradients_at_once(other, 0)] == ["gradient_factor", "weight_decay"]


def test_a_layer_cut_off_beside_a_wrong_factor():
    found = named(lambda s, t, n, g: 0.0 * g if n == "first" else g / 3)
    assert found == ["gradient_factor", "zero_gradient"]


def test_what_most_towers_count_is_the_factor_of_all():
    assert split([0.5, 0.5, 0.6], 3, 1e-9) == (0.5, [1.0, 1.0, 1.2])
    assert split([0.5, 0.6], 2, 1e-9) == (0.5, [1.0, 1.2])
    assert split([1.0, 1.2], 2, 1e-9) == (1.0, [1.0, 1.2])
    # Towers left out cannot be told from a factor of the others.
    assert split([0.0, 3.0, 3.0], 3, 1e-9) == (1.0, [0.0, 3.0, 3.0])


def test_elements_at_a_limit_are_left_out_only_where_the_rule_goes_beyond():
    column = np.linspace(-2.0, 2.0, 21)
    found = fit_partly([column], np.clip(3 * column, -4.0, 4.0))
    assert (found.coefficients[0], found.limit) == (pytest.approx(3.0), 4.0)
    short = 3 * column
    short[[10, 11]] = 6.0
    assert fit_partly([column], short) is None


def test_rows_that_are_zero_are_told():
    column = RANDOM.standard_normal((5, 4))
    other = 2 * column
    other[3] = 0.0
    found = fit_partly([column], other)
    assert (found.coefficients[0], found.empty) == (pytest.approx(2.0), (3,))


@pytest.mark.parametrize(("loss", "names"), [(0.7, []), (1.0, ["some_towers"])])
def test_what_other_losses_make_of_every_tower_does_not_count_towers(loss, names):
    shares = {"0": 0.5, "1": 0.8, "2": 0.6}
    assert named(lambda s, t, n, g: shares[t] * g, loss=loss) == names


def test_a_tower_that_is_left_out_is_so_whatever_its_loss():
    assert named(lambda s, t, n, g: 0 * g if t == "0" else 0.7 * g, loss=0.7) == ["some_towers"]
