"""One change of a pass is named where what comes of it is what the other side has, and only then."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.cause import cause_of_hit, is_done_later
from parity.diagnose.edits.edit import Edit, Near
from parity.diagnose.edits.operands import operand_edits, power_between
from parity.diagnose.edits.search import repaired
from parity.diagnose.edits.side import Hit, Side
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.rearranging import places_of
from parity.diagnose.ops.resize import resized
from parity.diagnose.ops.table import computed
from parity.diagnose.ops.windows import convolved
from parity.locate.divergence import Side as Known
from parity.locate.divergence import first_wrong
from parity.locate.downstream import behind_difference
from parity.locate.matching import reach
from parity.trace import SourceLine

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(6, 4))
W, V = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(4, 3))
MASK = (np.arange(4) < np.array([4, 2, 3, 1, 4, 2])[:, None]).astype(np.float64)


def softmax(x, axis=-1):
    shares = np.exp(x - x.max(axis, keepdims=True))
    return shares / shares.sum(axis, keepdims=True)


def cause(one, other, of_loss=False):
    found = reach(one, other)
    sides = []
    for side, told, known in zip((one, other), found.told, (found.reference, found.candidate), strict=True):
        wrong = behind_difference(side.ops, told, known)
        starts = first_wrong(Known(side.ops, told, known, wrong))
        start = starts[0] if starts else None
        sides.append(Side(side, start, frozenset(wrong), frozenset(known), told))
    return repaired(*sides, of_loss)


def head(hidden):
    """A layer of weights on what is given, by the number of the op, its value and that of the next, and the loss."""
    number, value = hidden
    logits = value @ V
    return [("MatMul", [number, V], logits), ("Mean", [number + 1], logits.mean())]


def net(*middle, rows=6):
    """A product with the first weight, some ops, a product with the second and a mean as the loss."""
    first = X[:rows] @ W
    ops = [("MatMul", [X[:rows], W], first), *middle]
    return passed(*ops, *head((len(ops) - 1, ops[-1][2])))


H = X @ W
LN = (H - H.mean(1, keepdims=True)) / np.sqrt(H.var(1, keepdims=True) + 1e-12)
OTHER_LN = (H - H.mean(1, keepdims=True)) / np.sqrt(H.var(1, keepdims=True) + 1e-5)
APART = (H - H.mean(1, keepdims=True)) ** 2
NORM = [
    ("Mean", [0, np.array([1])], H.mean(1, keepdims=True), {"keep_dims": True}),
    ("SquaredDifference", [0, 1], APART),
    ("Mean", [2, np.array([1])], APART.mean(1, keepdims=True), {"keep_dims": True}),
    ("AddV2", [3, 1e-12], APART.mean(1, keepdims=True) + 1e-12),
    ("Rsqrt", [4], 1 / np.sqrt(APART.mean(1, keepdims=True) + 1e-12)),
    ("Sub", [0, 1], H - H.mean(1, keepdims=True)),
    ("Mul", [6, 5], LN),
]


PART = X[:, :2]
SQUARE = H[:4]
AHEAD = [np.triu(np.ones((4, 4), bool), by) for by in range(3)]
MOVED = H.reshape(-1)[np.roll(np.arange(24).reshape(6, 4), 1, 1)]
KEPT = {"keep_dims": True}


def joined(parts):
    """A join of the first product with something else, and as many of its columns as the next product takes."""
    whole = np.concatenate([H if isinstance(part, int) else part for part in parts], 1)
    return [("ConcatV2", [*parts, np.int64(1)], whole), ("Slice", [1], whole[:, 1:5])]


def picked(place):
    """The first product as sequences of two positions, of which one goes on."""
    sequences = H.reshape(6, 2, 2)
    chosen = sequences[:, place]
    return [("Reshape", [0], sequences), ("StridedSlice", [1], chosen), ("Tile", [2], np.tile(chosen, (1, 2)))]


@pytest.mark.parametrize(
    ("reference", "candidate", "name", "words"),
    [
        (net(("Relu", [0], np.maximum(H, 0))), net(("tanh", [0], np.tanh(H))), "activation_function", "computes tanh"),
        (net(("Relu", [0], np.maximum(H, 0))), net(), "activation_function", "leaves relu out"),
        (net(), net(("relu", [0], np.maximum(H, 0))), "activation_function", "takes relu of it"),
        (
            net(("AddV2", [0, X], H + X), ("Relu", [1], np.maximum(H + X, 0))),
            net(("relu", [0], np.maximum(H, 0))),
            "op_left_out",
            "leaves add out",
        ),
        (
            net(("Softmax", [0], softmax(H))),
            net(("softmax", [0], softmax(H, 0), {"1": 0})),
            "softmax_axis",
            "over axis 0 of 2",
        ),
        (
            net(("AddV2", [0, (1 - MASK) * -1e4], H + (1 - MASK) * -1e4), ("Softmax", [1], softmax(H + (1 - MASK) * -1e4))),
            net(("add", [0, MASK * -1e4], H + MASK * -1e4), ("softmax", [1], softmax(H + MASK * -1e4), {"1": 1})),
            "mask",
            "takes the mask inverted",
        ),
        (
            net(("SelectV2", [AHEAD[1], -1e9, 0], np.where(AHEAD[1], -1e9, SQUARE)), rows=4),
            net(("masked_fill", [0, AHEAD[0]], np.where(AHEAD[0], -1e9, SQUARE), {"2": -1e9}), rows=4),
            "mask",
            "takes the mask from the diagonal +0 on",
        ),
        (net(*NORM), net(("layer_norm", [0], OTHER_LN, {"1": [4], "4": 1e-5})), "epsilon", "has the epsilon 1e-05"),
        (net(("Mul", [0, 0.5], H / 2)), net(("mul", [0], 3 * H, {"1": 3.0})), "scale", "has 3 in mul"),
        (net(("Mul", [0, X], H * X)), net(("mul", [0, Y], H * Y)), "own_value", "a constant of other numbers"),
        (
            net(("Sub", [0, X], H - X)),
            net(("sub", [X, 0], X - H)),
            "other_operation",
            "exchanges the operands",
        ),
        (
            net(("AddV2", [0, 0.5], H + 0.5)),
            net(("add", [0], H + 1, {"1": 1.0})),
            "other_operation",
            "has 1 in add, where the reference has 0.5",
        ),
        (
            net(("Mul", [0, X], H * X), ("RealDiv", [1, Y], H * X / Y)),
            net(("mul", [0, X], H * X), ("div", [Y, 1], Y / (H * X))),
            "other_operation",
            "exchanges the operands of",
        ),
        (
            net(("Max", [0, np.array([1])], H.max(1, keepdims=True), KEPT), ("Sub", [0, 1], H - H.max(1, keepdims=True))),
            net(("mean", [0], H.mean(1, keepdims=True), {"1": 1}), ("sub", [0, 1], H - H.mean(1, keepdims=True))),
            "reduction",
            "takes the mean over axis 1, where the reference takes the max over axis 1",
        ),
        (
            net(("Sum", [0, np.array([1])], H.sum(1, keepdims=True), KEPT), ("Mul", [0, 1], H * H.sum(1, keepdims=True))),
            net(("sum", [0], H.sum(0, keepdims=True), {"1": 0}), ("mul", [0, 1], H * H.sum(0, keepdims=True))),
            "reduction",
            "takes the sum over axis 0, where the reference takes the sum over axis 1",
        ),
        (net(*picked(0)), net(*picked(-1)), "pooling", "takes the last place of axis 1, where the reference takes place 0"),
        (net(("Mul", [0, X], H * X)), net(("mul", [MOVED, X], MOVED * X)), "moved_values", "the same numbers in other"),
        (net(*joined([0, PART])), net(*joined([PART, 0])), "channel_order", "in the order [1, 0]"),
    ],
)  # fmt: skip
def test_the_change_that_makes_the_ports_numbers_is_named(reference, candidate, name, words):
    named = cause(reference, candidate)
    assert named is not None and named.name == name
    assert words in named.title and "line" in named.title
    assert "to rounding" in named.evidence


@pytest.mark.parametrize(
    ("made", "op", "words"),
    [
        (H / 0.41, ("div", [0], H / 0.41, {"1": 0.41}), "has 2.43902439 in mul"),
        (-H, ("neg", [0], -H), "has -1 in mul"),
        (3 * H, ("mul", [0], 3 * H, {"1": 3}), "has 3 in mul"),
        (0.7 * H, ("mul", [0, 0.7], 0.7 * H), "has 0.7 in mul"),
        (0.5 * H, ("unknown", [0], 0.5 * H), "has 0.5 in mul"),
        (0.6 * H, ("unknown", [0], 0.6 * H), None),
        (0.7 * H, ("unknown", [0], 0.7 * H, {"flag": True, "1": np.inf}), None),
    ],
)
def test_numbers_of_the_other_side_their_inverses_and_usual_ones_are_tried_in_a_constants_place(made, op, words):
    named = cause(net(("Mul", [0, 0.2], 0.2 * H)), net(op))
    assert named is None if words is None else named.name == "scale" and f"the port {words}, where" in named.title


def test_an_input_that_the_reference_reads_elsewhere_is_taken_in_the_place_of_another():
    one = net(("Mul", [0, X], H * X), ("AddV2", [1, Y], H * X + Y))
    named = cause(one, net(("mul", [0, Y], H * Y), ("add", [1, Y], H * Y + Y)))
    assert named.name == "other_operation" and "takes c21, where the reference takes c11 for mul" in named.title


def test_a_change_that_hardly_moves_an_output_explains_nothing():
    tiny = 1e-10 * X
    assert cause(net(("AddV2", [0, tiny], H + tiny)), net(("unknown", [0], H * (1 + 1e-12)))) is None


def in_file(side, name):
    """The same pass, from another file of source."""
    return side._replace(ops=[op._replace(line=op.line._replace(file=name)) for op in side.ops])


@pytest.mark.parametrize("extra", [False, True])
def test_the_ports_line_comes_first_whichever_side_is_changed(extra):
    plain, more = net(), net(("add", [0, X], H + X))
    one, other = (plain, more) if extra else (more, plain)
    named = cause(in_file(one, "graph.py"), in_file(other, "port.py"))
    assert 0 < named.title.index("port.py:") < named.title.index("graph.py:")
    assert "the port's pass" in named.evidence if extra else "the reference's pass" in named.evidence


def test_a_function_that_is_done_in_front_of_a_sum_or_behind_it_is_told_so():
    behind = net(("AddV2", [0, X], H + X), ("Relu", [1], np.maximum(H + X, 0)))
    before = net(("relu", [0], np.maximum(H, 0)), ("add", [1, X], np.maximum(H, 0) + X))
    named = cause(behind, before)
    assert named.name == "activation_function" and "takes relu in front of add, where" in named.title
    named = cause(before, behind)
    assert named.name == "activation_function" and "takes relu behind add" in named.title


def test_another_resizing_is_told_by_where_the_pixels_lie():
    small = H.reshape(2, 3, 4, 1)
    nearest = small.repeat(2, 1).repeat(2, 2)
    ways = dict(resized(small, (6, 8)))
    aligned = next(made for words, made in ways.items() if words.startswith("bilinear") and "aligned" in words)
    factors = RANDOM.normal(size=(6, 8, 1))

    def enlarged(kind, attributes, made, last):
        made, given = (each if last else np.moveaxis(each, -1, 1) for each in (made, small))
        scaled = made * (factors if last else np.moveaxis(factors, -1, 0))
        takes = [1, np.array([6, 8])] if last else [1]
        return net(
            ("Reshape", [0], given),
            (kind, takes, made, attributes),
            ("mul", [2, factors if last else np.moveaxis(factors, -1, 0)], scaled),
            ("Reshape", [3], scaled.reshape(-1, 4)),
        )

    one = enlarged("ResizeNearestNeighbor", {"align_corners": False, "half_pixel_centers": False}, nearest, True)
    other = enlarged("upsample_bilinear2d", {"1": [6, 8], "2": True}, aligned, False)
    named = cause(one, other)
    assert named.name == "resizing"
    assert "bilinear with aligned corners, where the reference resizes one pixel each" in named.title


def test_another_stretch_of_a_sequence_is_told_though_some_of_its_numbers_are_the_same():
    flags = (RANDOM.random((4, 7, 1)) < 0.5).astype(float)
    strokes = np.concatenate([RANDOM.normal(size=(4, 7, 1)), flags], 2)
    guess = RANDOM.normal(size=(4, 6, 2))

    def apart(start, kind):
        target = strokes[:, start : start + 6]
        off = guess - target
        return passed(
            ("MatMul", [X, W], H),
            (kind, [strokes], target),
            ("sub", [guess, 1], off),
            ("square", [2], off**2),
            ("add", [3, 0], (off**2).mean() + H.mean()),
        )

    named = cause(apart(1, "StridedSlice"), apart(0, "__getitem__"), of_loss=True)
    assert named.name == "labels_shifted"
    assert "takes places 0 to 5 of axis 1, where the reference takes places 1 to 6" in named.title


def test_an_op_that_is_done_later_is_not_left_out():
    one = net(("Relu", [0], np.maximum(H, 0)), ("Square", [1], np.maximum(H, 0) ** 2))
    other = net(("square", [0], H**2), ("relu", [1], H**2))
    named = cause(one, other)
    assert named.name == "other_operation" and "does relu later" in named.title


@pytest.mark.parametrize(("kind", "name"), [("masked_fill", "mask"), ("mul", "op_left_out")])
def test_a_mask_that_seems_to_be_left_out_is_another_one_where_the_port_chooses_by_one(kind, name):
    adder, nothing = (MASK - 1) * 1e4, np.zeros_like(H)
    ours, theirs = softmax(H + adder), softmax(H)
    graph = ("MatMul", [X, W], H), ("AddV2", [0, adder], H + adder), ("Softmax", [1], ours)
    chosen = (kind, [0, nothing.astype(bool)], H) if kind == "masked_fill" else (kind, [0, nothing + 1], H)
    port = ("MatMul", [X, W], H), chosen, ("softmax", [1], theirs)
    assert cause(passed(*graph, *head((2, ours))), passed(*port, *head((2, theirs)))).name == name


@pytest.mark.parametrize(("numerator", "name"), [(1.0, "scale"), (3.0, "op_left_out")])
def test_what_is_multiplied_by_and_not_divided_by_is_scaled(numerator, name):
    """As a patch that is written times its gain, where the graph multiplies by 1 over it; of 3 over it more is left out."""
    gain = np.exp(Y[:, :1])
    begun = ("MatMul", [X, W], H), ("Exp", [Y[:, :1]], gain)
    ours, theirs = H * (numerator / gain), H * gain
    graph = passed(*begun, ("RealDiv", [numerator, 1], numerator / gain), ("Mul", [0, 2], ours), *head((3, ours)))
    port = passed(*begun, ("mul", [0, 1], theirs), *head((2, theirs)))
    known, told = frozenset([0, 1]), frozenset(range(6))
    sides = [Side(each, at, frozenset(range(at, at + 3)), known, told) for each, at in ((graph, 3), (port, 2))]
    named = repaired(*sides, of_loss=False)
    assert named.name == name
    assert ("multiplies by it, where the reference divides by it" in named.title) is (name == "scale")


@pytest.mark.parametrize(("in_front", "name"), [((1,), "op_left_out"), ((), "mask")])
def test_a_factor_that_is_left_out_in_front_of_a_mask_is_no_mask(in_front, name):
    """As the scale of an embedding whose padding is zeroed, in the graph by a product and in the port by a choice."""
    graph = passed(("MatMul", [X, W], H), ("Mul", [0, 4.0], 4 * H), ("Mul", [1, MASK], 4 * H * MASK))
    port = passed(("matmul", [X, W], H), ("masked_fill", [0, MASK == 0], H * MASK))
    sides = [
        Side(each, start, frozenset([start]), frozenset([0]), frozenset([0])) for each, start in ((graph, 2), (port, 1))
    ]
    edit = Edit(2, H * MASK, "op_left_out", "has mul", "leaves mul out", "mul", in_front=in_front)
    assert cause_of_hit(Hit(edit, 2, 1, False, H.size), *sides, turned=False, of_loss=False).name == name


def test_what_a_port_masks_in_part_and_the_reference_as_a_whole_behind_it_is_not_only_in_the_port():
    part, both = H[:, :2], np.concatenate([Y[:, 2:], H[:, :2]], 1)
    half = part * MASK[:, 2:]
    joint = np.concatenate([Y[:, 2:], half], 1)
    begun, cut = ("MatMul", [X, W], H), ("Slice", [0], part)
    graph = begun, cut, ("ConcatV2", [Y[:, 2:], 1, np.int64(1)], both)
    port = passed(begun, cut, ("mul", [1, MASK[:, 2:]], half), ("cat", [Y[:, 2:], 2, np.int64(1)], joint))
    assert cause(passed(*graph, ("Mul", [2, MASK], both * MASK)), port).name == "other_operation"
    assert cause(passed(*graph), port).name == "mask"


def test_a_reduction_is_told_behind_all_layers_as_one_of_the_loss():
    each = (H**2).sum(1)
    one = passed(
        ("MatMul", [X, W], H), ("Square", [0], H**2), ("Sum", [1, np.array([1])], each), ("Mean", [2], each.mean())
    )
    other = passed(("matmul", [X, W], H), ("square", [0], H**2), ("sum", [1], each, {"1": 1}), ("sum", [2], each.sum()))
    named = cause(one, other, of_loss=True)
    assert (
        named.name == "loss_reduction" and "the sum over all axes" in named.title and "gives the loss" in named.evidence
    )


@pytest.mark.parametrize("kept", [False, True])
def test_a_sum_of_what_a_mask_keeps_that_is_not_divided_by_its_count_is_another_reduction(kept):
    squares, count = (H**2 * MASK).sum(), MASK.sum()
    counted = [("Sum", [2], squares), ("Sum", [MASK], count)]
    kept_above = [("Maximum", [4, 1.0], np.maximum(count, 1.0))] if kept else []
    first = [("MatMul", [X, W], H), ("Square", [0], H**2), ("Mul", [1, MASK], H**2 * MASK)]
    mean, further = squares / count, np.abs(H).sum()
    one = [*first, *counted, *kept_above, ("RealDiv", [3, 4 + kept], mean), ("Norm", [0], further)]
    one = passed(*one, ("AddV2", [len(one) - 2, len(one) - 1], mean + further))
    other = passed(*first, ("sum", [2], squares), ("norm", [0], further), ("add", [3, 4], squares + further))
    named = cause(one, other, of_loss=True)
    assert named.name == "loss_reduction" and f"leaves what model.py:{5 + kept} " in named.title


def test_nothing_is_named_where_no_one_change_explains_it():
    made = np.sin(H) * np.cos(X) + 0.3
    assert cause(net(("Relu", [0], np.maximum(H, 0))), net(("unknown", [0], made))) is None


def test_a_part_that_the_port_computes_apart_is_no_bug():
    """The port adds up in other steps: its partial sum is what the reference gives with a term left out."""
    bias, factor = RANDOM.normal(size=4), RANDOM.normal(size=(6, 4))
    one = net(("AddV2", [0, X], H + X), ("AddV2", [1, Y], H + X + Y), ("Mul", [2, factor], (H + X + Y) * factor))
    other = net(
        ("add", [0, Y], H + Y),
        ("unknown", [0], np.sin(H) + X + bias),
        ("add", [1, 2], H + Y + np.sin(H) + X + bias),
        ("mul", [3, factor], (H + Y + np.sin(H) + X + bias) * factor),
    )
    assert cause(one, other) is None


def test_the_huge_numbers_of_a_mask_hide_nothing():
    """To a norm all scores with a mask's huge numbers are alike; that the unmasked ones differ is what counts."""
    hidden, own = (1 - MASK) * -1e30, np.maximum(H, 0)
    one = net(("Relu", [0], own), ("AddV2", [1, hidden], own + hidden), ("Softmax", [2], softmax(own + hidden)))
    for kind, made in (("tanh", np.tanh(H)), ("unknown", np.abs(H) + 0.1 * H)):
        rest = ("add", [1, hidden], made + hidden), ("softmax", [2], softmax(made + hidden))
        named = cause(one, net((kind, [0], made), *rest))
        assert named is None if kind == "unknown" else "computes tanh, where" in named.title


