"""The ops that take a kernel say over which of its axes it is summed, and so its layout, where no numbers can."""

import numpy as np
import pytest

from parity.experiment.mapping.by_graph import in_layout_of_graph, summed
from parity.locate.matching import Pass
from parity.mapping import Variable, draft_mapping
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.standard_normal((4, 4))
ROWS, COLUMNS = np.arange(16).reshape(4, 4) // 4, np.arange(16).reshape(4, 4) % 4


def passed(kind, operands, name="w", **attributes):
    """A pass of one op, which takes these: place, name and array of each."""
    described = tuple(Operand(place, called, None, [*value.shape]) for place, called, value in operands)
    op = ForwardOp("layer", kind, [], [name], [2, 4], attributes, None, described)
    return Pass([op], lambda number: None, lambda number, place: operands[place][2])


def product(kind, left, right, **attributes):
    return passed(kind, [("0", "", left), ("1", "", right)], **attributes)


def groups(labels):
    return {tuple(np.flatnonzero(labels.reshape(-1) == each)) for each in np.unique(labels)}


IMAGE = RANDOM.standard_normal((2, 4))
WINDOW = KERNEL.reshape(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("taken", "over"),
    [
        (product("MatMul", IMAGE, KERNEL), ROWS),
        (product("MatMul", IMAGE, KERNEL, transpose_b=True), COLUMNS),
        (product("MatMul", IMAGE, KERNEL.T), COLUMNS),
        (product("MatMul", KERNEL, IMAGE.T), COLUMNS),
        (product("BatchMatMulV2", KERNEL, IMAGE.T, adj_x=True), ROWS),
        (product("linear", IMAGE, KERNEL), COLUMNS),
        (product("linear without bias", IMAGE, KERNEL), COLUMNS),
        (product("matmul", IMAGE, KERNEL), ROWS),
        (product("matmul", IMAGE, KERNEL.T), COLUMNS),
        (product("__rmatmul__", KERNEL, IMAGE), ROWS),
        (passed("addmm", [("0", "", IMAGE), ("1", "", IMAGE), ("2", "", KERNEL)]), ROWS),
        (product("Einsum", IMAGE, KERNEL, equation="bi,io->bo"), ROWS),
        (passed("einsum", [("1", "", IMAGE), ("2", "", KERNEL)], **{"0": "bi, oi -> bo"}), COLUMNS),
        (product("Conv2D", IMAGE.reshape(2, 1, 1, 4), WINDOW), ROWS),
        (product("conv1d", IMAGE.reshape(2, 4, 1), KERNEL.reshape(4, 4, 1)), COLUMNS),
    ],
)
def test_a_product_says_which_axis_of_a_square_kernel_is_summed_over(taken, over):
    assert groups(summed(taken, "w", KERNEL)) == groups(over)


def test_a_weight_that_was_not_kept_is_known_by_its_name():
    taken = passed("linear", [("0", "", IMAGE), ("1", "w", np.zeros((4, 4)))])
    assert groups(summed(taken, "w", KERNEL)) == groups(COLUMNS)


@pytest.mark.parametrize(
    "taken",
    [
        product("mul", IMAGE, KERNEL),
        product("MatMul", IMAGE, 2.0 * KERNEL),
        product("conv2d", IMAGE.reshape(2, 4, 1, 1), RANDOM.standard_normal((4, 1, 2, 2))),
        Pass([], lambda number: None),
    ],
)
def test_nothing_is_said_of_what_is_no_product_or_takes_the_weight_changed(taken):
    assert summed(taken, "w", KERNEL) is None


def test_a_kernel_that_is_its_own_transpose_or_is_read_both_ways_says_nothing():
    both = Pass(
        [product("MatMul", IMAGE, KERNEL).ops[0], product("MatMul", IMAGE, KERNEL, transpose_b=True).ops[0]],
        lambda number: None,
        lambda number, place: (IMAGE, KERNEL)[place],
    )
    assert summed(both, "w", KERNEL) is None
    assert summed(product("MatMul", IMAGE, np.ones((4, 4))), "w", np.ones((4, 4))) is None


def draft():
    """A square kernel that a graph may take either way, whose module is a Linear."""
    reference = [Variable("gate/Matrix", (4, 4), use="Transpose")]
    return draft_mapping(reference, [Variable("gate.weight", (4, 4), use="Linear")], {})


@pytest.mark.parametrize(("turned", "text"), [(True, "identity"), (False, "transpose")])
def test_the_layout_is_the_one_under_which_both_sides_sum_over_the_same_axis(turned, text):
    ours = product("MatMul", IMAGE, KERNEL.T if turned else KERNEL, name="gate/Matrix")
    theirs = product("linear", 2.0 * IMAGE, KERNEL + 1.0, name="gate.weight")  # behind a bug, from a wrong guess
    found = in_layout_of_graph(draft(), (ours, theirs), ({"gate/Matrix": KERNEL}, {"gate.weight": KERNEL + 1.0}))
    assert [(guess.text, [each for _, each in guess.options]) for guess in found.guesses] == [(text, [text])]


def test_where_one_side_says_nothing_every_layout_stays():
    ours, theirs = product("MatMul", IMAGE, KERNEL, name="gate/Matrix"), Pass([], lambda number: None)
    values = {"gate/Matrix": KERNEL}, {"gate.weight": KERNEL}
    assert in_layout_of_graph(draft(), (ours, theirs), values) == draft()
