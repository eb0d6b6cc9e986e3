"""Several bugs of one update are named together: what the optimizer was given, its slots, its rate, epsilon and decay."""

import numpy as np
import pytest
from support.made_steps import evidence_between
from support.made_updates import FACTS, KINDS, adam, before, made, momentum, of_norm, times, to_value

from parity.diagnose.detectors.updates.model import updates_at_once

RATES = {momentum: 0.1, adam: 0.01}


def causes(folder, rule, of_reference=None, of_candidate=None, only=None, given=None, **settings):
    """Title and evidence of all that is wrong with the first step of a candidate."""
    facts = {"optimizer": {**FACTS[rule], "learning_rate": RATES[rule], **(of_reference or {})}}
    theirs = {"optimizer": of_candidate} if of_candidate else None
    one, other = made(rule, rule), made(rule, rule, only=only, given=given, **settings)
    evidence = evidence_between(folder, one, other, before(rule), KINDS, facts, facts_of_candidate=theirs)
    return [(cause.name, f"{cause.title}: {cause.evidence}") for cause in updates_at_once(evidence, 0)]


def assert_says(found, *expected):
    """Whether these causes are named, and no others, each with these words."""
    assert [name for name, _ in found] == [name for name, *_ in expected], found
    for (_, text), (_, *words) in zip(found, expected, strict=True):
        for each in words:
            assert each in text


SLOT = (
    "momentum",
    "momentum is 0.5 where the reference has 0.9",
    "slot momentum of every variable keeps 0.5 of itself",
)
RATE = ("learning_rate", "off by the factor 2: ", "update of 3 of 3 variables goes 2 times as far")
DECAY = (
    "weight_decay",
    "weight decay of 0.05 in the candidate",
    "the update is off by 0.05 times the learning rate and",
)
PENALTY = ("weight_decay", "weight decay of 0.05 in the", "the optimizer works with is off by 0.05 times the weight")
FACTOR = ("gradient_factor", "off by the factor 3: ", "works with 3 times the gradient")
SIGN = ("sign", "the update goes uphill", "works with -1 times the gradient")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"keep": 0.5, "lr": 0.2}, [SLOT, RATE]),
        ({"keep": 0.5, "lr": 0.2, "decoupled": 0.05}, [SLOT, RATE, ("weight_decay", "weight decay of 0.1 in the")]),
        ({"keep": 0.5, "given": times(3.0)}, [SLOT, FACTOR]),
        ({"given": times(-1.0), "lr": 0.2}, [SIGN, RATE]),
        (
            {"given": times(-3.0)},
            [("sign", "works with -3 times"), ("gradient_factor", "off by the factor 3: ", "works with -3 times")],
        ),
        (
            {"take": 0.1, "lr": 0.2},
            [("momentum", "the gradient enters the slot 0.1 times", "works with 0.1 times"), RATE],
        ),
        ({"given": times(0.3), "lr": 0.2}, [("gradient_factor", "off by the factor 0.3: "), RATE]),
        (
            {"given": of_norm(0.25), "keep": 0.5},
            [SLOT, ("clipping", "clipping by global norm does", "norm is then 0.25")],
        ),
        (
            {"given": of_norm(10.0), "keep": 0.5},
            [SLOT, ("clipping", "scaled to 12.27 of", "their global norm is then 10")],
        ),
        (
            {"given": to_value(0.1), "lr": 0.2},
            [("clipping", "by value to 0.1: ", "largest elements of 2 of 3 variables' gradients"), RATE],
        ),
        ({"given": to_value(0.1, 0.05), "lr": 0.2}, [("clipping", "by value to 0.05 or more: "), RATE]),
        ({"decay": 0.05, "lr": 0.2}, [PENALTY, RATE]),
        ({"decay": 0.05, "keep": 0.5}, [SLOT, PENALTY]),
        ({"decay": 0.05, "given": times(3.0), "take": 1.0}, [FACTOR, ("weight_decay", "weight decay of 0.01667 in")]),
        ({"nesterov": True}, [("nesterov", "in the candidate only", "0.1 times the gradient and 0.09 times the slot")]),
        ({"nesterov": True, "lr": 0.2}, [("nesterov", "0.2 times the gradient"), RATE]),
        ({"nesterov": True, "keep": 0.5}, [SLOT, ("nesterov", "0.05 times the slot momentum")]),
        ({"nesterov": True, "decoupled": 0.05}, [("nesterov",), DECAY]),
        ({"decoupled": 0.05}, [DECAY]),
        (
            {"keep": 0.0},
            [
                (
                    "slot_reset",
                    "the slot momentum is forgotten in every step",
                    "slot momentum of every variable keeps nothing of itself",
                )
            ],
        ),
        ({"lr": 0.2, "only": ["bias"]}, [("learning_rate", "factor 2 for bias: ", "1 of 3 variables goes 2 times")]),
        (
            {"decoupled": 0.05, "only": ["table"]},
            [("weight_decay", "weight decay of 0.05", "in table, fitted together")],
        ),
        ({"lr": 0.1 * (1 + 0.9e-5)}, []),
        ({"lr": 0.1 * (1 + 1.1e-5)}, [("learning_rate",)]),
        ({"keep": 0.9 + 0.9e-6}, []),
        ({"keep": 0.9 + 1.1e-6}, [("momentum",)]),
        ({"given": times(1.0 + 0.9e-6)}, []),
        ({"given": times(1.0 + 1.2e-6)}, [("gradient_factor",)]),
    ],
)
def test_what_is_wrong_with_a_momentum_is_named_together(tmp_path, settings, expected):
    assert_says(causes(tmp_path, momentum, **settings), *expected)


