"""Mixtures of two by a gate or a mask: one of the two is tried throughout, and the two the other way round."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.edit import Near
from parity.diagnose.edits.ops import plain_edits
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.trace import SourceLine

RANDOM = np.random.default_rng(8)
X, Y, W = (RANDOM.normal(size=size) for size in ((6, 4), (6, 4), (4, 4)))
GATE = 1 / (1 + np.exp(-Y))
MASK = np.where(np.arange(6)[:, None] % 2, 1.0, 0.0)
NOTHING = Near(set(), [], [], [], [], frozenset(), False)
WORDS = ("chooses between two by a mask", "weighs two by a gate and by 1 less it")


def mixed(share, one=X @ W, other=Y, rest=None, line=None):
    """A sum of two products, by a share and by what is left of 1."""
    rest = 1 - share if rest is None else rest
    side = passed(
        ("MatMul", [X, W], one),
        ("Mul", [0, share], one * share),
        ("Mul", [rest, other], other * rest),
        ("AddV2", [1, 2], one * share + other * rest),
    )
    ops = [*side.ops]
    ops[3] = ops[3]._replace(line=line)
    return side._replace(ops=ops)


def edits(side, number, near=NOTHING):
    found = plain_edits(RecomputedPass(side), number, near)
    return [each for each in found if each.as_is in WORDS]


@pytest.mark.parametrize(("share", "names"), [(MASK, ["mask"] * 3), (GATE, ["op_left_out"] * 2 + ["gate_halves"])])
def test_one_of_two_is_taken_throughout_or_both_the_other_way_round(share, names):
    found = edits(mixed(share), 3)
    assert [each.name for each in found] == names and {each.as_is for each in found} == {WORDS[share is GATE]}
    assert [each.dropped for each in found] == (["mask", "mask", ""] if share is MASK else ["mul", "mul", ""])
    wanted = X @ W, Y, (X @ W) * (1 - share) + Y * share
    for each, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each.value, value)


def test_two_terms_of_a_loss_that_are_weighed_the_other_way_round_are_another_loss():
    found = edits(mixed(GATE), 3, NOTHING._replace(of_loss=True))
    assert [each.name for each in found if each.changed.endswith("the other way round")] == ["loss_function"]


def test_an_op_that_mixes_by_itself_does_so_too():
    side = passed(("matmul", [X, W], X @ W), ("lerp", [Y, 0, GATE], Y + GATE * (X @ W - Y)))
    found = edits(side, 1)
    assert [each.name for each in found] == ["op_left_out", "op_left_out", "gate_halves"]
    np.testing.assert_allclose(found[2].value, Y * GATE + (X @ W) * (1 - GATE))


@pytest.mark.parametrize(
    ("share", "rest"),
    [
        (GATE, GATE),  # no shares of one
        (2 * GATE, 1 - 2 * GATE),  # beyond 0 and 1
        (np.full((6, 4), 0.25), None),  # a constant factor
        (GATE, 1 - GATE + 1e-9),
    ],
)
def test_other_sums_of_products_are_no_mixtures(share, rest):
    assert edits(mixed(share, rest=rest), 3) == []


def test_a_gate_of_a_step_that_is_made_again_is_the_rule_of_a_cell():
    line = SourceLine("model.py", 7, "call", "h = u * c + (1 - u) * h")
    side = mixed(GATE, line=line)
    following = side.ops[3]._replace(inputs=[3], operands=[])
    last = [each.name for each in edits(side._replace(ops=[*side.ops, following]), 3)][-1]
    assert last == "recurrent_rule"
    elsewhere = following._replace(line=line._replace(line=9))
    assert [each.name for each in edits(side._replace(ops=[*side.ops, elsewhere]), 3)][-1] == "gate_halves"
    beside = following._replace(inputs=[])
    assert [each.name for each in edits(side._replace(ops=[*side.ops, beside]), 3)][-1] == "gate_halves"
    projected = side.ops[0]._replace(inputs=[3], operands=[])
    for weights, name in ((["w"], "recurrent_rule"), (["of another layer"], "gate_halves")):
        ops = [*side.ops, projected._replace(weights=weights), following._replace(inputs=[3, 4])]
        assert [each.name for each in edits(side._replace(ops=ops), 3)][-1] == name
