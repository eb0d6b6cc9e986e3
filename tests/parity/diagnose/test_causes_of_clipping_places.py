"""Gradients that are clipped in every rank and those that are clipped once combined are told from what towers count by."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose import find_causes
from parity.diagnose.detectors.clipping_place import Place, are_distinct, place_of

RANDOM = np.random.default_rng(7)
SHAPES = {"kernel": (4, 3), "bias": (3,)}
KINDS = dict.fromkeys(SHAPES, "weight")
TOWERS = [{name: size * RANDOM.normal(size=shape) for name, shape in SHAPES.items()} for size in (1.0, 2.0)]
MEAN = {name: (TOWERS[0][name] + TOWERS[1][name]) / 2 for name in SHAPES}


def length(gradients):
    return np.sqrt(sum((value**2).sum() for value in gradients.values()))


def clipped(gradients, limit, added=0.0):
    scale = min(1.0, limit / (length(gradients) + added))
    return {name: scale * value for name, value in gradients.items()}


def in_every_rank(limit, added=0.0):
    one, other = (clipped(each, limit, added) for each in TOWERS)
    return {name: (one[name] + other[name]) / 2 for name in SHAPES}


def step(applied, quantity="grad"):
    own = {f"tower_grad/{tower}/{name}": value for tower, each in enumerate(TOWERS) for name, value in each.items()}
    return own | {f"{quantity}/{name}": value for name, value in applied.items()}


def causes(folder, quantity, one, other):
    evidence = evidence_between(folder, step(one, quantity), step(other, quantity), {}, KINDS)
    return [(cause.name, cause.title) for cause in find_causes(first_at(f"{quantity}/kernel"), evidence)]


LOW = 0.5 * min(length(each) for each in (*TOWERS, MEAN))  # beyond which all of them are


@pytest.mark.parametrize("added", [0.0, 1e-6])
@pytest.mark.parametrize("quantity", ["grad", "clip"])
def test_clipping_at_the_other_place_is_told_both_ways(tmp_path, quantity, added):
    combined, every = clipped(MEAN, LOW, added), in_every_rank(LOW, added)
    title = "of the gradients the candidate clips {}, the reference {}"
    for number, (one, other, names) in enumerate([
        (combined, every, ("each rank's own", "the combined ones")),
        (every, combined, ("the combined ones", "each rank's own")),
        (MEAN, every, ("each rank's own", "no rank's own" if quantity == "grad" else "none of them")),
    ]):  # fmt: skip
        assert causes(tmp_path / str(number), quantity, one, other)[:1] == [("clipping", title.format(*names))]
        assert all(name != "some_towers" for name, _ in causes(tmp_path / f"{number}b", quantity, one, other))


def test_shares_of_towers_that_no_one_limit_gives_are_not_told(tmp_path):
    for number, (one, other) in enumerate([
        (MEAN, {name: 0.3 * TOWERS[0][name] + 0.1 * TOWERS[1][name] for name in SHAPES}),
        (in_every_rank(LOW), {name: 0.4 * value for name, value in MEAN.items()}),  # a factor that is no limit's
        (in_every_rank(LOW), in_every_rank(0.9 * LOW)),
        (clipped(MEAN, LOW), in_every_rank(0.9 * LOW)),
        # One rank alone is beyond the limit: any factor of it would be so.
        (MEAN, in_every_rank(1.01 * length(TOWERS[0]))),
    ]):  # fmt: skip
        assert not any("each rank's own" in title for _, title in causes(tmp_path / str(number), "grad", one, other)), (
            number
        )


def test_limits_agree_but_for_rounding_of_float32():
    for off, agree in ((0.9e-6, True), (1.1e-6, False)):
        assert are_distinct(Place(False, (5.0, 0.3), 1), Place(True, (0.3 * (1 + off),), 2)) == agree
    assert not are_distinct(Place(True, (0.3,), 2), Place(True, (0.3,), 2))
    assert are_distinct(Place(True, (0.3,), 2), Place(None))
    assert not are_distinct(Place(True, (0.3,), 1), Place(None))
    assert not are_distinct(Place(False, (0.3,), 1), Place(None))


@pytest.mark.parametrize(
    ("shares", "place"),
    [
        ([1.0, 1.0 + 0.9e-8], Place(None)),
        ([0.5, 0.25], Place(True, (1.0,), 2)),
        ([0.5, 0.25 * (1 + 0.9e-8)], Place(True, (1.0,), 2)),
        ([0.5, 0.25 * (1 + 1.1e-8)], None),
        ([1.0, 0.25], None),  # the first is beyond the limit too
        ([1.0, 0.75], Place(True, (3.0,), 1)),
        ([0.5, 0.5], Place(False, (1.5,), 1)),
        ([0.5, 1.5], None),
        ([0.5, 0.0], None),
        ([-0.5, 0.25], None),
    ],
)
def test_where_towers_were_clipped_is_told_by_one_limit(shares, place):
    found = place_of(shares, [2.0, 4.0], 3.0)
    assert found == place or (
        found
        and place
        and (found.each, found.cut) == (place.each, place.cut)
        and found.limits[0] == pytest.approx(place.limits[0])
    )