def test_an_op_is_changed_only_if_computed_again_it_gives_what_it_gave():
    run = RecomputedPass(net(("Relu", [0], np.maximum(H, 0)), ("Sigmoid", [1], np.maximum(H, 0) ** 2)))
    assert run.computes(1) and not run.computes(2)
    assert [number for number, _ in run.after({0: 2 * H}, 9)] == [1]


@pytest.mark.parametrize(
    ("takes", "attributes"), [([X, Y], {"equation": "ij,kj->ik"}), ([0, Y], {"equation": "ij,kj->ik"})]
)
def test_an_equation_is_read_where_either_framework_has_it(takes, attributes):
    first = X @ W
    left = first if isinstance(takes[0], int) else X
    run = RecomputedPass(passed(("MatMul", [X, W], first), ("Einsum", takes, left @ Y.T, attributes)))
    assert run.computes(1)
    run = RecomputedPass(passed(("matmul", [X, W], first), ("einsum", [], first @ Y.T, {"0": "ij,kj->ik"})))
    assert not run.computes(1)


def test_what_only_picks_is_followed_by_the_places_that_it_picks():
    assert np.array_equal(places_of(X, X[:, 1:3]), np.arange(24).reshape(6, 4)[:, 1:3])
    assert places_of(np.zeros(4), np.zeros(2)) is None
    assert places_of(X, X[:, :2] + 1.0) is None


