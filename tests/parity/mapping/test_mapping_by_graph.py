"""The ops that take a kernel say over which of its axes it is summed, and so its layout, where no numbers can."""

import numpy as np
import pytest

from parity.experiment.mapping.by_graph import _same_groups, in_layout_of_graph, summed, with_maps_of_graph
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


def positions(function, shape):
    """Returns which elements of a weight are multiplied by the same numbers: their shares of the output are the same."""
    shares = {}
    for place in range(int(np.prod(shape))):
        share = function(np.eye(int(np.prod(shape)))[place].reshape(shape))
        shares.setdefault(tuple(np.sort(share[share != 0]).round(9)), []).append(place)
    return {tuple(each) for each in shares.values()}


def right(weight):
    return IMAGE @ weight


def right_turned(weight):
    return IMAGE @ np.swapaxes(weight, -1, -2)


def left(weight):
    return weight @ IMAGE.T


def left_turned(weight):
    return np.swapaxes(weight, -1, -2) @ IMAGE.T


SQUARE, STACK = (4, 4), (3, 4, 4)
RIGHT = {"matmul": ("1", "other"), "mm": ("1", "mat2"), "bmm": ("1", "mat2"), "__matmul__": ("1",), "MatMul": ("1",)}
RIGHT |= {"BatchMatMul": ("1",), "addmm": ("2", "mat2"), "baddbmm": ("2", "batch2"), "__rmatmul__": ("0",)}
LEFT = {"matmul": ("0", "input"), "mm": ("0",), "bmm": ("0",), "__matmul__": ("0",), "MatMul": ("0",)}
LEFT |= {"BatchMatMul": ("0",), "addmm": ("1", "mat1"), "baddbmm": ("1", "batch1"), "__rmatmul__": ("1",)}


@pytest.mark.parametrize("shape", [SQUARE, STACK])
@pytest.mark.parametrize(
    ("kind", "place", "attributes", "function"),
    [
        *((kind, place, {}, right) for kind, places in RIGHT.items() for place in places),
        *((kind, place, {}, left) for kind, places in LEFT.items() for place in places),
        ("MatMul", "1", {"transpose_b": True}, right_turned),
        ("MatMul", "1", {"transpose_a": True}, right),
        ("MatMul", "0", {"transpose_a": True}, left_turned),
        ("BatchMatMulV2", "1", {"adj_y": True}, right_turned),
        ("BatchMatMulV2", "1", {"adj_x": True}, right),
        ("BatchMatMulV2", "0", {"adj_x": True}, left_turned),
        ("BatchMatMulV2", "0", {"adj_y": True}, left),
    ],
)
def test_elements_that_one_number_is_multiplied_with_stand_at_one_place_of_the_sum(
    kind, place, attributes, function, shape
):
    weight = RANDOM.standard_normal(shape)
    found = summed(passed(kind, [(place, "", weight)], **attributes), "w", weight)
    assert groups(found) == positions(function, shape)


@pytest.mark.parametrize(
    ("kind", "place", "equation", "shape"),
    [
        ("Einsum", "1", "bi,io->bo", SQUARE),
        ("Einsum", "1", "bi,oi->bo", SQUARE),
        ("Einsum", "0", "io,bi->bo", SQUARE),
        ("einsum", "1.1", "bi,oi->bo", SQUARE),
        ("einsum", "2", "bi,hio->bho", STACK),
        ("einsum", "1", "hio,bi->bho", STACK),
    ],
)
def test_an_einsum_sums_over_the_letters_that_the_result_lacks(kind, place, equation, shape):
    weight, (_, second) = RANDOM.standard_normal(shape), equation.partition("->")[0].split(",")
    others = (lambda each: (IMAGE, each)) if second != "bi" else (lambda each: (each, IMAGE))
    found = summed(
        passed(kind, [(place, "", weight)], **{"0" if kind == "einsum" else "equation": equation}), "w", weight
    )
    assert groups(found) == positions(lambda each: np.einsum(equation, *others(each)), shape)


