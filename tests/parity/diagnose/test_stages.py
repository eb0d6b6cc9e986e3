"""The rule of a stage, read off the reference, makes of the candidate's inputs what the reference would make of them."""

import numpy as np
import pytest
from support.made_steps import evidence_between
from support.made_updates import (
    FACTS,
    KINDS,
    SHAPES,
    SLOTS,
    adagrad,
    adam,
    before,
    descent,
    made,
    momentum,
    rmsprop,
    times,
)

from parity.diagnose.detectors.stages import OwnInputs, rule_of

RANDOM = np.random.default_rng(6)


def evidence_of(folder, rule, **settings):
    """An optimizer on two sides by the same rule, of which the candidate's works with other gradients."""
    one, other = made(rule, rule, **settings), made(rule, rule, given=times(-1.5), **settings)
    for step in other:
        step |= {key: -1.5 * value for key, value in step.items() if key.startswith("grad/")}
    facts = {"optimizer": {**FACTS[rule], **settings}}
    return evidence_between(folder, one, other, before(rule), KINDS, facts)


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        (descent, {}),
        (momentum, {}),
        (momentum, {"nesterov": True}),
        (momentum, {"keep": 0.5, "take": 0.5}),
        (adam, {}),
        (rmsprop, {}),
        (rmsprop, {"keep": 0.0, "epsilon": 0.0}),
        (adagrad, {}),
    ],
)
def test_slots_and_weights_are_made_of_the_candidates_own_gradients(tmp_path, rule, settings):
    evidence = evidence_of(tmp_path, rule, **settings)
    for quantity, slot in [("var", ""), *(("slot", slot) for slot in SLOTS[rule])]:
        made_by = rule_of(evidence, 0, quantity, slot)
        for name, one, other in evidence.pairs(0, quantity, slot):
            assert np.abs(one - other).max() > 1e-6
            np.testing.assert_allclose(made_by(name), other, rtol=1e-9, atol=1e-12)
        assert made_by("no such variable") is None


def test_own_inputs_put_what_the_rule_makes_in_the_references_place(tmp_path):
    evidence = evidence_of(tmp_path, momentum)
    for stage in ("slot", "var"):
        own = OwnInputs(evidence.join, evidence.reference, evidence.candidate, evidence.states, 2, stage)
        slot = "momentum" if stage == "slot" else ""
        for _, one, other in own.pairs(0, stage, slot):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        for _, one, other in own.pairs(0, "grad"):
            np.testing.assert_array_equal(one, other)
        assert all((one == other).all() for one, other in own.applied(0).values())
    early = OwnInputs(evidence.join, evidence.reference, evidence.candidate, evidence.states, 2, "clip")
    assert all((one != other).all() for one, other in early.applied(0).values())
    assert all((one != other).all() for _, one, other in early.pairs(0, "slot", "momentum"))


@pytest.mark.parametrize("rule", [momentum, adam, rmsprop, adagrad, descent])
def test_a_move_that_follows_no_rule_has_none(tmp_path, rule):
    one = made(rule, rule, noise=1e-4)
    evidence = evidence_between(tmp_path, one, made(rule, rule), before(rule), KINDS, {"optimizer": FACTS[rule]})
    assert rule_of(evidence, 0, "var") is None


def steps_of(**tensors):
    """One step with these quantities of two variables."""
    return {f"{quantity}/{name}": value for quantity, own in tensors.items() for name, value in own.items()}


def drawn(size=1.0):
    return {name: size * RANDOM.normal(size=SHAPES[name]) for name in ("kernel", "table")}


def made_of(folder, quantity, one, other, states=None):
    evidence = evidence_between(folder, one, other, states or {}, dict.fromkeys(SHAPES, "weight"))
    return rule_of(evidence, 0, quantity)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (1.0, 1.0), (0.25, 0.75), (1.0, 0.0)])
def test_combined_gradients_are_those_of_the_candidates_towers_weighted_as_the_references(tmp_path, weights):
    sides = []
    for _ in range(2):
        towers = [drawn(), drawn()]
        combined = {name: weights[0] * towers[0][name] + weights[1] * towers[1][name] for name in towers[0]}
        sides.append(steps_of(**{"tower_grad/0": towers[0], "tower_grad/1": towers[1], "grad": combined}))
    made_by = made_of(tmp_path / "right", "grad", *sides)
    for name in ("kernel", "table"):
        np.testing.assert_allclose(made_by(name), sides[1][f"grad/{name}"], rtol=1e-12, atol=1e-14)
    assert made_by("bias") is None
    for off, is_told in ((0.5e-6, True), (3e-6, False)):
        sides[0]["grad/table"] = sides[0]["grad/table"] + off * RANDOM.normal(size=SHAPES["table"])
        assert (made_of(tmp_path / str(off), "grad", *sides) is not None) == is_told


def clipped(gradients, by, limit):
    sizes = {name: np.linalg.norm(value) for name, value in gradients.items()}
    if by == "value":
        return {name: np.clip(value, -limit, limit) for name, value in gradients.items()}
    if by == "global norm":
        sizes = dict.fromkeys(sizes, np.sqrt(sum(size**2 for size in sizes.values())))
    return {name: value * min(1.0, limit / max(sizes[name], 1e-30)) for name, value in gradients.items()}


@pytest.mark.parametrize(("by", "limit"), [("global norm", 2.0), ("norm", 1.0), ("value", 0.5)])
@pytest.mark.parametrize("size", [1.0, 0.01, 0.0])
def test_clipped_gradients_are_the_candidates_to_the_references_limit(tmp_path, by, limit, size):
    one, other = drawn(), drawn(size)
    sides = [steps_of(grad=each, clip=clipped(each, by, limit)) for each in (one, other)]
    made_by = made_of(tmp_path, "clip", *sides)
    for name in ("kernel", "table"):
        np.testing.assert_allclose(made_by(name), sides[1][f"clip/{name}"], rtol=1e-9, atol=1e-14)
    assert made_by("bias") is None


def test_gradients_that_are_clipped_by_no_rule_have_none(tmp_path):
    one = drawn()
    sides = [steps_of(grad=one, clip=drawn()), steps_of(grad=one, clip=one)]
    assert made_of(tmp_path, "clip", *sides) is None


def test_averages_move_towards_the_candidates_own_weights(tmp_path):
    start, old, sides = drawn(), drawn(), []
    for _ in range(2):
        weights = {name: old[name] + 0.1 * value for name, value in drawn().items()}
        averages = {name: 0.9 * start[name] + 0.1 * weights[name] for name in start}
        sides.append(steps_of(var=weights, ema=averages))
    states = steps_of(var=old, ema=start)
    made_by = made_of(tmp_path / "right", "ema", *sides, states)
    for name in ("kernel", "table"):
        np.testing.assert_allclose(made_by(name), sides[1][f"ema/{name}"], rtol=1e-9)
    assert made_by("bias") is None
    sides[0]["ema/table"] = sides[0]["ema/table"] + 1e-6 * RANDOM.normal(size=SHAPES["table"])
    assert made_of(tmp_path / "wrong", "ema", *sides, states) is None


def test_a_quantity_that_is_no_stage_has_no_rule(tmp_path):
    assert made_of(tmp_path, "act", steps_of(grad=drawn()), steps_of(grad=drawn())) is None