def test_a_stretch_of_an_axis_is_followed_though_numbers_in_it_are_equal_but_not_where_two_are_the_same():
    zeros = np.where(X > 0, X, 0.0)
    for part, places in ((zeros[2:5], np.arange(24).reshape(6, 4)[2:5]), (zeros[:, 1], np.arange(1, 24, 4))):
        assert np.array_equal(places_of(zeros, part), places)
    twice = np.concatenate([zeros, zeros])
    assert places_of(twice, zeros) is None


def test_the_other_sides_numbers_are_not_those_of_a_mask_that_covers_most():
    hidden = np.where(np.arange(24).reshape(6, 4) % 3, -1e30, 0.0)
    others = {low: (H + hidden * low, H * 1.5 + hidden * low) for low in (1.0, 1e-21)}
    for one, other in others.values():
        found = reach(net(("AddV2", [0, X], one)), net(("add", [0, X], other)))
        assert 1 not in found.reference
        assert 1 in reach(net(("AddV2", [0, X], one)), net(("add", [0, X], one.copy()))).reference


def test_an_op_inside_of_a_module_that_is_one_thing_is_named_by_that():
    own, other = (net(("mul", [0, number], number * H)) for number in (3.0, 5.0))
    inside = [op._replace(attributes={**op.attributes, "module": "LocalResponseNorm"}) for op in other.ops]
    named = cause(own, other._replace(ops=inside))
    assert named.name == "response_normalisation"
    assert named.title.startswith("local response normalisation by other numbers: the port has 5 in mul, where")
    line = SourceLine("port.py", 25, "forward", "x = F.local_response_norm(x, 9)")
    assert cause(own, other._replace(ops=[op._replace(line=line) for op in other.ops])).name == "response_normalisation"
    without = net()
    ops = [op._replace(attributes={**op.attributes, "module": "LocalResponseNorm"}) for op in without.ops]
    left_out = cause(net(("Relu", [0], np.maximum(H, 0))), without._replace(ops=ops))
    assert left_out.name == "activation_function", "what is done before it, or behind, is another thing"
    # A leaky ReLU in front of it, that a plain one behind it undoes.
    ends = ("div", [0, np.float64(2.0)], np.where(H > 0, H, 0.01 * H) / 2.0)
    leaky = net(ends)
    ops = [op._replace(attributes={**op.attributes, "module": "LocalResponseNorm"}) for op in leaky.ops]
    undone = cause(net(("RealDiv", [0, np.float64(2.0)], np.maximum(H, 0) / 2.0)), leaky._replace(ops=ops))
    assert undone.name == "activation_function", "it has no activation of its own"


