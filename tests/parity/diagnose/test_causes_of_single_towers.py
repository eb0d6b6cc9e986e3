"""A gradient that one tower lacks, an element that one tower gives, and a rank that goes its own way are told apart."""

from dataclasses import replace

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose import find_causes
from parity.diagnose.detectors.aggregation import some_towers
from parity.diagnose.detectors.single_towers import lost_in_some_towers, parted_when_free
from parity.judge import Check

RANDOM = np.random.default_rng(21)
SHAPES = {"kernel": (4, 3), "bias": (3,), "table": (5, 2)}
KINDS = dict.fromkeys(SHAPES, "weight")
TOWERS = [{name: RANDOM.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(2)]


def step(combine=lambda stacked: stacked.mean(axis=0), towers=TOWERS, of=SHAPES, without=()):
    """Losses and gradients of two towers, those of the variables `of` combined by a function, all others by the mean."""
    found = {}
    for tower, gradients in enumerate(towers):
        found[f"loss/{tower}"] = np.array(1.5 - tower)
        found |= {f"tower_grad/{tower}/{name}": value for name, value in gradients.items()}
    for name in SHAPES:
        stacked = np.stack([gradients[name] for gradients in towers])
        found[f"grad/{name}"] = combine(stacked) if name in of else stacked.mean(axis=0)
    return {key: value for key, value in found.items() if key not in without}


def causes(folder, key, one, other, of_candidate=None):
    evidence = evidence_between(folder, one, other, {}, KINDS, facts_of_candidate=of_candidate)
    return [(cause.name, cause.title, cause.evidence) for cause in find_causes(first_at(key), evidence)]


def largest_in_magnitude(stacked):
    return np.where(np.abs(stacked[0]) > np.abs(stacked[1]), stacked[0], stacked[1])


def from_both(stacked):
    """Even places from the first tower, odd ones from the second."""
    return np.where(np.arange(stacked[0].size).reshape(stacked[0].shape) % 2 == 0, stacked[0], stacked[1])


@pytest.mark.parametrize(
    ("combine", "which"),
    [
        (lambda stacked: stacked.max(axis=0), "the largest"),
        (lambda stacked: stacked.min(axis=0), "the smallest"),
        (largest_in_magnitude, "the largest in magnitude"),
        (lambda stacked: stacked.sum(axis=0) - largest_in_magnitude(stacked), "the smallest in magnitude"),
        (lambda stacked: stacked.prod(axis=0), "the product"),
        (lambda stacked: stacked.max(axis=0) / 2, "the largest, divided by 2,"),
        (from_both, "now one, now another"),
    ],
)
def test_what_is_made_of_each_element_is_told(tmp_path, combine, which):
    [(name, title, text)] = causes(tmp_path / "all", "grad/kernel", step(), step(combine))
    assert (name, title) == ("some_towers", f"{which} of the towers' gradients is taken, element by element")
    assert text.startswith(f"the candidate's combined gradient of every variable is in each element {which} of the 2 ")
    [(name, _, text)] = causes(tmp_path / "some", "grad/kernel", step(), step(combine, of=("kernel", "bias")))
    assert name == "some_towers" and "gradient of bias, kernel is in each" in text


def test_what_towers_give_otherwise_is_not_told_by_elements(tmp_path):
    apart = [
        {name: value * (np.arange(value.size).reshape(value.shape) % 2 == tower) for name, value in gradients.items()}
        for tower, gradients in enumerate(TOWERS)
    ]
    for number, (one, other) in enumerate([
        (step(), step(lambda stacked: 0.7 * stacked.max(axis=0))),
        (step(), step(lambda stacked: np.median([*stacked, stacked[0] * stacked[1]], axis=0) + 1e-6)),
        (step(), step(lambda stacked: np.float32(stacked.max(axis=0)).astype(np.float64))),
        # Of rows that no two towers have the sum is in each element one tower's own.
        (step(towers=apart), step(lambda stacked: stacked.sum(axis=0), apart, of=("table", "kernel"))),
        # So is a multiple of what all towers have.
        (step(towers=[TOWERS[0]] * 2), step(lambda stacked: stacked[0] / 2, [TOWERS[0]] * 2)),
        (step(towers=apart), step(lambda stacked: stacked.sum(axis=0) / 4, apart)),
        (step(), step(lambda stacked: stacked[0], of=("table", "bias")) | {"grad/kernel": step()["grad/kernel"] + 1}),
    ]):  # fmt: skip
        found = causes(tmp_path / str(number), "grad/kernel", one, other)
        assert not any("element" in title for _, title, _ in found), number
    # The first tower's alone has a name of its own.
    alone = causes(tmp_path / "alone", "grad/kernel", step(), step(lambda stacked: stacked[0]))
    assert [title for _, title, _ in alone] == ["only the gradient of tower 0 is used"]
    evidence = evidence_between(tmp_path / "own", step(), step(lambda stacked: stacked.max(axis=0)), {}, KINDS)
    assert some_towers(first_at("tower_grad/0/kernel"), evidence) is None
    for off, is_named in ((0.5e-9, True), (2e-9, False)):
        other = step(lambda stacked, off=off: stacked.max(axis=0) * (1 + off))
        assert bool(causes(tmp_path / str(off), "grad/kernel", step(), other)) == is_named


ZERO = {name: value if name == "table" else 0 * value for name, value in TOWERS[1].items()}
LACKS = ("tower_grad/1/kernel", "tower_grad/1/bias")


@pytest.mark.parametrize(
    ("other", "how"),
    [
        (step(towers=[TOWERS[0], ZERO]), "is zero"),
        (step(towers=[TOWERS[0], ZERO], without=LACKS), "is not there"),
        (step(towers=[TOWERS[0], ZERO], without=LACKS[1:]), "is zero or not there"),
    ],
)
def test_gradients_that_one_tower_lacks_are_told_with_the_tower(tmp_path, other, how):
    [(name, title, text)] = causes(tmp_path, LACKS[1], step(), other)
    assert name == "zero_gradient"
    assert title in ("no gradient reaches kernel, bias in tower 1", "no gradient reaches bias, kernel in tower 1")
    assert (
        f"in tower 1 {how} where the reference's is not zero; the other 4 gradients of the towers are the same" in text
    )


def test_gradients_that_all_towers_or_no_others_lack_are_told_otherwise(tmp_path):
    nowhere = [{**gradients, "kernel": 0 * gradients["kernel"]} for gradients in TOWERS]
    found = causes(tmp_path / "nowhere", "tower_grad/0/kernel", step(), step(towers=nowhere))
    assert [title for _, title, _ in found] == ["no gradient reaches kernel"]
    without = [f"tower_grad/1/{name}" for name in SHAPES]
    for number, other in enumerate(
        (step(without=without), step(towers=[TOWERS[0], {k: 0 * TOWERS[1][k] for k in SHAPES}]))
    ):
        found = causes(tmp_path / f"silent {number}", "tower_grad/1/table", step(), other)
        assert [title for _, title, _ in found] == ["only the gradient of tower 0 is used"]
    # Where another one differs as well, that may be why.
    for off, is_named in ((0.5e-9, True), (2e-9, False)):
        other = step(towers=[{**TOWERS[0], "table": TOWERS[0]["table"] * (1 + off)}, ZERO])
        evidence = evidence_between(tmp_path / str(off), step(), other, {}, KINDS)
        assert (lost_in_some_towers(first_at(LACKS[0]), evidence) is not None) == is_named
        assert lost_in_some_towers(first_at("tower_grad/0/table"), evidence) is None
        assert lost_in_some_towers(first_at("grad/kernel"), evidence) is None
    # What all towers together still give is there.
    for number, name in enumerate(("kernel", "bias")):
        other = step(towers=[TOWERS[0], ZERO], without=LACKS) | {f"grad/{name}": step()[f"grad/{name}"]}
        assert causes(tmp_path / f"recorded {number}", LACKS[1], step(), other) == []
    # What is zero but for rounding on one side is not lost on the other.
    for size, is_named in ((2e-8, True), (0.5e-8, False)):
        unit = {name: np.ones(shape) / np.sqrt(np.prod(shape)) for name, shape in SHAPES.items()}
        small = {**unit, "bias": unit["bias"] * size}
        evidence = evidence_between(
            tmp_path / str(size),
            step(towers=[unit, small]),
            step(towers=[unit, {**small, "bias": np.zeros(3)}]),
            {},
            KINDS,
        )
        assert (lost_in_some_towers(first_at(LACKS[1]), evidence) is not None) == is_named


def free(key, number):
    """Returns a first difference of a free run."""
    first = first_at(key, number)
    return replace(first, check=Check("free", number, key, "different", 1.0, 1e-15))


@pytest.mark.parametrize(
    ("key", "number", "facts", "is_named"),
    [
        ("loss/1", 1, {"ranks_agree": False, "steps_where_ranks_differ": [0, 1]}, True),
        ("loss/1", 1, {"ranks_agree": False}, True),
        ("grad/kernel", 1, {"ranks_agree": False, "steps_where_ranks_differ": [0]}, True),
        ("loss/1", 1, {"ranks_agree": True}, False),
        ("loss/1", 1, {}, False),
        ("loss/1", 1, {"ranks_agree": False, "steps_where_ranks_differ": [1]}, False),
        ("loss/0", 1, {"ranks_agree": False}, False),
        ("var/kernel", 0, {"ranks_agree": False}, False),
    ],
)
def test_ranks_that_go_on_from_other_weights_are_told_from_the_second_step_on(tmp_path, key, number, facts, is_named):
    evidence = evidence_between(tmp_path, [step()] * 2, [step()] * 2, [{}, {}], KINDS, facts_of_candidate=facts)
    found = find_causes(free(key, number), evidence)
    assert [cause.name for cause in found] == (["not_shared"] if is_named else [])
    if is_named:
        assert found[0].title == "gradients or updates are not shared with every rank: the first one's are right"
        assert found[0].evidence.endswith(
            f"{key} at step {number} is the first that those of another rank are used for"
        )
        assert (found[0].explains.step, found[0].explains.key) == (number, key)
    assert parted_when_free(first_at(key, number), evidence) is None  # in lockstep each step begins with one state