def corrected(beta2=0.999):
    return float(np.sqrt(1 - beta2**3) / (1 - 0.9**3))


BETA = ("adam_beta", "beta1 is 0.5 where the reference has 0.9", "slot m of every variable keeps 0.5")
RATE_OF_TWO = (*RATE[:2], "update of 2 of 2 variables")  # with a decay the bias has too few elements
UNCORRECTED = ("bias_correction", "Adam without bias correction", "gives the update of most of")
EPSILON = ("adam_epsilon", "Adam's epsilon is 0.001 where the reference has 0.0001", "with 0.001 beside it")
PLACE = ("adam_epsilon_placement", "Adam's epsilon inside the bias correction", "linear in the root of v")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"lr": 0.02, "epsilon": 1e-3}, [RATE, EPSILON]),
        ({"lr": 0.02, "of_torch": True}, [RATE, PLACE]),
        ({"corrected": False, "decoupled": 0.05}, [UNCORRECTED, DECAY]),
        ({"corrected": False, "epsilon": 1e-3}, [UNCORRECTED, EPSILON]),
        ({"lr": 0.02, "decoupled": 0.05}, [RATE_OF_TWO, ("weight_decay", "weight decay of 0.1 in the candidate")]),
        ({"lr": 0.02, "given": times(3.0)}, [FACTOR, RATE]),
        ({"lr": 0.02, "given": times(-1.0)}, [SIGN, RATE]),
        ({"given": of_norm(0.25), "epsilon": 1e-3}, [("clipping", "norm is then 0.25"), EPSILON]),
        ({"given": to_value(0.1), "epsilon": 1e-3}, [("clipping", "by value to 0.1: "), EPSILON]),
        ({"beta1": 0.5, "epsilon": 1e-3}, [BETA, EPSILON]),
        ({"lr": 0.01 / corrected()}, [UNCORRECTED]),
        ({"lr": 0.01 / corrected(0.99), "beta2": 0.99}, []),
        ({"lr": 0.02, "only": ["bias"]}, [("learning_rate", "factor 2 for bias: ")]),
        ({"epsilon": 1e-4 * (1 + 1.1e-3)}, [("adam_epsilon",)]),
        ({"epsilon": 1e-4 * (1 + 0.9e-3)}, []),
        ({"epsilon": 1e-3, "only": ["bias"]}, []),
    ],
)
def test_what_is_wrong_with_an_adam_is_named_together(tmp_path, settings, expected):
    assert_says(causes(tmp_path, adam, **settings), *expected)


def test_a_reference_that_looks_ahead_itself_says_nothing_of_its_moves(tmp_path):
    for name in ("use_nesterov", "nesterov"):
        settings = {"of_reference": {name: True}, "lr": 0.2, "keep": 0.5}
        assert_says(causes(tmp_path / name, momentum, **settings), SLOT)


def test_without_a_rate_or_an_epsilon_nothing_is_said_of_moves(tmp_path):
    assert_says(causes(tmp_path / "rate", momentum, {"learning_rate": 0.0}, lr=0.2, keep=0.5), SLOT)
    assert_says(causes(tmp_path / "adam", adam, {"learning_rate": 0.0}, lr=0.02, beta1=0.5), BETA)
    assert_says(causes(tmp_path / "epsilon", adam, {"epsilon": None}, lr=0.02, beta1=0.5), BETA)


def test_the_dampening_that_a_port_names_is_told_from_a_factor(tmp_path):
    said = {"dampening": 0.25}
    expected = ("momentum", "the gradient enters the slot 0.75 times")
    assert_says(causes(tmp_path / "one", momentum, of_candidate=said, take=0.75, lr=0.2), expected, RATE)
    (first, *_) = causes(tmp_path / "two", momentum, of_candidate=said, take=0.1, lr=0.2)
    assert first[0] == "gradient_factor"