def test_the_bounds_of_a_slice_are_no_numbers_that_another_may_have():
    begin, end, other, strides = (np.array(each) for each in ([0, 1], [0, 3], [0, 2], [1, 1]))
    attributes = {"begin_mask": 1, "end_mask": 1}
    run = RecomputedPass(passed(("sigmoid", [X], X), ("StridedSlice", [0, begin, end, strides], X[:, 1:3], attributes)))
    assert run.computes(1)
    near = Near(set(), [], arrays=[("stack", other)], choices=[], fed=[], right=set(), of_loss=False)
    assert not [edit for edit in operand_edits(run, 1, near) if not edit.follows]


IMAGE, KERNEL = RANDOM.normal(size=(2, 6, 6, 3)), RANDOM.normal(size=(3, 3, 3, 4))


def convolution(of_torch, pads, strides=2, dilation=1):
    """A convolution of a fed image, a norm over its examples, and a mean."""
    every = [strides] * 2, [pads, pads], [dilation] * 2
    made = convolved(IMAGE, KERNEL, *every, 1)
    output = np.moveaxis(made, -1, 1) if of_torch else made
    axes = (0, 2, 3) if of_torch else (0, 1, 2)
    mean = output.mean(axes, keepdims=True)
    if not of_torch:
        rows = np.array([[0, 0], list(pads), list(pads), [0, 0]])
        padded = np.pad(IMAGE, rows)
        settings = {"strides": [1, strides, strides, 1], "padding": "VALID", "dilations": [1, dilation, dilation, 1]}
        first = [("Relu", [IMAGE + 9], IMAGE + 9), ("Sub", [0, 9.0], IMAGE), ("Pad", [1, rows], padded)]
        last = [("Conv2D", [2, KERNEL], output, settings)]
    else:
        image = np.moveaxis(IMAGE, -1, 1)
        padded = np.pad(image, [(0, 0), (0, 0), pads, pads])
        settings = {"3": [strides] * 2, "4": [0, 0], "5": [dilation] * 2, "6": 1}
        first = [("relu", [image + 9], image + 9), ("sub", [0], image, {"1": 9.0})]
        first.append(("pad", [1], padded, {"1": [*pads, *pads]}))
        last = [("conv2d without bias", [2, KERNEL.transpose(3, 2, 0, 1)], output, settings)]
    norm = [("Mean", [3, np.array(axes)], mean, KEPT), ("Sub", [3, 4], output - mean)]
    square = ((output - mean) ** 2).mean()
    return passed(*first, *last, *norm, ("Square", [5], (output - mean) ** 2), ("Mean", [6], square))


@pytest.mark.parametrize(
    ("reference", "candidate", "name", "words"),
    [
        ({"pads": (0, 1)}, {"pads": (1, 0)}, "padding", "with 1 and 0, 1 and 0 rows in front and behind, where"),
        ({"pads": (0, 1)}, {"pads": (1, 1)}, "padding", "the reference convolves with 0 and 1, 0 and 1 rows"),
        (
            {"pads": (1, 1), "strides": 1},
            {"pads": (2, 2), "strides": 1, "dilation": 2},
            "dilation",
            "dilated by 2, where the reference convolves with 1 and 1, 1 and 1 rows in front and behind:",
        ),
    ],
)
def test_a_convolution_that_sees_other_pixels_is_told_by_its_padding_or_dilation(reference, candidate, name, words):
    named = cause(convolution(False, **reference), convolution(True, **candidate))
    assert named is not None and named.name == name and words in named.title


