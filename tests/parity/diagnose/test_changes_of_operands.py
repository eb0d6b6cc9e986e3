"""Which other things an op is tried to take, what is tried to be done to what it gives, and which other windows."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.edit import Near
from parity.diagnose.edits.operands import exchanged, followed, moved_edits, operand_edits, power_between
from parity.diagnose.edits.ops import plain_edits
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.windows import convolved

RANDOM = np.random.default_rng(7)
X, Y, W = (RANDOM.normal(size=size) for size in ((6, 4), (6, 4), (4, 4)))
H = X @ W
FED = ("MatMul", [X, W], H)
NOTHING = Near(set(), [], [], [], [], frozenset(), False)


def of_weights(side, *numbers):
    """The same pass, in which some ops multiply by weights."""
    ops = [op._replace(weights=["w"]) if number in numbers else op for number, op in enumerate(side.ops)]
    return side._replace(ops=ops)


def changes(make, side, at, **near):
    return [each for each in make(RecomputedPass(side), at, NOTHING._replace(**near)) if not each.follows]


def told(found):
    return [(each.name, each.as_is, each.changed) for each in found]


def values(found):
    return [each.value for each in found]


CHAIN = FED, ("Square", [0], H**2), ("Tanh", [1], np.tanh(H**2)), ("Sub", [2, X], np.tanh(H**2) - X)


def test_ops_in_a_row_are_left_out_together():
    found = changes(operand_edits, passed(*CHAIN), 3, choices=[3, 2, 1, 0])
    assert told(found) == [
        ("activation_function", "has tanh in front of sub", "leaves tanh out"),
        ("op_left_out", "has square and tanh in front of sub", "leaves square and tanh out"),
    ]
    assert [each.dropped for each in found] == ["tanh", "square and tanh"]
    np.testing.assert_allclose(values(found), [H**2 - X, H - X])


@pytest.mark.parametrize(("between", "named"), [(2, True), (3, True), (4, False)])
def test_no_more_than_three_ops_are_left_out(between, named):
    ops, value = [FED], H
    for number in range(between):
        value = np.tanh(value)
        ops.append(("Tanh", [number], value))
    found = changes(operand_edits, passed(*ops, ("Sub", [between, X], value - X)), between + 1, choices=[0])
    assert [each.name for each in found] == ["activation_function" if named else "other_operation"]


def test_choices_by_truths_are_tried_as_those_of_numbers_are():
    chosen, others = H > 0, np.ones((6, 4), bool)
    side = passed(FED, ("Select", [chosen, 0, 0 * H], np.where(chosen, H, 0.0)))
    found = changes(operand_edits, side, 1, arrays=[("", others)])
    assert [each.name for each in found] == ["own_value"]
    assert np.array_equal(found[0].value, H)


def test_another_output_of_the_same_shape_is_taken_instead():
    other = ("MatMul", [Y, W], Y @ W)
    side = passed(FED, other, ("Tanh", [0], np.tanh(H)), ("Mul", [2, 1], np.tanh(H) * (Y @ W)))
    found = changes(operand_edits, side, 3, choices=[0, 1])
    assert told(found) == [
        ("activation_function", "has tanh in front of mul", "leaves tanh out"),
        (
            "other_operation",
            "takes for mul what model.py:3  line 2 gives",
            "takes what is made at model.py:2  line 1",
        ),
        ("input_ignored", "takes for mul what model.py:2  line 1 gives", "takes what is made at model.py:1  line 0"),
    ]
    np.testing.assert_allclose(values(found), [H * (Y @ W), (Y @ W) ** 2, np.tanh(H) * H])
    names = [each.name for each in changes(operand_edits, side, 3, choices=[0, 1], of_loss=True)]
    assert names == ["loss_function", "loss_function", "input_ignored"]
    read_twice = side._replace(ops=[*side.ops, side.ops[2]._replace(inputs=[1])])
    assert [each.name for each in changes(operand_edits, read_twice, 3, choices=[0, 1])][2] == "other_operation"
    # What is made of an input in another op too is not left out of all that is computed.
    again = side._replace(ops=[*side.ops, side.ops[1]])
    assert [each.name for each in changes(operand_edits, again, 3, choices=[0, 1])][2] == "other_operation"


def test_outputs_of_other_shapes_or_kinds_or_of_the_same_numbers_are_not_taken_instead():
    others = [
        ("Sum", [0, np.array([1])], H.sum(1)),
        ("Cast", [0], H > 0),
        ("Identity", [0], H),
        ("Max", [0], H.max()),
    ]
    side = passed(FED, *others, ("Tanh", [0], np.tanh(H)), ("Max", [5], np.tanh(H).max()), ("Sub", [6, 4], 0.0))
    assert changes(operand_edits, side, 5, choices=[1, 2, 3, 4]) == []
    single = passed(FED, *others[3:], ("Min", [0], H.min()), ("Sub", [1, 2], H.max() - H.min()))
    assert changes(operand_edits, single, 3, choices=[1, 2]) == [], "one number is met by chance"


def test_what_a_layer_takes_is_not_exchanged_for_what_came_before_another_layer():
    second = ("MatMul", [0, W], H @ W)
    side = of_weights(passed(FED, second, ("MatMul", [1, W], H @ W @ W)), 1, 2)
    assert changes(operand_edits, side, 2, choices=[0]) == []
    other = of_weights(passed(FED, ("MatMul", [Y, W], Y @ W), ("MatMul", [1, W], Y @ W @ W)), 1, 2)
    assert [each.name for each in changes(operand_edits, other, 2, choices=[0])] == ["input_ignored"]


def test_a_constant_is_replaced_by_one_of_the_other_sides_or_by_an_input():
    side = passed(FED, ("Mul", [0, X], H * X))
    arrays = [("", Y), ("mask", Y + 1), ("", Y[0]), ("lengths", np.arange(24))]
    found = changes(operand_edits, side, 1, arrays=arrays)
    assert told(found) == [
        ("own_value", "takes c11 for mul", "takes a constant of other numbers"),
        ("other_operation", "takes c11 for mul", "takes mask"),
    ]
    np.testing.assert_allclose(values(found), [H * Y, H * (Y + 1)])
    shares = passed(FED, ("Mul", [0, np.full((6, 4), 0.5)], H / 2))
    found = changes(operand_edits, shares, 1, arrays=[("", np.full(24, 0.25)), ("", Y)])
    assert [each.name for each in found] == ["other_operation", "own_value"]
    np.testing.assert_allclose(values(found)[0], H / 4)


def test_a_weight_that_is_another_power_of_the_other_sides_is_a_scale():
    deviation, other = np.exp(X), np.exp(0.5 * X)
    side = of_weights(passed(FED, ("Mul", [0, deviation], H * deviation)), 1)
    (found,) = changes(operand_edits, side, 1, arrays=[("", other)])
    assert told([found]) == [("scale", "takes for mul what is made of weights as it is", "takes it to the power 0.5")]
    assert changes(operand_edits, side, 1, arrays=[("", Y)])[0].name == "other_operation"
    assert changes(operand_edits, side, 1, arrays=[("input", other)])[0].name == "other_operation"


@pytest.mark.parametrize(
    ("rows", "name"),
    [([3, 2, 1, 0, 5, 4], "moved_values"), ([0, 0, 1, 2, 3, 3], "other_rows"), (None, "other_operation")],
)
def test_what_both_sides_take_of_one_table_is_no_value_of_the_ports_own(rows, name):
    looked_up = X  # of a table that is read by positions alone
    side = of_weights(passed(FED, ("AddV2", [0, looked_up], H + looked_up)), 1)
    found = changes(operand_edits, side, 1, arrays=[("", looked_up[rows] if rows else Y)])
    assert [each.name for each in found] == [name]


@pytest.mark.parametrize(
    ("own", "other", "power"),
    [
        ([1.0, 2.0, 4.0], [1.0, 4.0, 16.0], 2.0),
        ([1.0, 2.0, 4.0], [1.0, 4.0, 16.0 * (1 + 1e-6)], None),
        ([1.0, 2.0, 4.0], [1.0, 2.0, 4.0], None),
        ([1.0, 2.0, 4.0], [1.0, 2.0**1.001, 4.0**1.001], 1.001),
        ([2.0, 2.0, 4.0], [4.0, 4.0, 16.0], None),
        ([0.0, 2.0, 4.0], [0.0, 4.0, 16.0], None),
        ([1.0, 2.0, 4.0], [-1.0, 4.0, 16.0], None),
        ([1, 2, 4], [1.0, 4.0, 16.0], None),
    ],
)
def test_a_power_is_told_of_three_different_positive_numbers_and_more(own, other, power):
    found = power_between(np.array(own), np.array(other))
    assert found is None if power is None else found == pytest.approx(power)


def test_something_is_done_to_what_an_op_gives():
    side = passed(FED, ("Square", [0], H**2), ("Mul", [1, X], H**2 * X))
    found = {
        each.changed: each for each in followed(RecomputedPass(side), 1, NOTHING._replace(numbers=[3.0, 1e-5, 2e4]))
    }
    assert all(each.follows and each.number == 1 for each in found.values())
    assert {each.as_is for each in found.values()} == {"goes on with square as it is"}
    assert found["takes tanh of it"].name == found["takes softmax of it"].name == "activation_function"
    np.testing.assert_allclose(found["takes tanh of it"].value, np.tanh(H**2))
    scaled = [each for each in found if each.startswith("multiplies")]
    assert scaled == ["multiplies it by 3"] and found[scaled[0]].name == "loss_term"
    np.testing.assert_allclose(found[scaled[0]].value, 3 * H**2)
    behind = passed(FED, ("Square", [0], H**2), ("Exp", [1], np.exp(H**2)))
    of_near = list(followed(RecomputedPass(behind), 1, NOTHING._replace(numbers=[3.0], kinds={"sqrt"})))
    assert [each.name for each in of_near if "sqrt" in each.changed] == ["other_operation"]
    assert [each.name for each in of_near if "multiplies" in each.changed] == ["extra_scale"]
    truths = passed(FED, ("Greater", [0, X], H > X))
    assert list(followed(RecomputedPass(truths), 1, NOTHING)) == []


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [
        ("Sigmoid", 1 / (1 + np.exp(-H)), "gate_halves"),
        ("Softmax", np.exp(H) / np.exp(H).sum(1, keepdims=True), "gate_halves"),
        ("Mul", np.clip(np.round(H, 1), 0.0, 1.0), "other_operation"),
        ("Mul", np.clip(H, -0.1, 1.0), None),
        ("Mul", np.clip(H, 0.0, 1.1), None),
        ("Max", np.array(0.5), None),
    ],
)
def test_of_what_lies_between_0_and_1_the_rest_may_be_meant(kind, value, name):
    side = passed(FED, (kind, [0], value))
    found = [each for each in followed(RecomputedPass(side), 1, NOTHING) if each.changed == "takes 1 less it"]
    assert [each.name for each in found] == ([] if name is None else [name])
    assert all(np.allclose(each.value, 1 - value) for each in found)


def cut(*parts, kind="Split", line=None):
    side = passed(FED, *((kind, [0], part) for part in parts))
    return side._replace(ops=[op._replace(line=line or side.ops[1].line) if op.inputs else op for op in side.ops])


@pytest.mark.parametrize(("function", "name"), [("Sigmoid", "gate_halves"), ("Relu", "channel_order")])
def test_parts_of_which_one_opens_a_gate_for_the_other_are_halves_of_a_gated_unit(function, name):
    value, share = H[:, :2], 1 / (1 + np.exp(-H[:, 2:]))
    whole = passed(
        FED, ("Split", [0], value), ("Split", [0], H[:, 2:]), (function, [2], share), ("Mul", [1, 3], value * share)
    )
    line = whole.ops[1].line
    side = whole._replace(ops=[op._replace(line=line) if op.kind == "Split" else op for op in whole.ops])
    for number in (1, 2):
        assert [each.name for each in exchanged(RecomputedPass(side), number)] == [name]


GRID = RANDOM.normal(size=(6, 3, 4))


@pytest.mark.parametrize(
    ("kind", "attributes", "parts", "name"),
    [
        ("Split", {}, [GRID[:3], GRID[3:]], "moved_values"),
        ("Unpack", {"axis": 0}, [GRID[0], GRID[1]], "moved_values"),
        ("Unpack", {"axis": 1}, [GRID[:, 0], GRID[:, 1]], "moved_values"),
        ("unbind", {"1": 1}, [GRID[:, 0], GRID[:, 1]], "moved_values"),
        ("unbind", {"dim": -2}, [GRID[:, 0], GRID[:, 1]], "moved_values"),
        ("unbind", {}, [GRID[0], GRID[1]], "moved_values"),
        ("Split", {}, [GRID[..., :2], GRID[..., 2:]], "channel_order"),
        ("Unpack", {"axis": 2}, [GRID[..., 0], GRID[..., 1]], "channel_order"),
        ("unbind", {"1": -1}, [GRID[..., 0], GRID[..., 1]], "channel_order"),
        ("unbind", {"dim": 2}, [GRID[..., 0], GRID[..., 1]], "channel_order"),
    ],
)
def test_parts_are_of_the_batch_or_steps_or_fields_or_channels_by_the_axis_that_is_cut(kind, attributes, parts, name):
    whole = passed(("Relu", [GRID], GRID), *((kind, [0], part, attributes) for part in parts))
    line = whole.ops[1].line
    side = whole._replace(ops=[op._replace(line=line) if op.inputs else op for op in whole.ops])
    assert [each.name for each in exchanged(RecomputedPass(side), 1)] == [name]


@pytest.mark.parametrize(
    ("read", "parts", "name"),
    [
        (GRID, [GRID[:3], GRID[3:]], "moved_values"),
        (GRID, [GRID[..., :2], GRID[..., 2:]], "channel_order"),
        (X[:, 0], [X[:3, 0], X[3:, 0]], "moved_values"),
    ],
)
def test_parts_of_an_input_are_told_by_the_axis_that_is_cut_too(read, parts, name):
    whole = passed(*(("Split", [read], part) for part in parts))
    side = whole._replace(ops=[op._replace(line=whole.ops[0].line, weights=[]) for op in whole.ops])
    assert [each.name for each in exchanged(RecomputedPass(side), 0)] == [name]


def test_parts_of_a_vector_of_weights_are_channels():
    bias = RANDOM.normal(size=8)
    whole = passed(("Split", [bias], bias[:4]), ("Split", [bias], bias[4:]))
    side = whole._replace(ops=[op._replace(line=whole.ops[0].line) for op in whole.ops])
    assert [each.name for each in exchanged(RecomputedPass(side), 0)] == ["channel_order"]


@pytest.mark.parametrize(("opened", "name"), [(1, "channel_order"), (2, "gate_order"), (3, "gate_order")])
def test_parts_of_which_several_open_something_are_gates(opened, name):
    parts = [RANDOM.normal(size=(6, 2)) for _ in range(4)]
    whole = passed(
        FED,
        *(("Split", [0], part) for part in parts),
        ("AddV2", [2, np.float64(1.0)], parts[1] + 1.0),
        *(("Sigmoid", [at], np.ones((6, 2))) for at in (5, 3, 4)[:opened]),
    )
    ops = [op._replace(line=whole.ops[1].line) if op.kind == "Split" else op for op in whole.ops]
    found = list(exchanged(RecomputedPass(whole._replace(ops=ops)), 1))
    assert {each.name for each in found} == {name} and len(found) == 3


def test_two_parts_of_one_call_are_exchanged_with_each_other():
    side = cut(H[:, :2], H[:, 2:])
    (found,) = exchanged(RecomputedPass(side), 2)
    assert (found.number, found.name) == (2, "channel_order")
    assert (found.as_is, found.changed) == ("takes two parts of split one way", "takes them the other way round")
    assert np.array_equal(found.value, H[:, :2])
    [(beside, value)] = found.beside
    assert beside == 1 and np.array_equal(value, H[:, 2:])
    assert [each.beside[0][0] for each in exchanged(RecomputedPass(cut(H[:, :1], H[:, 1:2], H[:, 2:3])), 2)] == [1, 3]
    assert list(exchanged(RecomputedPass(cut(H[:, :1], H[:, 1:])), 1)) == [], "of different sizes"
    assert list(exchanged(RecomputedPass(cut(H[:, :2], H[:, :2])), 1)) == [], "the same numbers"
    assert list(exchanged(RecomputedPass(cut(H[:, :2], H[:, 2:], kind="Tanh")), 1)) == [], "no op that cuts"
    apart = passed(FED, ("Split", [0], H[:, :2]), ("Split", [0], H[:, 2:]))
    assert list(exchanged(RecomputedPass(apart), 1)) == [], "of two calls"
    many = [RANDOM.normal(size=2) for _ in range(12)]
    numbers = [each.beside[0][0] for each in exchanged(RecomputedPass(cut(*many)), 1)]
    assert numbers == list(range(2, 9)), "of neighbours alone"


def test_the_same_numbers_in_other_places_are_taken_as_the_other_side_has_them():
    own = RANDOM.normal(size=(4, 4))
    side = passed(FED, ("Slice", [0], H[:4]), ("Mul", [1, own], H[:4] * own))
    found = changes(moved_edits, side, 2, fed=[("mul", each) for each in (own.T, Y[:4], H[:4][::-1])])
    assert {(each.name, each.changed) for each in found} == {("moved_values", "takes the same numbers in other places")}
    assert {each.as_is for each in found} == {"takes what model.py:2  line 1 gives for mul as it stands"}
    assert any(np.allclose(each.value, H[:4][::-1] * own) for each in found)
    turned = changes(moved_edits, side, 2, fed=[("mul", H[:4].T.reshape(-1))])
    assert any(np.allclose(each.value, H[:4].T * own) for each in turned)
    assert changes(moved_edits, side, 2, fed=[("mul", H[:4] + 1e-6)]) == [], "other numbers"
    named = passed(FED, ("Mul", [0, X], H * X))
    assert changes(moved_edits, named, 1, fed=[("mul", X[::-1])]) == [], "a variable, which the map carries over"


def test_what_is_subtracted_rather_than_added_is_no_factor():
    side = passed(FED, ("Mul", [0, X], H * X), ("Sub", [1, Y], H * X - Y), ("Tanh", [2], np.tanh(H * X - Y)))
    found = {
        each.changed: each.name for each in followed(RecomputedPass(side), 1, NOTHING._replace(numbers=[-1.0, 3.0]))
    }
    assert found["multiplies it by -1"] == "other_operation" and found["multiplies it by 3"] == "extra_scale"


def test_a_matrix_that_goes_in_transposed_is_told_as_that():
    side = passed(FED, ("Slice", [0], H[:4]), ("Mul", [1, W], H[:4] * W))
    found = changes(moved_edits, side, 2, fed=[("mul", H[:4].T)])
    assert ("transposed_product", "takes its transpose") in {(each.name, each.changed) for each in found}
    wide = passed(FED, ("Mul", [0, X], H * X))
    found = changes(moved_edits, wide, 1, fed=[("mul", H[::-1])])
    assert {each.name for each in found} == {"moved_values"}, "no matrix whose transpose would fit in its place"


def test_images_with_channels_first_that_go_in_transposed_are_a_transposed_input():
    images = np.cos(np.arange(2 * 3 * 4 * 4.0)).reshape(2, 3, 4, 4)
    side = passed(("Cos", [images], images), ("Mul", [0, W], images * W))
    side = of_weights(side._replace(ops=[side.ops[0]._replace(weights=[]), *side.ops[1:]]), 1)
    found = changes(moved_edits, side, 1, fed=[("mul", images.swapaxes(2, 3))])
    assert {each.name for each in found if np.array_equal(each.value, images.swapaxes(2, 3) * W)} == {
        "transposed_input"
    }


@pytest.mark.parametrize(("off", "name"), [(0.9e-9, "transposed_product"), (1.0, None)])
def test_a_constant_that_each_side_computed_is_transposed_to_rounding(off, name):
    own = np.cos(X[:4])
    side = passed(("Cos", [X[:4]], own), ("Mul", [0, W], own * W))
    side = of_weights(side._replace(ops=[side.ops[0]._replace(weights=[]), *side.ops[1:]]), 1)
    other = own.T * (1 + off * np.linspace(-1, 1, 4))
    names = {each.name for each in changes(moved_edits, side, 1, fed=[("mul", other)])}
    assert ("transposed_product" in names) is (name is not None)


IMAGES, EXAMPLES = RANDOM.normal(size=(2, 3, 3, 4)), RANDOM.normal(size=(3, 3, 5))


@pytest.mark.parametrize(
    ("other", "of_data", "name"),
    [
        (IMAGES.swapaxes(1, 2), True, "transposed_input"),
        (IMAGES.swapaxes(1, 2) * (1 + 1e-15), True, "transposed_input"),  # each side divides by 255 in its own way
        (IMAGES.swapaxes(1, 2), False, "moved_values"),  # what layers give is no input
        (IMAGES[:, ::-1], True, "moved_values"),
        (IMAGES[::-1], True, "moved_values"),
        (EXAMPLES.swapaxes(0, 1), True, "moved_values"),  # the first axis counts examples
    ],
)
def test_an_input_with_two_axes_exchanged_is_told_as_that(other, of_data, name):
    own = IMAGES if other.shape == IMAGES.shape else EXAMPLES
    kernel = RANDOM.normal(size=own.shape)
    side = passed(("Cast", [own], own), ("Mul", [0, kernel], own * kernel))
    if of_data:
        side = side._replace(ops=[side.ops[0]._replace(weights=[]), side.ops[1]._replace(weights=["w"])])
    found = [each for each in changes(moved_edits, side, 1, fed=[("mul", other)]) if each.value is not None]
    (edit,) = [each for each in found if np.allclose(each.value, other * kernel)]
    assert edit.name == name
    assert (edit.changed == "takes it with two of its axes exchanged") is (name == "transposed_input")


def of_a_factor(side, number, factor):
    (found,) = [
        each
        for each in followed(RecomputedPass(side), number, NOTHING._replace(numbers=[factor]))
        if each.changed == f"multiplies it by {factor:g}"
    ]
    return found.name


def test_a_factor_of_the_whole_loss_is_one_of_the_gradients_and_of_a_term_one_of_that_term():
    one, other = (H**2).mean(), (Y**2).mean()
    terms = passed(
        FED,
        ("Square", [0], H**2),
        ("Mean", [1], one),
        ("L2Loss", [Y], other),
        ("AddV2", [2, 3], one + other),
    )
    assert of_a_factor(terms, 4, 0.5) == "gradient_factor" and of_a_factor(terms, 4, -1.0) == "sign"
    assert of_a_factor(terms, 2, 0.5) == of_a_factor(terms, 3, -1.0) == of_a_factor(terms, 2, -1.0) == "loss_term"
    # A regularisation of 0 is added behind it.
    nothing = passed(*CHAIN[:2], ("Mean", [1], one), ("AddV2", [2, 0.0], one + 0.0))
    assert of_a_factor(nothing, 2, 3.0) == "gradient_factor" and of_a_factor(nothing, 2, -1.0) == "sign"
    assert of_a_factor(nothing, 1, 3.0) == "loss_term", "what is averaged is not the loss itself"


@pytest.mark.parametrize(("of_loss", "name"), [(True, "loss_term"), (False, "other_operation")])
def test_a_term_that_is_taken_twice_stands_for_another_one(of_loss, name):
    one, other = np.abs(H), np.abs(Y @ W)
    side = passed(
        FED,
        ("MatMul", [Y, W], Y @ W),
        ("Abs", [0], one),
        ("Abs", [1], other),
        ("Mul", [3, 0.5], 0.5 * other),
        ("AddV2", [2, 4], one + 0.5 * other),
    )

    def names(at, choice, ops=side.ops):
        return [
            each.name for each in changes(operand_edits, side._replace(ops=ops), at, choices=[choice], of_loss=of_loss)
        ]

    otherwise = "loss_function" if of_loss else "other_operation"
    assert names(4, 2) == [name], "the first term in place of the second, before its weight"
    assert names(5, 4) == [name], "the second, with its weight, in place of the first"
    assert otherwise in names(4, 0), "what a term is made of is no term"
    square = [*side.ops[:3], side.ops[3]._replace(kind="Square"), *side.ops[4:]]
    assert names(4, 2, square) == [otherwise], "another function"
    of_one_line = [*side.ops[:3], side.ops[3]._replace(line=side.ops[2].line), *side.ops[4:]]
    assert names(4, 2, of_one_line) == [otherwise], "one call"
    unknown = [*side.ops[:3], side.ops[3]._replace(line=None), *side.ops[4:]]
    assert names(4, 2, unknown) == [otherwise]


MASK = np.array([[0.0, 1.0, 1.0, 0.0]] * 6) * (X > -9)
OTHER = np.roll(MASK, 1, axis=1)


@pytest.mark.parametrize(
    ("taker", "name", "changed"),
    [
        ("mul", "mask", "takes another mask"),
        ("masked_fill", "mask", "takes another mask"),
        ("binary_cross_entropy_with_logits of each", "other_operation", "takes other labels"),
        ("mse_loss", "other_operation", "takes other labels"),
        ("SigmoidCrossEntropyWithLogits", "other_operation", "takes other labels"),
    ],
)
def test_two_numbers_that_a_loss_function_takes_are_labels_and_no_mask(taker, name, changed):
    side = passed(FED, ("Cast", [MASK], MASK), ("Mul", [0, 1], H * MASK))
    found = changes(moved_edits, side, 2, fed=[(taker, OTHER)])
    assert {(each.name, each.changed) for each in found} == {(name, changed)}


IMAGE, KERNEL = RANDOM.normal(size=(2, 6, 7, 4)), RANDOM.normal(size=(3, 2, 4, 5))
PICKED = ("Relu", [IMAGE + 9], IMAGE + 9), ("Sub", [0, 9.0], IMAGE)


def by(pads, dilation=1, kernel=KERNEL, strides=(2, 2), groups=1, sizes=(3, 3)):
    made = convolved(np.pad(IMAGE, [(0, 0), *pads, (0, 0)]), kernel, strides, [(0, 0)] * 2, [dilation] * 2, groups)
    return made[:, : sizes[0], : sizes[1]]


def window_changes(side, at):
    return [each for each in plain_edits(RecomputedPass(side), at, NOTHING) if each.name in ("padding", "dilation")]


def turned(x):
    return np.moveaxis(x, -1, 1)


SAME = {"strides": [1, 2, 2, 1], "padding": "SAME"}
ROWS = "convolves with {} and {}, {} and {} rows in front and behind"


@pytest.mark.parametrize("of_torch", [False, True])
def test_a_convolution_is_padded_on_other_sides_and_dilated(of_torch):
    own = by([(0, 1), (0, 0)])
    side = passed(*PICKED, ("Conv2D", [1, KERNEL], by([(0, 1), (0, 1)], sizes=(3, 4)), SAME))
    if of_torch:
        padded = np.pad(turned(IMAGE), ((0, 0), (0, 0), (0, 1), (0, 0)))
        picked = ("relu", [turned(IMAGE) + 9], turned(IMAGE) + 9), ("sub", [0], turned(IMAGE), {"1": 9.0})
        settings = {"3": [2], "4": [0, 0], "5": [1, 1], "6": 1}
        kernel = KERNEL.transpose(3, 2, 0, 1)
        side = passed(
            *picked,
            ("pad", [1], padded, {"1": [0, 0, 0, 1]}),
            ("conv2d without bias", [2, kernel], turned(own), settings),
        )
    found = window_changes(side, 3 if of_torch else 2)
    width = 3 if of_torch else 4  # SAME keeps the column that torch, not padded there, leaves out
    wide = (0, 0) if of_torch else (0, 1)
    assert {each.as_is for each in found} == {ROWS.format(0, 1, *wide)}
    first = found[0]
    other = by([(1, 0), wide[::-1]], sizes=(3, width))
    assert (first.name, first.changed) == ("padding", ROWS.format(1, 0, *wide[::-1]))
    np.testing.assert_allclose(first.value, turned(other) if of_torch else other)
    twice = [each for each in found if each.changed.endswith("dilated by 2")]
    assert {each.name for each in twice} == {"dilation"} and len(twice) == 4
    # Rows: (3 - 1) * 2 + 5 - 6 = 3 of padding; columns: (width - 1) * 2 + 3 - 7.
    columns = {3: 0, 4: 2}[width]
    assert [each.changed.partition(" rows")[0] for each in twice] == [
        f"convolves with {front} and {3 - front}, {left} and {columns - left}"
        for front, left in ((1, columns // 2), (2, columns - columns // 2), (3, columns), (0, 0))
    ]
    value = by([(3, 0), (columns, 0)], 2, sizes=(3, width))
    np.testing.assert_allclose(twice[2].value, turned(value) if of_torch else value)
    dilations = {each.changed.rpartition(" by ")[2] for each in found if each.name == "dilation"}
    assert dilations == {"2", "3", "4", "6", "8"}


def test_groups_of_channels_stay_as_they_are_when_the_padding_changes():
    kernel = RANDOM.normal(size=(3, 2, 2, 6))
    pads = [(0, 1), (0, 1)]
    side = passed(*PICKED, ("Conv2D", [1, kernel], by(pads, kernel=kernel, groups=2, sizes=(3, 4)), SAME))
    wanted = by([(1, 0), (1, 0)], kernel=kernel, groups=2, sizes=(3, 4))
    np.testing.assert_allclose(window_changes(side, 2)[0].value, wanted)
    settings = {"3": [2, 2], "4": [1, 1], "5": [1, 1], "6": 2}
    image = ("relu", [turned(IMAGE) + 9], turned(IMAGE) + 9), ("sub", [0], turned(IMAGE), {"1": 9.0})
    own = by([(1, 1), (1, 1)], kernel=kernel, groups=2, sizes=(3, 4))
    of_torch = passed(*image, ("conv2d without bias", [1, kernel.transpose(3, 2, 0, 1)], turned(own), settings))
    found = window_changes(of_torch, 2)
    assert found and {each.as_is for each in found} == {ROWS.format(1, 0, 1, 0)}
    np.testing.assert_allclose(found[0].value, turned(by([(0, 1), (0, 1)], kernel=kernel, groups=2, sizes=(3, 4))))


def test_what_is_no_plain_convolution_of_an_image_has_no_other_windows():
    output = by([(0, 1), (0, 1)], sizes=(3, 4))
    conv = ("Conv2D", [1, KERNEL], output, SAME)
    assert window_changes(passed(*PICKED, conv), 2)
    in_blocks = passed(PICKED[0], ("SpaceToBatchND", [0], IMAGE), conv)
    assert window_changes(in_blocks, 2) == []
    bias = ("conv2d", [1, output[0, 0, 0]], output + output[0, 0, 0])
    assert window_changes(passed(PICKED[0], ("relu", [0], output), bias), 2) == []


def test_what_is_broadcast_to_the_shape_of_an_input_may_stand_in_its_place():
    """A mask of keys and positions that are looked up in weights are added before both are added to scores."""
    row, table = X[:, :1], Y
    side = passed(
        FED, ("Mul", [row, -1.0], -row), ("AddV2", [1, table], table - row), ("AddV2", [0, 2], H + table - row)
    )
    side = side._replace(ops=[side.ops[0], side.ops[1]._replace(weights=[]), *of_weights(side, 2).ops[2:]])
    (found,) = [each for each in changes(operand_edits, side, 3, choices=[1]) if "leaves" in each.changed]
    assert (found.name, found.changed) == ("op_left_out", "leaves add out")
    np.testing.assert_allclose(found.value, H - row)


def test_a_function_too_many_in_front_of_a_loss_is_a_cross_entropy_of_probabilities_or_another_loss():
    side = passed(FED, ("Square", [0], H**2))
    names = {each.changed: each.name for each in followed(RecomputedPass(side), 1, NOTHING._replace(of_loss=True))}
    assert names["takes softmax of it"] == names["takes sigmoid of it"] == "cross_entropy"
    assert names["takes tanh of it"] == "loss_function"


@pytest.mark.parametrize(("of_it", "name"), [(True, "activation_function"), (False, "gate_halves")])
def test_the_two_sides_of_an_activation_are_no_halves_of_a_gate(of_it, name):
    """A share of what it is made of, as Swish and Dice take it, or a gate between that and another output."""
    share, other = 1 / (1 + np.exp(-H)), H if of_it else Y @ W
    side = passed(
        FED,
        ("MatMul", [Y, W], Y @ W),
        ("Sigmoid", [0], share),
        ("Mul", [2, 0], share * H),
        ("Sub", [1.0, 2], 1 - share),
        ("Mul", [4, 0 if of_it else 1], (1 - share) * other),
        ("AddV2", [3, 5], share * H + (1 - share) * other),
    )
    (found,) = [each for each in followed(RecomputedPass(side), 2, NOTHING) if each.changed == "takes 1 less it"]
    assert found.name == name