@pytest.mark.parametrize(
    ("kind", "place", "shape"),
    [
        ("linear", "weight", SQUARE),
        ("linear", "1", SQUARE),
        ("conv1d", "weight", (4, 4, 1)),
        ("conv2d without bias", "1", (4, 4, 1, 1)),
        ("conv3d", "1", (4, 4, 1, 1, 1)),
        ("Conv2D", "1", (1, 1, 4, 4)),
        ("Conv3D", "1", (1, 1, 1, 4, 4)),
    ],
)
def test_layers_and_convolutions_over_one_place_sum_over_the_channels_that_go_in(kind, place, shape):
    weight = RANDOM.standard_normal(shape)
    found = summed(passed(kind, [(place, "", weight)]), "w", weight)
    assert groups(found) == positions(
        lambda each: (right if kind[0] == "C" else right_turned)(each.reshape(4, 4)), shape
    )


@pytest.mark.parametrize(
    ("kind", "place", "shape", "attributes"),
    [
        ("linear", "0", SQUARE, {}),
        ("linear", "bias", (4,), {}),
        ("addmm", "0", SQUARE, {}),
        ("addmm", "input", SQUARE, {}),
        ("mm", "2", SQUARE, {}),
        ("__rmatmul__", "2", SQUARE, {}),
        ("MatMul", "1", (4,), {}),
        ("conv2d", "0", (4, 4, 1, 1), {}),
        ("conv2d", "1", (4, 4, 1, 2), {}),
        ("conv2d", "1", (4, 4, 1, 1), {"groups": 2}),
        ("conv2d", "1", (4, 4, 1, 1), {"6": 2}),
        ("conv_transpose2d", "1", (4, 4, 1, 1), {}),
        ("Conv2D", "1", (2, 1, 4, 4), {}),
        ("Conv2DBackpropInput", "1", (1, 1, 4, 4), {}),
        ("einsum", "2", SQUARE, {"0": "bi,io"}),
        ("einsum", "2", SQUARE, {"0": "...i,io->...o"}),
        ("einsum", "2", SQUARE, {"0": 3}),
        ("einsum", "2", SQUARE, {}),
        ("einsum", "3", SQUARE, {"0": "bi,io->bo"}),
        ("einsum", "0", SQUARE, {"0": "bi,io->bo"}),
        ("Einsum", "2", SQUARE, {"equation": "bi,io->bo"}),
        ("einsum", "2", STACK, {"0": "bi,io->bo"}),
    ],
)
def test_what_is_no_kernel_of_a_product_or_cannot_be_counted_says_nothing(kind, place, shape, attributes):
    weight = RANDOM.standard_normal(shape)
    assert summed(passed(kind, [(place, "", weight)], **attributes), "w", weight) is None


@pytest.mark.parametrize("taken", [KERNEL.reshape(2, 2, 2, 2).reshape(2, 8), KERNEL[:, :3], KERNEL[::-1]])
def test_a_kernel_that_is_reshaped_is_followed_and_one_that_is_cut_or_turned_about_is_not(taken):
    found = summed(product("MatMul", np.ones((2, len(taken))), taken), "w", KERNEL)
    if taken.shape == (2, 8):
        assert groups(found) == {tuple(range(8)), tuple(range(8, 16))}
    else:
        assert found is None


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


def test_where_no_layout_sums_alike_every_one_stays():
    # Neither layout of a kernel fits an op that the other side lays out over three axes.
    ours = product("MatMul", IMAGE, KERNEL, name="gate/Matrix")
    theirs = product("matmul", RANDOM.standard_normal((2, 2)), KERNEL.reshape(2, 8), name="gate.weight")
    values = {"gate/Matrix": KERNEL}, {"gate.weight": KERNEL}
    assert in_layout_of_graph(draft(), (ours, theirs), values) == draft()