SEQUENCE, FILTERS = RANDOM.normal(size=(3, 8, 4)), RANDOM.normal(size=(3, 4, 5))


def of_sequence(of_torch, pads):
    """A convolution of a fed sequence and a mean of its squares: a graph makes an image of one row of what it padded."""
    made = convolved(SEQUENCE, FILTERS, [1], [pads], [1], 1)
    if not of_torch:
        rows = np.array([[0, 0], list(pads), [0, 0]])
        image = np.pad(SEQUENCE, rows)[:, None]
        settings = {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 1, 1, 1]}
        first = [("Relu", [SEQUENCE + 9], SEQUENCE + 9), ("Sub", [0, 9.0], SEQUENCE)]
        ops = [*first, ("Pad", [1, rows], image[:, 0]), ("Conv2D", [2, FILTERS[None]], made[:, None], settings)]
        side = passed(*ops, ("Square", [3], made**2), ("Mean", [4], (made**2).mean()))
        taken = side.operand
        return side._replace(operand=lambda number, place: image if (number, place) == (3, 0) else taken(number, place))
    given, output = np.moveaxis(SEQUENCE, -1, 1), np.moveaxis(made, -1, 1)
    settings = {"3": [1], "4": [0], "5": [1], "6": 1}
    first = [("relu", [given + 9], given + 9), ("sub", [0], given, {"1": 9.0})]
    first.append(("pad", [1], np.pad(given, [(0, 0), (0, 0), pads]), {"1": list(pads)}))
    last = ("conv1d without bias", [2, FILTERS.transpose(2, 1, 0)], output, settings)
    return passed(*first, last, ("square", [3], output**2), ("mean", [4], (output**2).mean()))


def test_a_sequence_that_is_padded_on_both_sides_rather_than_in_front_is_told_so():
    named = cause(of_sequence(False, (2, 0)), of_sequence(True, (1, 1)))
    assert named.name == "padding" and "the reference convolves with 0 and 0, 2 and 0 rows" in named.title


def test_the_larger_of_two_tensors_is_computed_as_torch_names_it():
    np.testing.assert_array_equal(computed("max", [X, Y], {}), np.maximum(X, Y))
    np.testing.assert_array_equal(computed("min", [X, Y], {}), np.minimum(X, Y))
    np.testing.assert_array_equal(computed("Max", [X, np.array([1])], {}), X.max(1))


def test_what_is_made_of_weights_alone_is_named_where_it_is_a_power_of_the_other_sides():
    """A deviation of which the logarithm is trained: a half of it is the variance's."""
    deviation = np.exp(np.array([0.1, -0.4, 0.3, 0.7]))

    def policy(of_weights):
        scaled = H / of_weights
        return passed(
            ("MatMul", [X, W], H),
            ("div", [0, of_weights], scaled),
            ("tanh", [1], np.tanh(scaled)),
            ("sum", [2], np.asarray(np.tanh(scaled).sum())),
        )

    sides = []
    for of_weights in (deviation, deviation**0.5):
        side = policy(of_weights)
        ops = [op._replace(weights=["log_std"]) if number == 1 else op for number, op in enumerate(side.ops)]
        ops[1] = ops[1]._replace(operands=(ops[1].operands[0], ops[1].operands[1]._replace(name="")))
        sides.append(side._replace(ops=ops))
    found = cause(*sides)
    assert (found.name, "to the power" in found.title) == ("scale", True)
    assert power_between(deviation, deviation**0.5) == pytest.approx(0.5)
    assert power_between(deviation, deviation + 0.1) is None
    assert power_between(deviation[:2], deviation[:2] ** 0.5) is None


def test_two_parts_of_a_split_that_stand_for_each_other_are_told_with_the_op_that_cuts_them():
    wide = X @ np.concatenate([W, V], 1)[:, :6]
    one, two = wide[:, :3], wide[:, 3:]

    def cut(kind, first, second):
        made = first * np.exp(second)
        return passed(
            ("MatMul", [X, W], wide),
            (kind, [0], one, {"num_split": 2}),
            (kind, [0], two, {"num_split": 2}),
            ("exp", [1 if second is one else 2], np.exp(second)),
            ("mul", [1 if first is one else 2, 3], made),
            ("mean", [4], made.mean()),
        )

    line = SourceLine("model.py", 1, "tower", "one, two = wide.split(3, 1)")
    both = cut("Split", one, two), cut("split", two, one)
    left, right = (side._replace(ops=[op._replace(line=line) for op in side.ops]) for side in both)
    named = cause(left, right)
    assert named.name == "channel_order" and "the other way round" in named.title
    assert named.op is None or named.op in (1, 2)


def test_another_term_that_is_added_in_other_steps_does_not_stand_against_a_change_of_the_first():
    """The graph adds two losses of each example, and the port two means."""

    def loss(of_graph, half):
        spread = np.exp(0.5 * H if half else H)
        noisy = spread * X
        first, second = (noisy**2).sum(1), (np.abs(H) + H).sum(1)
        ops = [("MatMul", [X, W], H)]
        ops += [("Mul", [0, 0.5], 0.5 * H)] if half else []
        at = len(ops)
        ops += [("exp", [at - 1], spread), ("mul", [at, X], noisy), ("square", [at + 1], noisy**2)]
        ops += [("sum", [at + 2], first, {"1": 1}), ("unknown" if of_graph else "other", [0], second)]
        if of_graph:
            each = first - 0.3 * second
            ops += [
                ("mul", [at + 4, -0.3], -0.3 * second),
                ("add", [at + 3, at + 5], each),
                ("unknown", [at + 6], each.mean()),
            ]
        else:
            ops += [("mean", [at + 3], first.mean()), ("mean", [at + 4], second.mean())]
            ops += [("mul", [at + 6, -0.3], -0.3 * second.mean())]
            ops += [("unknown", [at + 5, at + 7], first.mean() - 0.3 * second.mean())]
        return passed(*ops)

    named = cause(loss(True, half=True), loss(False, half=False))
    assert named is not None and named.name == "scale" and "leaves mul out" in named.title


def test_one_number_throughout_is_a_constant_that_was_computed_and_nobodys_value():
    shares = [np.full((6, 4), 1 / count) for count in (4, 6)]
    named = cause(net(("Mul", [0, shares[0]], H * shares[0])), net(("mul", [0, shares[1]], H * shares[1])))
    assert named.name in ("other_operation", "scale", "extra_scale")


def over_two_steps(joined, lines):
    """Each of two steps joins two parts in front of a layer; the lines are those of what each step does."""
    takes, values, ops = [(X, Y), (Y + 1.0, X - 2.0)], [], []
    wide = np.concatenate([W, V @ V.T])
    for number, (left, right) in enumerate(takes):
        at = 5 * number
        ops += [("MatMul", [left, W], left @ W), ("MatMul", [right, W], right @ W)]
        left, right = left @ W, right @ W
        both = np.concatenate(joined(left, right), 1)
        ops += [("ConcatV2", [*joined(at, at + 1), np.int32(1)], both), ("MatMul", [at + 2, wide], both @ wide)]
        ops.append(("Sigmoid", [at + 3], 1.0 / (1.0 + np.exp(-(both @ wide)))))
        values.append(ops[-1][2])
    ops.append(("ConcatV2", [4, 9, np.int32(1)], np.concatenate(values, 1)))
    ops += [("MatMul", [10, np.concatenate([V, -V])], ops[-1][2] @ np.concatenate([V, -V]))]
    ops.append(("Mean", [11], ops[-1][2].mean()))
    found = passed(*ops)
    line = [SourceLine("model.py", lines[n % 5] if n < 10 else 9, "forward", f"line {n % 5}") for n in range(13)]
    return found._replace(
        ops=[op._replace(name="decoder", line=each) for op, each in zip(found.ops, line, strict=True)]
    )


@pytest.mark.parametrize(("lines", "named"), [([1, 2, 3, 3, 3], True), ([3, 3, 3, 3, 3], False)])
def test_what_is_changed_in_every_step_of_a_loop_is_named_by_one_of_them(lines, named):
    one, other = (over_two_steps(order, lines) for order in (lambda a, b: (a, b), lambda a, b: (b, a)))
    found = cause(one, other)
    assert (found is not None and found.name == "channel_order") == named


def of_two_states(first, second):
    """Two layers with a function behind each, of which the next layer takes both."""
    ops, made = [], []
    for given, function in ((X, first), (Y, second)):
        made.append((len(ops), given @ W))
        ops.append(("MatMul", [given, W], given @ W))
        if function is not None:
            made[-1] = len(ops), function(given @ W)
            name = "Relu" if function is relu else "Tanh"
            ops.append((name, [len(ops) - 1], made[-1][1]))
    both = made[0][1] @ W + made[1][1] @ W[::-1]
    ops += [("MatMul", [made[0][0], W], made[0][1] @ W), ("MatMul", [made[1][0], W[::-1]], made[1][1] @ W[::-1])]
    ops.append(("AddV2", [len(ops) - 2, len(ops) - 1], both))
    return passed(*ops, *head((len(ops) - 1, both)))


def relu(x):
    return np.maximum(x, 0.0)


def test_what_is_left_out_of_all_that_the_next_layer_takes_is_named_and_placed_in_front_of_that():
    own = of_two_states(relu, relu)
    found = cause(own, of_two_states(None, None))
    assert found.name == "activation_function" and "leaves relu out" in found.title
    assert found.op == 1  # the second of the two layers
    assert cause(own, of_two_states(np.tanh, None)) is None


def test_a_mask_in_the_place_of_another_that_keeps_as_many_is_a_mask_and_nothing_moved():
    """Both hold the same two numbers, as many of each: that they are the same numbers says nothing."""
    drawn = np.random.default_rng(8).permutation(np.repeat([0.0, 1.25], 12)).reshape(6, 4)
    turned = drawn[[3, 4, 5, 0, 1, 2]]
    fewer = np.where(np.arange(6)[:, None] < 2, 0.0, 1.25) * np.ones((6, 4))
    for other in (turned, fewer):
        one = net(("Slice", [drawn], drawn), ("Mul", [0, 1], H * drawn))
        named = cause(one, net(("getitem", [other], other), ("mul", [0, 1], H * other)))
        assert named.name == "mask" and "takes another mask" in named.title
    kept = [each > 0 for each in (drawn, turned)]
    one, other = (
        net(
            ("Slice", [each], each),
            ("SelectV2", [1, 0, -1e9], np.where(each, H, -1e9)),
            ("Tanh", [2], np.where(each, np.tanh(H), -1.0)),
        )
        for each in kept
    )
    assert cause(one, other).name == "mask"


def test_a_mask_that_several_terms_of_the_loss_lack_is_left_out_of_all_of_them_at_once():
    """Of a mask's zeros and ones no number tells whether the port has them: it counts as right."""
    second, third = Y @ W, np.tanh(H) * MASK  # the third has it on both sides
    halves = [(each**2).sum() / 2 for each in (H * MASK, second * MASK, third)]
    one = passed(
        ("Split", [MASK], MASK),
        ("MatMul", [X, W], H),
        ("MatMul", [Y, W], second),
        ("Tanh", [1], np.tanh(H)),
        ("Mul", [0, 3], third),
        ("L2Loss", [4], halves[2]),
        ("Mul", [0, 1], H * MASK),
        ("L2Loss", [6], halves[0]),
        ("Mul", [0, 2], second * MASK),
        ("L2Loss", [8], halves[1]),
        ("AddN", [5, 7, 9], sum(halves)),
    )
    scaled = [each * 0.5**0.5 for each in (H, second)]
    squares = [(each**2).sum() for each in scaled]
    other = passed(
        ("matmul", [X, W], H),
        ("matmul", [Y, W], second),
        ("tanh", [0], np.tanh(H)),
        ("mul", [2, MASK], third),
        ("l2loss", [3], halves[2]),
        ("mul", [0, 0.5**0.5], scaled[0]),
        ("square", [5], scaled[0] ** 2),
        ("sum", [6], squares[0]),
        ("mul", [1, 0.5**0.5], scaled[1]),
        ("square", [8], scaled[1] ** 2),
        ("sum", [9], squares[1]),
        ("add", [7, 10], sum(squares)),
        ("add", [4, 11], sum(squares) + halves[2]),
    )
    named = cause(one, other, of_loss=True)
    assert (named.name, "the reference has mul there" in named.title) == ("op_left_out", True), named.title


def test_few_different_numbers_in_other_places_are_not_said_to_have_moved():
    few = np.random.default_rng(9).permutation(np.repeat([0.5, 1.0, 2.0, 3.0], 6)).reshape(6, 4)
    turned = few[[3, 4, 5, 0, 1, 2]]
    one = net(("Slice", [few], few), ("Mul", [0, 1], H * few))
    assert cause(one, net(("getitem", [turned], turned), ("mul", [0, 1], H * turned))) is None


def in_a_loop(side, *pairs):
    """The same pass, in which some ops are of one line, that runs twice."""
    ops = list(side.ops)
    for first, second in pairs:
        ops[second] = ops[second]._replace(line=ops[first].line)
    return side._replace(ops=ops)


PEEPHOLE = np.array([0.3, -0.7, 1.1, 0.4])


def two_steps(of_new):
    """A cell of two steps whose state begins at zero and that looks at the new state, or at the one of before."""
    first = H + H * PEEPHOLE if of_new else H
    out = np.tanh(first)
    state = H * out
    seen = state if of_new else H
    second = state + seen * PEEPHOLE
    return out, state, seen, second