def in_front_of_convolution(*behind):
    """Texts that a dense kernel in front of a convolution of 8 channels may have, by the shapes that follow its product."""
    reference = [Variable("d/kernel", (4, 16), use="MatMul"), Variable("c/kernel", (3, 3, 8, 4), use="Conv2D")]
    candidate = [Variable("d.weight", (16, 4), use="Linear"), Variable("c.weight", (4, 8, 3, 3), use="Conv2d")]
    ops = [ForwardOp("x", "Placeholder", [], [], [3, 2, 1, 8], {}, None)]
    ops.append(ForwardOp("d", "MatMul", [], ["d/kernel"], [3, 16], {}, None))
    ops += [ForwardOp("", kind, list(inputs), [], list(shape), {}, None) for kind, inputs, shape in behind]
    none = Pass([], lambda number: None)
    ours = Pass(ops, lambda number: None)
    found = in_layout_of_graph(draft_mapping(reference, candidate, {}), (ours, none), ({}, {}))
    return {text for guess in found.guesses if guess.variable.name == "d/kernel" for _, text in guess.options}


def test_a_layer_has_a_flattened_maps_layout_only_where_the_graph_makes_such_a_map_of_it():
    both = {"unflatten_hwc(2, 1, 8)", "transpose"}
    assert in_front_of_convolution(("Relu", [1], [3, 16]), ("Reshape", [2], [3, 2, 1, 8])) == both
    # Without the axis of size 1, and multiplied by what such a map is flattened to.
    assert in_front_of_convolution(("Reshape", [1], [3, 2, 8])) == both
    assert in_front_of_convolution(("Reshape", [0], [3, 16]), ("Mul", [1, 2], [3, 16])) == both
    # The other way round, and one for each step of a sequence.
    assert in_front_of_convolution(("Reshape", [1], [3, 1, 2, 8])) == both
    assert in_front_of_convolution(("Reshape", [1], [1, 3, 2, 1, 8])) == both
    # Spread over the places of a map, of other channels, and a map that nothing leads to.
    for behind in (
        [("Reshape", [1], [3, 1, 1, 16])],
        [("Reshape", [1], [3, 4, 1, 4])],
        [("Sum", [1], [3]), ("Reshape", [0], [3, 2, 8])],
    ):
        assert in_front_of_convolution(*behind) == {"transpose"}, behind


def behind_convolution(*ops):
    """Texts that a dense kernel behind a convolution of 8 channels may have, by what leads from the map to its product."""
    reference = [Variable("c/kernel", (3, 3, 4, 8), use="Conv2D"), Variable("d/kernel", (32, 5), use="MatMul")]
    candidate = [Variable("c.weight", (8, 4, 3, 3), use="Conv2d"), Variable("d.weight", (5, 32), use="Linear")]
    made = [ForwardOp("c", "Conv2D", [], ["c/kernel"], [3, 2, 2, 8], {}, None)]
    made += [ForwardOp("", kind, list(inputs), [], list(shape), {}, None) for kind, inputs, shape in ops]
    made.append(ForwardOp("d", "MatMul", [len(ops)], ["d/kernel"], [3, 5], {}, None))
    passes = Pass(made, lambda number: None), Pass([], lambda number: None)
    found = in_layout_of_graph(draft_mapping(reference, candidate, {}), passes, ({}, {}))
    return {text for guess in found.guesses if guess.variable.name == "d/kernel" for _, text in guess.options}


def test_a_layer_takes_a_flattened_map_only_where_it_comes_from_one():
    assert "flatten_hwc(2, 2, 8)" in behind_convolution(("Relu", [0], [3, 2, 2, 8]), ("Reshape", [1], [3, 32]))
    assert behind_convolution(("Mean", [0], [3, 8]), ("ConcatV2", [1], [3, 32])) == {"transpose"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([0, 0, 1], [0, 0, 1], True),
        ([0, 0, 1], [7, 7, 3], True),  # whatever the labels are
        ([0, 0, 1], [0, 1, 1], False),
        ([0, 0, 1], [0, 0, 0], False),  # each group of the one within one of the other
        ([0, 0, 0], [0, 0, 1], False),
        ([0, 1, 2], [0, 0, 1], False),
        ([0, 1, 0, 1], [0, 0, 1, 1], False),
        ([5], [9], True),
        ([], [], True),
        ([[0, 1], [0, 1]], [[2, 3], [2, 3]], True),
        ([[0, 1]], [[0], [1]], False),  # of other shapes
        ([0, 1], [0, 1, 1], False),
    ],
)
def test_labels_put_the_same_elements_together_whatever_they_are(one, other, same):
    assert _same_groups(np.array(one, int), np.array(other, int)) is same