@pytest.mark.parametrize("in_both", [False, True])
def test_a_change_of_the_first_step_of_a_loop_has_to_be_met_in_the_next_one_too(in_both):
    """Of a state of zeros nothing is added: as if the term were left out, which the next step shows not to be so."""
    out, state, seen, second = two_steps(True)
    one = net(
        ("Mul", [0, PEEPHOLE], H * PEEPHOLE),
        ("AddV2", [0, 1], H + H * PEEPHOLE),
        ("Tanh", [2], out),
        ("Mul", [0, 3], state),
        ("Mul", [4, PEEPHOLE], seen * PEEPHOLE),
        ("AddV2", [4, 5], second),
        ("Tanh", [6], np.tanh(second)),
        ("Unknown", [7], np.sin(np.tanh(second)) + 1e-3),
    )
    out, state, seen, second = two_steps(False)
    second = state if in_both else second
    left_out = [("tanh", [2], np.tanh(second)), ("Unknown", [3], np.sin(np.tanh(second)) + 1e-3)]
    peephole = [("mul", [0, PEEPHOLE], H * PEEPHOLE), ("add", [2, 3], second), ("tanh", [4], np.tanh(second))]
    peephole.append(("Unknown", [5], np.sin(np.tanh(second)) + 1e-3))
    other = net(("tanh", [0], out), ("mul", [0, 1], state), *(left_out if in_both else peephole))
    named = cause(in_a_loop(one, (1, 5), (2, 6), (3, 7)), other)
    assert (named is not None and named.name == "op_left_out") == in_both
    # Without a loop nothing more can be asked.
    assert cause(one, other).name == "op_left_out"


def test_what_is_done_to_data_before_it_is_cut_into_steps_is_changed_for_all_of_them():
    shifted, fed = X + 0.5, np.maximum(X + 0.5, 0)
    steps = [("StridedSlice", [1], fed[[n]]) for n in range(6)]
    outputs = fed @ W, shifted @ W
    one = passed(
        ("AddV2", [X, 0.5], shifted),
        ("Maximum", [0, 0.0], fed),
        *steps,
        ("ConcatV2", [2, 3, 4, 5, 6, 7, np.int64(0)], fed),
        ("MatMul", [8, W], outputs[0]),
        *head((9, outputs[0])),
    )
    other = passed(("add", [X, 0.5], shifted), ("matmul", [0, W], outputs[1]), *head((1, outputs[1])))
    sides = []
    for side, product in ((one, 9), (other, 1)):
        weights = {0: [], product: ["w"]}
        ops = [op._replace(weights=weights.get(number, op.weights)) for number, op in enumerate(side.ops)]
        sides.append(side._replace(ops=ops))
    sides[0] = in_a_loop(sides[0], *[(2, number) for number in range(3, 8)])
    named = cause(*sides)
    assert named.name == "op_left_out" and "leaves maximum out" in named.title


def test_numbers_that_stand_in_other_places_for_all_that_take_them_are_moved_once():
    a, b = RANDOM.normal(size=(4, 5)), RANDOM.normal(size=(4, 5))

    def branches(given, moved):
        number = len(moved)
        values = given @ a, np.tanh(given @ b)
        return [
            ("MatMul", [number, a], values[0]),
            ("MatMul", [number, b], given @ b),
            ("Tanh", [number + 2], values[1]),
            ("AddV2", [number + 1, number + 3], values[0] + values[1]),
            ("MatMul", [number + 4, RANDOM_5], (values[0] + values[1]) @ RANDOM_5),
        ]

    one, other = net(*branches(H, [])), net(("roll", [0], MOVED), *branches(MOVED, [0]))
    named = cause(one, other)
    assert named.name == "moved_values" and "takes the same numbers in other places" in named.title


RANDOM_5 = np.random.default_rng(12).normal(size=(5, 4))


def test_what_is_picked_of_each_example_is_met_though_the_other_side_goes_through_them_otherwise():
    """Of the examples that a mask picks, in the order in which each side has them flattened."""
    order = [3, 0, 5, 1, 4, 2]

    def picks(place, examples, kinds):
        picked = H[examples][:, place]
        twice = np.tile(picked[:, None], (1, 4))
        return net((kinds[0], [0, np.array(examples)], H[examples]), (kinds[1], [1], picked), (kinds[2], [2], twice))

    one = picks(2, [0, 1, 2, 3, 4, 5], ("GatherV2", "StridedSlice", "Tile"))
    named = cause(one, picks(1, order, ("index_select", "select", "repeat")))
    assert named.name == "channel_order" and "takes place 1 of axis 1, where the reference takes place 2" in named.title
    assert cause(one, picks(2, order, ("index_select", "select", "repeat"))) is None


def test_a_constant_mask_of_other_places_is_a_mask_and_other_constants_are_values_of_the_ports_own():
    seen, other = (np.where(RANDOM.random((6, 4)) < 0.5, 0.0, 1.0) for _ in range(2))
    named = cause(net(("Mul", [0, seen], H * seen)), net(("mul", [0, other], H * other)))
    assert named.name == "mask" and "takes another mask" in named.title
    halves = np.where(seen > 0, 0.5, 1.0)
    assert cause(net(("Mul", [0, seen + 1], H * (seen + 1))), net(("mul", [0, halves], H * halves))).name == "own_value"


def test_a_choice_by_a_comparison_of_which_no_truths_are_kept_is_computed_again():
    """As sigmoid cross entropies of graphs choose: passes keep numbers, and of comparisons none."""
    positive = H >= 0.1
    side = passed(
        ("MatMul", [X, W], H),
        ("GreaterEqual", [0, 0.1], positive),
        ("Select", [1, 0, -1.0], np.where(positive, H, -1.0)),
    )
    values = [side.value(number) for number in range(3)]
    values[1] = None
    operand = side.operand
    blind = side._replace(value=values.__getitem__, operand=lambda n, at: None if (n, at) == (2, 0) else operand(n, at))
    run = RecomputedPass(blind)
    assert (run.output(1) == positive).all() and run.computes(2)
    moved = dict(run.after({0: H + 0.3}, 5))
    assert (moved[2] == np.where(H + 0.3 >= 0.1, H + 0.3, -1.0)).all()


def margin(*, scaled_first, kind, residual=False):
    """A difference that is multiplied, or a product that something is subtracted from; and a sum that both sides have."""
    mul, sub, of = ("mul", "sub", "exp") if kind == "torch" else ("Mul", "Sub", "Exp")
    taken = MASK * 0.3
    first, last = (2 * H, 2 * H - taken) if scaled_first else (H - taken, 2 * (H - taken))
    one = (mul, [0, 2.0], first) if scaled_first else (sub, [0, taken], first)
    other = (sub, [1, taken], last) if scaled_first else (mul, [1, 2.0], last)
    return passed(("MatMul", [X, W], H), one, other, (of, [2], np.exp(last)), ("Mean", [3], np.exp(last).mean()))


@pytest.mark.parametrize(("of_loss", "name"), [(True, "loss_function"), (False, "other_operation")])
def test_what_is_subtracted_behind_a_factor_rather_than_in_front_of_it_is_not_left_out(of_loss, name):
    one, other = margin(scaled_first=False, kind="graph"), margin(scaled_first=True, kind="torch")
    named = cause(one, other, of_loss)
    assert named.name == name and "does sub later than the reference" in named.title


@pytest.mark.parametrize(
    ("kind", "name"), [("margin_ranking_loss", "loss_function"), ("relu", "op_left_out"), ("lossless", "op_left_out")]
)
def test_what_a_function_of_torchs_leaves_out_of_a_loss_is_an_argument_of_it(kind, name):
    hinge, without = np.maximum(H + 0.5, 0.0), np.maximum(H, 0.0)
    one = passed(("MatMul", [X, W], H), ("AddV2", [0, 0.5], H + 0.5), ("Relu", [1], hinge), ("Mean", [2], hinge.mean()))
    other = passed(("mm", [X, W], H), (kind, [0], without), ("mean", [1], without.mean()))
    assert cause(one, other, of_loss=True).name == name


def test_a_sum_that_both_sides_have_behind_one_that_is_left_out_does_not_stand_for_it():
    def side(*, whole):
        ops, value = [("MatMul", [X, W], H)], H
        if whole:
            value = value - 0.3 * MASK
            ops.append(("Sub", [0, 0.3 * MASK], value))
        value = 2 * value
        ops += [("Mul", [len(ops) - 1, 2.0], value), ("AddV2", [len(ops), X], value + X)]
        return passed(*ops, *head((len(ops) - 1, value + X)))

    named = cause(side(whole=True), side(whole=False), of_loss=True)
    assert named.name == "op_left_out" and "later" not in named.title


CALLED = ("model.py", 9, "tower", "x = dense(x)")


@pytest.mark.parametrize(
    ("function", "callers", "inside", "op"),
    [
        ("tower", (), (), None),
        ("loss", (), (), 0),
        ("tower", (("model.py", 9, "main", "tower(x)"),), (), 0),
        ("loss", (), (CALLED,), 0),  # what gives it is made in a function that is called there
        ("tower", (), (CALLED,), None),
        ("dense", (CALLED,), (), 0),  # and what takes it is another function's
    ],
)
def test_a_function_that_is_left_out_at_the_end_of_another_is_lacking_behind_what_that_makes(
    function, callers, inside, op
):
    one = net(("Relu", [0], np.maximum(H, 0)))
    ops = [
        each._replace(line=each.line._replace(function=function, callers=callers)) if number > 1 else each
        for number, each in enumerate(one.ops)
    ]
    if inside:
        ops[0] = ops[0]._replace(line=ops[0].line._replace(function="dense", callers=inside))
    named = cause(one._replace(ops=ops), net())
    assert (named.name, named.op) == ("activation_function", op)


@pytest.mark.parametrize("looped", [True, False])
def test_what_a_line_makes_of_a_change_over_and_over_the_other_side_may_have_in_one_op(looped):
    """Behind the product that is left out 30 ops cut and scale it, of two lines in a loop, or of a line each."""
    columns, wide = [(0, 2) if k % 2 else (2, 4) for k in range(15)], np.tile(V[:2], (15, 1))

    def behind(value, number):
        ops, parts = [], []
        for k, (low, high) in enumerate(columns):
            part = value[:, low:high]
            ops += [
                ("StridedSlice", [number], part, {"1": low}),
                ("Mul", [number + 1 + 2 * k, k + 1.0], part * (k + 1)),
            ]
            parts.append(part * (k + 1))
        whole = np.concatenate(parts, 1)
        made = [number + 2 + 2 * k for k in range(len(columns))]
        return [*ops, ("ConcatV2", [*made, np.int32(1)], whole)], whole

    def tail(number, whole):
        return [("MatMul", [number, wide], whole @ wide), ("Mean", [number + 1], (whole @ wide).mean())]

    ops, whole = behind(H * Y, 1)
    one = passed(("MatMul", [X, W], H), ("Mul", [0, Y], H * Y), *ops, *tail(32, whole))
    lines = [f"line {n % 2}" if 2 <= n < 32 and looped else f"alone {n}" for n in range(len(one.ops))]
    at = [SourceLine("model.py", 1 + sorted(set(lines)).index(text), "tower", text) for text in lines]
    one = one._replace(ops=[op._replace(line=line) for op, line in zip(one.ops, at, strict=True)])
    _, fewer = behind(H, 0)
    picked = np.concatenate([H[:, low:high] for low, high in columns], 1)
    by = np.repeat(np.arange(1.0, 16.0), 2)
    other = passed(("MatMul", [X, W], H), ("getitem", [0], picked), ("mul", [1, by], fewer), *tail(2, fewer))
    found = cause(one, other)
    assert (found is not None and found.name == "op_left_out") == looped


@pytest.mark.parametrize(("of_loss", "name"), [(True, "loss_function"), (False, "op_left_out")])
def test_a_function_that_is_left_out_behind_all_layers_is_another_loss(of_loss, name):
    one, other = net(("Square", [0], H**2)), net()
    named = cause(one, other, of_loss)
    assert named.name == name and "leaves square out" in named.title


def test_a_sum_that_the_port_does_behind_a_function_is_done_later():
    behind = net(("AddV2", [0, X], H + X), ("Relu", [1], np.maximum(H + X, 0)))
    before = net(("relu", [0], np.maximum(H, 0)), ("add", [1, X], np.maximum(H, 0) + X))
    other = net(("relu", [0], np.maximum(H, 0)), ("add", [1, Y], np.maximum(H, 0) + Y))
    assert is_done_later(behind, 1, before, 1) and not is_done_later(behind, 1, other, 1)
    assert not is_done_later(behind, 2, before, 1), "no sum and no product"


def test_a_scale_that_parts_beside_a_norm_is_found_before_all_of_it_is_left_out():
    # The graph multiplies by 1 plus a gain before it divides, so that it has the norm by itself nowhere.
    gain, centred = Y @ W, H - H.mean(1, keepdims=True)
    length = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    graph = [
        ("MatMul", [Y, W], gain),
        ("Sub", [0, H.mean(1, keepdims=True)], centred),
        ("AddV2", [1, 1.0], gain + 1),
        ("Mul", [3, 2], (gain + 1) * centred),
        ("RealDiv", [4, length], (gain + 1) * centred / length),
    ]
    port = [
        ("matmul", [Y, W], gain),
        ("layer_norm", [0], OTHER_LN, {"1": [4], "4": 1e-5}),
        ("mul", [2, 1], OTHER_LN * gain),
    ]
    found = cause(net(*graph), net(*port))
    assert (found.name, "where the reference has add there" in found.title) == ("op_left_out", True)