def test_where_no_graph_makes_such_a_map_no_layout_of_one_is_tried():
    reference = [Variable("d/kernel", (4, 16), use="MatMul"), Variable("c/kernel", (3, 3, 8, 4), use="Conv2D")]
    candidate = [Variable("d.weight", (16, 4), use="Linear"), Variable("c.weight", (4, 8, 3, 3), use="Conv2d")]
    ops = [ForwardOp("d", "MatMul", [], ["d/kernel"], [3, 16], {}, None)]
    for shape, kept in (([3, 2, 1, 8], 2), ([3, 1, 1, 16], 1)):
        behind = ForwardOp("r", "Reshape", [0], [], shape, {}, None)
        found = with_maps_of_graph(draft_mapping(reference, candidate, {}), [*ops, behind])
        assert len(found.guesses[0].options) == kept and found.guesses[0].text in dict(
            map(reversed, found.guesses[0].options)
        )


@pytest.mark.parametrize(("taken", "kept"), [([3, 2, 1, 8], 2), ([3, 16], 1), ([3, 1, 1, 16], 1)])
def test_a_map_that_only_the_next_op_takes_is_one_that_a_layer_makes(taken, kept):
    reference = [
        Variable("d/kernel", (4, 16), use="MatMul"),
        Variable("c/kernel", (3, 3, 6, 8), use="Conv2DBackpropInput"),
    ]
    candidate = [Variable("d.weight", (16, 4), use="Linear"), Variable("c.weight", (8, 6, 3, 3), use="ConvTranspose2d")]
    ops = [
        ForwardOp("d", "MatMul", [], ["d/kernel"], [3, 16], {}, None),
        ForwardOp("r", "Relu", [0], [], [3, 16], {}, None),
        # A reshape is no op of a pass: it shows in how the next one takes its operand.
        ForwardOp(
            "c", "Conv2DBackpropInput", [1], ["c/kernel"], [3, 4, 2, 6], {}, None, [Operand("2", "", None, taken)]
        ),
    ]
    found = with_maps_of_graph(draft_mapping(reference, candidate, {}), ops)
    assert len(found.guesses[0].options) == kept


def test_a_norm_of_a_flat_vector_that_becomes_a_map_may_lie_as_the_map_does():
    reference = [Variable("d/kernel", (4, 16), use="MatMul"), Variable("n/gamma", (16,), use="Mul")]
    reference.append(Variable("c/kernel", (3, 3, 8, 8), use="Conv2D"))
    candidate = [Variable("d.weight", (16, 4), use="Linear"), Variable("n.weight", (16,), use="BatchNorm1d")]
    candidate.append(Variable("c.weight", (8, 8, 3, 3), use="Conv2d"))
    ops = [
        ForwardOp("d", "MatMul", [], ["d/kernel"], [3, 16], {}, None),
        ForwardOp("n/mul", "Mul", [0], ["n/gamma"], [16], {}, None),  # by the root of the variance, of units
        ForwardOp("n/mul_1", "Mul", [0, 1], [], [3, 16], {}, None),
        ForwardOp("r", "Reshape", [2], [], [3, 2, 1, 8], {}, None),
    ]
    found = with_maps_of_graph(draft_mapping(reference, candidate, {}), ops)
    assert [len(guess.options) for guess in found.guesses[:2]] == [2, 2]
    found = with_maps_of_graph(draft_mapping(reference, candidate, {}), ops[:3])
    assert [len(guess.options) for guess in found.guesses[:2]] == [1, 1]
