"""Which changes of an op are tried, in which order, what each is called, and what the op gives then."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.edit import Near
from parity.diagnose.edits.ops import plain_edits
from parity.diagnose.ops.forward_pass import RecomputedPass

RANDOM = np.random.default_rng(6)
X, W, V = (RANDOM.normal(size=size) for size in ((6, 4), (4, 4), (4, 3)))
H = X @ W
FED = ("MatMul", [X, W], H)
MASK = (np.arange(4) < np.array([4, 2, 3, 1, 4, 2])[:, None]).astype(np.float64)
CUBE = RANDOM.normal(size=(2, 4, 3))
KEPT = {"keep_dims": True}


def edits(*ops, at=1, kinds=(), numbers=(), right=(), fed=(), of_loss=False):
    """The changes of one op of a pass, in order."""
    near = Near(set(kinds), list(numbers), [], [], list(fed), frozenset(right), of_loss)
    return list(plain_edits(RecomputedPass(passed(FED, *ops)), at, near))


def check(found, *wanted):
    """Changes are these: cause, what the pass does as it is, what it does changed, and what the op gives."""
    assert [(each.name, each.as_is, each.changed) for each in found] == [each[:3] for each in wanted]
    for each, (*words, value) in zip(found, wanted, strict=True):
        assert each.value.shape == np.shape(value) and np.allclose(each.value, value, 1e-12, 1e-12), words


def only(found, name):
    return [each for each in found if each.name == name]


def test_an_op_is_left_out_where_what_it_takes_is_as_large_as_what_it_gives():
    found = edits(("AddV2", [0, X], H + X))
    check(found, ("op_left_out", "has add there", "leaves add out", H))
    assert found[0].dropped == "add" and found[0].number == 1
    assert edits(("Sum", [0, np.array([1])], H.sum(1)))[0].name == "reduction"
    assert edits(("Greater", [0, X], H > X)) == [], "a number does not stand in a truth's place"
    flat = H.reshape(-1) + 1.0
    check(
        edits(("Reshape", [0], H.reshape(-1)), ("AddV2", [1, np.ones(24)], flat), at=2),
        ("op_left_out", "has add there", "leaves add out", H.reshape(-1)),
    )


def test_of_two_ops_that_are_joined_either_may_be_left_out_and_is_told_by_its_line():
    found = edits(("Tanh", [0], np.tanh(H)), ("AddV2", [0, 1], H + np.tanh(H)), at=2)
    check(
        found[:2],
        ("op_left_out", "has add there", "leaves what model.py:2  line 1 gives out", H),
        ("op_left_out", "has add there", "leaves what model.py:1  line 0 gives out", np.tanh(H)),
    )


@pytest.mark.parametrize(("of_loss", "name"), [(False, "op_left_out"), (True, "loss_function")])
def test_a_number_times_itself_is_its_square(of_loss, name):
    found = edits(("Mul", [0, 0], H * H), of_loss=of_loss)
    check(found[:1], (name, "has square there", "leaves square out", H))
    assert found[0].dropped == "square"


def test_an_op_that_cannot_be_computed_is_left_out_only_where_what_it_takes_is_right():
    unknown = ("unknown", [0], np.sin(H))
    assert edits(unknown) == []
    check(edits(unknown, right=[0]), ("op_left_out", "has unknown there", "leaves unknown out", H))


def test_whole_numbers_that_rows_are_looked_up_by_are_no_mask_though_they_are_two():
    kinds = np.array([0, 1, 1, 0, 1, 0])
    found = edits(("GatherV2", [0, kinds, np.int64(0)], H[kinds]))
    as_is = "takes the rows that c11 says"
    check(
        [each for each in found if each.as_is == as_is],
        ("other_rows", as_is, "takes the indices inverted", H[1 - kinds]),
        ("other_rows", as_is, "takes the indices a place later", H[kinds[[0, 0, 1, 2, 3, 4]]]),
        ("other_rows", as_is, "takes the indices a place earlier", H[kinds[[1, 2, 3, 4, 5, 5]]]),
        ("input_ignored", as_is, "takes one row throughout", H[0 * kinds]),
        ("input_ignored", as_is, "takes one row throughout", H[0 * kinds + 1]),
    )
    assert only(found, "mask") == []


def test_a_mask_is_left_out_inverted_turned_moved_and_taken_for_all():
    found = edits(("Mul", [0, MASK], H * MASK))
    as_is = "takes the mask of c11"
    later, earlier = (MASK[:, [0, 0, 1, 2]], MASK[:, [1, 2, 3, 3]])
    check(
        found,
        ("op_left_out", "has mul there", "leaves mul out", H),
        ("mask", as_is, "takes the mask inverted", H * (1 - MASK)),
        ("mask", as_is, "takes the mask a place later", H * later),
        ("mask", as_is, "takes the mask a place earlier", H * earlier),
        ("mask", as_is, "takes no mask, or one of everything", H * 0),
        ("mask", as_is, "takes no mask, or one of everything", H),
    )
    assert found[0].dropped == "mask"
    assert only(edits(("Mul", [0, MASK + np.eye(6, 4)], H * (MASK + np.eye(6, 4)))), "mask") == [], "of three numbers"
    counted = edits(("Mean", [0, MASK], np.zeros(())), ("Cast", [0], H > 0), ("Sum", [2], (H > 0).sum()), at=3)
    assert [each.name for each in counted if "mask" in each.changed] == ["reduction"] * 4
    counted = edits(("Cast", [0], H > 0), ("Sum", [1], (H > 0).sum()), at=2, of_loss=True)
    assert [each.name for each in counted if "mask" in each.changed] == ["loss_reduction"] * 4


def test_a_square_mask_is_also_turned_and_one_of_what_comes_after_begins_at_other_diagonals():
    scores = RANDOM.normal(size=(2, 4, 4))
    ahead = [np.broadcast_to(np.triu(np.ones((4, 4)), by), scores.shape) for by in (-1, 0, 1, 2)]
    for sign, words in ((1.0, ""), (-1.0, "what is behind, rather than ahead")):
        masks = [each if sign > 0 else 1 - each for each in ahead]
        found = edits(("Reshape", [0], scores), ("Mul", [1, masks[2]], scores * masks[2]), at=2)
        turned = next(each for each in found if each.changed == "takes the mask along the other axis")
        assert np.array_equal(turned.value, scores * masks[2].swapaxes(1, 2)), words
        begun = {each.changed: each.value for each in found if "diagonal" in each.changed}
        assert list(begun) == [f"takes the mask from the diagonal {by} on" for by in ("-1", "+0", "+2")]
        for value, mask in zip(begun.values(), (masks[0], masks[1], masks[3]), strict=True):
            assert np.array_equal(value, scores * mask)
    assert not [each for each in edits(("Mul", [0, MASK], H * MASK)) if "diagonal" in each.changed]
    other = np.eye(4)[[1, 0, 2, 3]]
    found = edits(("MatMul", [0, other], H @ other))
    assert any("other axis" in each.changed for each in found) is False, "the permutation is its own transpose"
    assert not [each for each in found if "diagonal" in each.changed]


COUNTERPARTS = {
    np.greater: np.greater_equal,
    np.greater_equal: np.greater,
    np.less: np.less_equal,
    np.less_equal: np.less,
}


@pytest.mark.parametrize(
    ("kind", "other", "function"),
    [
        ("Greater", "greaterequal", np.greater_equal),
        ("GreaterEqual", "greater", np.greater),
        ("Less", "lessequal", np.less_equal),
        ("LessEqual", "less", np.less),
        ("gt", "ge", np.greater_equal),
        ("ge", "gt", np.greater),
        ("lt", "le", np.less_equal),
        ("le", "lt", np.less),
    ],
)
def test_a_comparison_may_count_its_limit_in_or_out(kind, other, function):
    limit = float(H[2, 1])
    own = COUNTERPARTS[function]
    takes, attributes = ([0], {"1": limit}) if kind.islower() else ([0, limit], {})
    found = [each for each in edits((kind, takes, own(H, limit), attributes)) if each.changed.startswith("compares")]
    check(found, ("mask", f"compares by {kind.lower()}", f"compares by {other}", function(H, limit)))


def test_what_a_mask_leaves_out_is_filled_with_the_numbers_near():
    fill = np.full((6, 4), -1e9)
    found = edits(("SelectV2", [MASK > 0, 0, fill], np.where(MASK > 0, H, fill)), numbers=[-1e9, -1e4, 0.0])
    wanted = [(f"fills it with {number:.6g}", np.where(MASK > 0, H, number)) for number in (-1e4, 0.0)]
    check(
        [each for each in found if each.changed.startswith("fills")],
        *(("mask", "fills what is masked with -1e+09", words, value) for words, value in wanted),
    )
    ramp = np.linspace(0.0, 1.0, 24).reshape(6, 4)
    found = edits(("SelectV2", [MASK > 0, 0, ramp], np.where(MASK > 0, H, ramp)), numbers=[0.0, 1.0])
    assert not [each for each in found if each.changed.startswith("fills")], "no filling, but another branch"


EPSILON = "has the epsilon 1e-05"


@pytest.mark.parametrize(
    ("takes", "attributes"), [([0, 1e-5], {}), ([0], {"1": 1e-5})], ids=["a constant", "an attribute"]
)
def test_what_is_added_before_a_root_is_an_epsilon(takes, attributes):
    square = H**2
    ops = ("unknown", [0], square), ("add", [1, *takes[1:]], square + 1e-5, attributes)
    found = edits(*ops, ("Sqrt", [2], np.sqrt(square + 1e-5)), at=2, numbers=[1e-5, 1e-3])
    check(
        found,
        ("epsilon", "has add there", "leaves add out", square),
        ("epsilon", EPSILON, "has the epsilon 0.001", square + 1e-3),
    )
    assert found[0].dropped == "epsilon"
    found = edits(*ops, at=2, numbers=[1e-3])  # nothing reads it
    check(
        found,
        ("op_left_out", "has add there", "leaves add out", square),
        ("other_operation", "has 1e-05 in add", "has 0.001 in add", square + 1e-3),
    )


@pytest.mark.parametrize(
    ("number", "reader", "name"),
    [
        (1e-2, "log", "epsilon"),
        (-1e-2, "rsqrt", "epsilon"),
        (1.01e-2, "log", "op_left_out"),
        (0.5, "div", "op_left_out"),
        (1e-3, "tanh", "op_left_out"),
    ],
)
def test_an_epsilon_is_small_and_in_front_of_what_fails_at_0(number, reader, name):
    square = H**2 + 1.0
    ops = ("Square", [0], square - 1.0), ("add", [1, 1.0], square), ("add", [2, number], square + number)
    assert edits(*ops, (reader, [3, X], X), at=3)[0].name == name


def test_a_constant_is_replaced_by_the_numbers_near_and_is_told_by_what_it_is():
    def told(kind, output, number, *readers, of_loss=False):
        found = edits((kind, [0, number], output), *readers, numbers=[number, 3.0], of_loss=of_loss)
        return [(each.name, each.as_is, each.changed) for each in found if each.changed.startswith("has")]

    square, relu = ("Square", [1], 4 * H**2), ("Maximum", [0, 1], np.maximum(H, 0.1 * H))
    assert told("Mul", 2 * H, 2.0, square) == [("scale", "has 2 in mul", "has 3 in mul")]
    assert told("Mul", 2 * H, 2.0) == [("loss_term", "has 2 in mul", "has 3 in mul")]
    assert told("RealDiv", H / 2, 2.0, square) == [("scale", "has 2 in div", "has 3 in div")]
    assert told("Mul", 0.1 * H, 0.1, relu) == [("activation_function", "has 0.1 in mul", "has 3 in mul")]
    assert told("Add", H + 2, 2.0, relu) == [("other_operation", "has 2 in add", "has 3 in add")]
    assert told("Add", H + 2, 2.0, of_loss=True) == [("loss_function", "has 2 in add", "has 3 in add")]


def test_a_factor_of_next_to_nothing_or_beyond_all_is_no_other_number():
    numbers = [1e-5, 1e-4, 1e4, 1.01e4, -1e-4, 0.0]
    for kind, output in (("Mul", 2 * H), ("RealDiv", H / 2)):
        found = edits((kind, [0, 2.0], output), ("Square", [1], output**2), numbers=numbers)
        changed = [each.changed for each in found if each.changed.startswith("has")]
        assert changed == [f"has {number:.9g} in {found[0].dropped}" for number in (1e-4, 1e4, -1e-4)]
    found = edits(("Add", [0, 2.0], H + 2), numbers=numbers)
    assert len([each for each in found if each.changed.startswith("has")]) == len(numbers)


def test_a_setting_is_replaced_by_the_numbers_near():
    leaky = np.where(H > 0, H, 0.2 * H)
    found = only(edits(("LeakyRelu", [0], leaky, {"alpha": 0.2}), numbers=[0.2, 0.5]), "activation_function")
    wanted = ("activation_function", "has 0.2 in leaky_relu", "has 0.5 in leaky_relu", np.where(H > 0, H, H / 2))
    check([each for each in found if each.changed.startswith("has")], wanted)
    whole = edits(("mul", [0], 2 * H, {"1": 2}), numbers=[3.0])
    assert "has 3 in mul" in [each.changed for each in whole]
    truth = edits(("Sum", [0, np.array([1])], H.sum(1, keepdims=True), KEPT), numbers=[0.0])
    assert not [each for each in truth if each.changed.startswith("has")]


def test_the_epsilon_of_a_norm_is_one_where_torch_has_it_by_name_or_by_place():
    def norm(axes, eps):
        return (H - H.mean(axes, keepdims=True)) / np.sqrt(H.var(axes, keepdims=True) + eps)

    for kind, axis, attributes, place in (
        ("layer_norm", 1, {"1": [4]}, "4"),
        ("layer_norm", 1, {"1": [4]}, "eps"),
        ("batch_norm", 0, {"5": True}, "7"),
    ):
        found = edits((kind, [0], norm(axis, 1e-5), {**attributes, place: 1e-5}), numbers=[1e-3])
        check(only(found, "epsilon"), ("epsilon", EPSILON, "has the epsilon 0.001", norm(axis, 1e-3)))


def test_a_picked_place_may_be_another_or_the_last_or_what_all_come_to():
    found = edits(("Reshape", [0], CUBE), ("StridedSlice", [1], CUBE[:, 1]), at=2)
    as_is = "takes place 1 of axis 1"
    check(
        found,
        ("pooling", as_is, "takes the last place of axis 1", CUBE[:, 3]),
        ("pooling", as_is, "takes place 0 of axis 1", CUBE[:, 0]),
        ("pooling", as_is, "takes place 2 of axis 1", CUBE[:, 2]),
        ("pooling", as_is, "takes place 3 of axis 1", CUBE[:, 3]),
        ("pooling", as_is, "takes the mean over axis 1", CUBE.mean(1)),
        ("pooling", as_is, "takes the max over axis 1", CUBE.max(1)),
        ("pooling", as_is, "takes the sum over axis 1", CUBE.sum(1)),
    )
    last = edits(("Reshape", [0], CUBE), ("getitem", [1], CUBE[:, :, 2]), at=2)
    assert {each.as_is for each in last} == {"takes place 2 of axis 2"}
    first = edits(("Reshape", [0], CUBE), ("getitem", [1], CUBE[0]), at=2)
    assert first == [], "another example is no other place"
    long = np.arange(140.0).reshape(1, 70, 2)
    picked = edits(("Reshape", [0], long), ("getitem", [1], long[:, 3]), at=2)
    assert [each.changed for each in picked][63:66] == [
        "takes place 63 of axis 1",
        "takes the mean over axis 1",
        "takes the max over axis 1",
    ]
    whole = np.arange(24).reshape(2, 4, 3)
    assert edits(("Cast", [0], whole), ("getitem", [1], whole[:, 1]), at=2) == [], "indices are no sequence of outputs"


def test_a_stretch_of_an_axis_may_begin_elsewhere():
    long = RANDOM.normal(size=(2, 7, 3))

    def cut(start, count, **near):
        part = long[:, start : start + count]
        return edits(("Reshape", [0], long), ("StridedSlice", [1], part), at=2, **near)

    check(
        cut(1, 5),
        ("other_operation", "takes places 1 to 5 of axis 1", "takes places 0 to 4 of axis 1", long[:, :5]),
        ("other_operation", "takes places 1 to 5 of axis 1", "takes places 2 to 6 of axis 1", long[:, 2:]),
    )
    assert {each.name for each in cut(1, 5, of_loss=True)} == {"labels_shifted"}
    assert len(cut(0, 3)) == 4 and cut(0, 2) == [], "no more than four places are cut off"
    short = long[:, :3]
    assert edits(("Reshape", [0], short), ("StridedSlice", [1], short[:, :2]), at=2) != []
    assert only(edits(("Reshape", [0], short), ("getitem", [1], short[:, :1]), at=2), "other_operation") == []
    two = edits(("Reshape", [0], long), ("getitem", [1], long[:, :5, :2]), at=2)
    assert two == [], "cut along two axes"
    assert edits(("Reshape", [0], long), ("resample", [1], long[:, :5]), at=2) == []


def test_a_function_may_be_taken_of_what_an_op_gives_or_of_what_it_takes():
    behind = ("AddV2", [0, X], H + X), ("Tanh", [1], np.tanh(H + X))
    found = [each for each in edits(*behind, at=2) if "in front" in each.changed or "behind" in each.changed]
    words = ("takes tanh behind add", "takes tanh in front of add")
    check(
        found,
        ("activation_function", *words, np.tanh(H) + X),
        ("activation_function", *words, H + np.tanh(X)),
    )
    before = ("Tanh", [0], np.tanh(H)), ("AddV2", [1, X], np.tanh(H) + X)
    found = [each for each in edits(*before, at=2) if "in front" in each.changed or "behind" in each.changed]
    check(found, ("activation_function", *words[::-1], np.tanh(H + X)))
    squares = ("Square", [0], H**2), ("Sub", [1, X], H**2 - X)
    names = {
        each.name for of_loss in (True, False) for each in edits(*squares, at=2, of_loss=of_loss) if "behind" in each.changed
    }  # fmt: skip
    assert names == {"loss_function", "other_operation"}
    counted = ("AddV2", [0, np.arange(4)], H + np.arange(4)), ("Tanh", [1], np.tanh(H + np.arange(4)))
    found = [each for each in edits(*counted, at=2) if "in front" in each.changed]
    assert len(found) == 1, "whole numbers are counts or places, of which nobody takes a function"


SMOOTH = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
LEAKY = {f"leaky_relu of slope {slope}": slope for slope in ("0.01", "0.1", "0.2", "0.3")}


def softmax(x, axis=-1):
    shares = np.exp(x)
    return shares / shares.sum(axis, keepdims=True)


def functions(kind, x):
    """All activation functions but the own, by name."""
    made = {name: function(x) for name, function in SMOOTH.items() if name != kind}
    made |= {name: np.where(x > 0, x, float(slope) * x) for name, slope in LEAKY.items()}
    return {**made, "softmax": softmax(x)}


def test_a_function_is_replaced_by_every_activation_and_by_what_the_other_side_has_near():
    big = 8.0 * H  # beyond 6 in places, so that ReLU6 and ReLU differ
    scaled = ("unknown", [0], big)
    found = edits(scaled, ("Relu", [1], np.maximum(big, 0)), at=2)
    made = functions("relu", big).items()
    check(found[1:], *(("activation_function", "computes relu", f"computes {name}", value) for name, value in made))
    found = edits(("Square", [0], H**2), ("Log", [1], np.log(H**2)), at=2, kinds=["sqrt", "sin"], of_loss=True)
    told = {each.changed: each for each in found}
    assert told["computes sqrt"].name == told["computes sin"].name == "loss_function"
    assert np.allclose(told["computes sqrt"].value, abs(H))
    assert told["computes tanh"].name == "activation_function"
    assert not {"computes softmax", "computes cos", "computes log"} & set(told)
    found = edits(("Exp", [0], np.exp(H)), kinds=["sqrt"])
    assert not [each for each in found if "sqrt" in each.changed], "a root of what is below 0 is no number"


@pytest.mark.parametrize(
    ("near", "name"),
    [
        ("gelu", "gelu"),
        ("erf", "gelu"),
        ("pow", "gelu (tanh)"),
        ("tanh", "gelu (tanh)"),
        ("relu6", "hard sigmoid"),
        ("relu6", "hard swish"),
        ("hardswish", "hardswish"),
        ("softplus", "mish"),
        ("selu", "selu"),
    ],
)
def test_a_function_of_several_ops_is_tried_where_one_of_them_is_near(near, name):
    tried = {each.changed for each in edits(("Relu", [0], np.maximum(H, 0)), kinds=[near])}
    assert f"computes {name}" in tried
    assert f"computes {name}" not in {each.changed for each in edits(("Relu", [0], np.maximum(H, 0)), kinds=["sin"])}


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("Sub", lambda x, y: x - y),
        ("RealDiv", lambda x, y: x / y),
        ("Pow", lambda x, y: x**y),
        ("rsub", lambda x, y: y - x),
        ("rdiv", lambda x, y: y / x),
    ],
)
def test_operands_that_have_an_order_are_exchanged(kind, function):
    positive = np.exp(X)
    plain = {"RealDiv": "div"}.get(kind, kind.lower())
    found = edits(("Exp", [0], np.exp(H)), (kind, [1, positive], function(np.exp(H), positive)), at=2)
    words = f"has the operands of {plain} in order", f"exchanges the operands of {plain}"
    swapped = [each for each in found if each.changed.startswith("exchanges")]
    check(swapped, ("other_operation", *words, function(positive, np.exp(H))))
    assert not [each for each in edits(("Maximum", [0, X], np.maximum(H, X))) if "exchanges" in each.changed]


ALL = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}


@pytest.mark.parametrize(("of_loss", "name"), [(False, "reduction"), (True, "loss_reduction")])
def test_a_reduction_is_replaced_by_others_over_its_own_axes_and_then_over_other_axes(of_loss, name):
    found = edits(("Sum", [0, np.array([1])], H.sum(1)), of_loss=of_loss)
    wanted = [
        (f"the {how} over {words}", function(H, axis=axes))
        for axes, words in ((1, "axis 1"), (0, "axis 0"), (None, "all axes"))
        for how, function in ALL.items()
        if (how, axes) != ("sum", 1)
    ]
    wanted += [("the first of axis 1", H[:, 0]), ("the last of axis 1", H[:, 3])]
    check(found, *((name, "takes the sum over axis 1", f"takes {words}", value) for words, value in wanted))


@pytest.mark.parametrize(
    ("takes", "attributes", "output", "words"),
    [
        ([0, np.array([0, 1])], {}, CUBE.max((0, 1)), "axis 0, 1"),
        ([0], {"1": [-1]}, CUBE.max(2), "axis 2"),
        ([0], {"1": 1}, CUBE.max(1), "axis 1"),
        ([0], {"dim": [2, 0]}, CUBE.max((0, 2)), "axis 0, 2"),
        ([0], {}, CUBE.max(), "all axes"),
        ([0, np.array([1])], KEPT, CUBE.max(1, keepdims=True), "axis 1"),
    ],
)
def test_the_axes_of_a_reduction_are_read_where_either_framework_has_them(takes, attributes, output, words):
    takes = [1, *takes[1:]]
    found = edits(("Reshape", [0], CUBE), ("Max", takes, output, attributes), at=2)
    assert {each.as_is for each in found} == {f"takes the max over {words}"}
    one_axis = sum("first of" in each.changed or "last of" in each.changed for each in found)
    assert one_axis == (2 if words.count(",") == 0 and words != "all axes" else 0)
    keeps = output.ndim == CUBE.ndim
    assert len(found) == 7 * 5 - 1 + one_axis and all((each.value.ndim == CUBE.ndim) == keeps for each in found)


def test_counts_are_reduced_too_and_single_numbers_and_truths_are_not():
    whole = np.arange(24).reshape(6, 4)
    assert len(edits(("Cast", [0], whole), ("Sum", [1, np.array([1])], whole.sum(1)), at=2)) == 16
    truths = edits(("Cast", [0], H > 0), ("Sum", [1, np.array([1])], (H > 0).sum(1)), at=2)
    assert not [each for each in truths if "over" in each.changed]
    assert edits(("Mean", [0], H.mean()), ("Sum", [1], H.mean()), at=2) == []


@pytest.mark.parametrize(
    ("kind", "function"), [("softmax", softmax), ("LogSoftmax", lambda x, axis: np.log(softmax(x, axis)))]
)
def test_a_softmax_goes_over_each_other_axis(kind, function):
    found = edits(("Reshape", [0], CUBE), (kind, [1], function(CUBE, 2), {"dim": 2}), at=2)
    name = "softmax" if kind == "softmax" else "log_softmax"
    as_is = f"normalises {name} over another axis"
    check(
        only(found, "softmax_axis"),
        ("softmax_axis", as_is, f"normalises {name} over axis 0 of 3", function(CUBE, 0)),
        ("softmax_axis", as_is, f"normalises {name} over axis 1 of 3", function(CUBE, 1)),
    )


def test_over_another_axis_a_softmax_of_what_is_masked_throughout_has_equal_shares():
    masked = np.where(np.arange(4) < 3, H, -np.inf)
    found = only(edits(("Select", [0], masked), ("Softmax", [1], softmax(masked)), at=2), "softmax_axis")
    assert np.allclose(found[0].value[:, 3], 1 / 6) and np.allclose(found[0].value[:, :3], softmax(H[:, :3], 0))


def test_a_softmax_goes_over_a_part_of_what_the_other_side_has_in_parts():
    given = edits(("Softmax", [0], softmax(H)), fed=[("softmax", H.reshape(6, 2, 2)), ("mul", H.reshape(3, 2, 4))])
    found = {each.changed: each.value for each in only(given, "softmax_axis")}
    assert list(found) == [
        f"normalises softmax over axis {axis}" for axis in ("0 of 2", *(f"{n} of 6x2x2" for n in range(3)))
    ]
    assert np.allclose(found["normalises softmax over axis 2 of 6x2x2"], softmax(H.reshape(6, 2, 2), 2).reshape(6, 4))


def test_what_is_joined_is_joined_in_every_other_order():
    one, two, three = (RANDOM.normal(size=(6, 2)) for _ in range(3))
    found = edits(("ConcatV2", [0, one, two, np.int64(1)], np.concatenate([H, one, two], 1)))
    parts, orders = [H, one, two], [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    words = [("channel_order", "joins 3 in order", f"joins them in the order {order}") for order in orders]
    made = [np.concatenate([parts[each] for each in order], 1) for order in orders]
    check(found, *((*each, value) for each, value in zip(words, made, strict=True)))
    four, five = ([H, one, two, three, X][:count] for count in (4, 5))
    for many, count in ((four, 23), (five, 0), ([H], 0)):
        takes = [0, *many[1:], np.int64(1)]
        assert len(edits(("ConcatV2", takes, np.concatenate(many, 1)))) == count


def test_a_square_factor_of_a_product_is_multiplied_by_as_its_transpose_unless_it_is_a_weight():
    square, other = H[:4], RANDOM.normal(size=(4, 4))
    cut = ("Slice", [0], square)
    found = edits(cut, ("MatMul", [1, 1], square @ square), at=2)
    words = "multiplies by it as it is", "multiplies by its transpose"
    check(
        [each for each in found if each.name == "transposed_product"],
        ("transposed_product", *words, square.T @ square),
        ("transposed_product", *words, square @ square.T),
    )
    found = edits(cut, ("MatMul", [1, other], square @ other), at=2)
    check(only(found, "transposed_product"), ("transposed_product", *words, square.T @ other))
    assert only(edits(("MatMul", [0, V], H @ V)), "transposed_product") == []
    assert only(edits(("AddV2", [0, H[0]], H + H[0])), "transposed_product") == []


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,)])
def test_a_number_for_each_row_of_a_square_may_be_taken_for_each_column(shape):
    square, vector = H @ H.T, H[:, 0]
    square, vector = square[:4, :4], vector[:4].reshape(shape)
    side = ("Slice", [0], square), ("Slice", [0], vector), ("Sub", [1, 2], square - vector)
    found = [each for each in edits(*side, at=3, of_loss=True) if each.changed == "takes it along the other axis"]
    other = vector.reshape(-1)[:, None] if shape != (4, 1) else vector.reshape(-1)
    assert [each.name for each in found] == ["loss_function"] and np.allclose(found[0].value, square - other)
    flat = ("Slice", [0], H[:, :3]), ("Slice", [0], H[0, :3]), ("Sub", [1, 2], H[:, :3] - H[0, :3])
    assert not [each for each in edits(*flat, at=3) if "other axis" in each.changed], "no square"


def test_a_sum_that_is_divided_by_a_count_is_a_mean_and_without_it_another_reduction():
    count = MASK.sum(1, keepdims=True)
    counted = ("Cast", [MASK], MASK), ("Sum", [1, np.array([1])], count, KEPT)
    for of_loss, name in ((True, "loss_reduction"), (False, "reduction")):
        found = edits(*counted, ("RealDiv", [0, 2], H / count), at=3, of_loss=of_loss)
        assert (found[0].name, found[0].changed) == (name, "leaves what model.py:3  line 2 gives out")
        kept = ("Maximum", [2, 1.0], np.maximum(count, 1.0)), ("RealDiv", [0, 3], H / count)
        assert edits(*counted, *kept, at=4, of_loss=of_loss)[0].name == name
    shares = ("Sum", [0, np.array([1])], H.sum(1, keepdims=True), KEPT)
    found = edits(shares, ("RealDiv", [0, 1], H / H.sum(1, keepdims=True)), at=2)
    assert found[0].name == "op_left_out", "of itself: what is left out makes shares, and no mean"
    average = ("Mean", [0, np.array([1])], H.mean(1, keepdims=True), KEPT)
    assert edits(average, ("RealDiv", [0, 1], H / H.mean(1, keepdims=True)), at=2)[0].name == "op_left_out"
    assert edits(*counted, ("Sub", [0, 2], H - count), at=3, of_loss=True)[0].name == "op_left_out"


def enlarged(x, size, axis):
    """Corners on corners, and what lies between them in proportion."""
    at = np.linspace(0, x.shape[axis] - 1, size)
    return np.apply_along_axis(lambda values: np.interp(at, np.arange(len(values)), values), axis, x)


@pytest.mark.parametrize("kind", ["ResizeBilinear", "upsample_bilinear2d"])
def test_a_resizing_is_replaced_by_every_other_way_that_gives_the_same_size(kind):
    small, last = H.reshape(2, 3, 4, 1), kind.startswith("Resize")
    made, nearest = enlarged(enlarged(small, 6, 1), 8, 2), small.repeat(2, 1).repeat(2, 2)
    given, made, nearest = (each if last else np.moveaxis(each, -1, 1) for each in (small, made, nearest))
    takes, attributes = ([1, np.array([6, 8])], {"align_corners": True}) if last else ([1], {"1": [6, 8], "2": True})
    found = edits(("Reshape", [0], given), (kind, takes, made, attributes), at=2)
    assert {each.name for each in found} == {"resizing"} and len(found) >= 6
    assert {each.as_is for each in found} == {"resizes bilinear with aligned corners"}
    words = "resizes one pixel each from the first corner on, rounded down"
    assert np.array_equal(next(each for each in found if each.changed == words).value, nearest)
    assert edits(("Reshape", [0], given), (kind, takes, np.sin(made), attributes), at=2) == []
    assert edits(("Reshape", [0], given), ("rescale", takes, made, attributes), at=2) == []


def named_where(found, words):
    return [each.name for each in found if words in each.changed]


def test_a_factor_that_is_left_out_is_a_factor_and_behind_all_layers_a_part_of_the_loss():
    halved, clipped = ("RealDiv", [0, 2.0], H / 2), ("Minimum", [1, 1.0], np.minimum(H / 2, 1.0))
    assert edits(halved, clipped)[0][2:5] == ("scale", "has div there", "leaves div out")
    assert edits(halved, clipped, of_loss=True)[0].name == "loss_function"
    assert edits(halved, of_loss=True)[0].name == "loss_term", "of the loss it is the weight of a term"
    shares = ("Softmax", [1], softmax(H / 2))
    assert edits(halved, shares, of_loss=True)[0].name == "scale", "of what goes into a softmax"
    masked = ("Sub", [1, 9 * MASK], H / 2 - 9 * MASK)
    assert edits(halved, masked, ("Softmax", [2], softmax(masked[2])), of_loss=True)[0].name == "scale"
    assert edits(halved, clipped, ("Softmax", [2], softmax(clipped[2])), of_loss=True)[0].name == "loss_function"
    assert edits(("mul", [0], 2 * H, {"1": 2.0}), clipped)[0].name == "scale"
    assert edits(("AddV2", [0, 2.0], H + 2), clipped)[0].name == "op_left_out", "nothing is multiplied"
    assert edits(("Mul", [0, X], H * X), clipped)[0].name == "op_left_out", "no constant"


def test_a_mask_that_a_number_is_multiplied_by_is_left_out_like_one_of_anything_else():
    found = edits(("Cast", [0], MASK), ("Mul", [0.9, 1], 0.9 * MASK), at=2)
    check(found[:1], ("op_left_out", "has mul there", "leaves what model.py:2  line 1 gives out", np.full((6, 4), 0.9)))
    assert found[0].dropped == "mask"
    assert named_where(edits(("Tanh", [0], np.tanh(H)), ("Mul", [0.9, 1], 0.9 * np.tanh(H)), at=2), "gives out") == []


def test_what_is_divided_by_is_no_mask_though_it_is_one_of_two_numbers():
    counts = 2 - MASK[:, 1:2]
    counted = ("Cast", [0], MASK), ("Sum", [1, np.array([1])], counts, KEPT), ("RealDiv", [0, 2], H / counts)
    for of_loss, name in ((False, "reduction"), (True, "loss_reduction")):
        found = edits(*counted, at=3, of_loss=of_loss)
        assert named_where(found, "divides by one number throughout") == [name] * 2
        assert only(found, "mask") == []
    sized = ("Cast", [0], counts), ("RealDiv", [0, 1], H / counts)
    assert set(named_where(edits(*sized, at=2), "divides by")) == {"scale"}
    for numbers, name in (
        (counts, "other_operation"),
        (counts - 1, "mask"),
    ):  # a mask takes something away: it has zeros
        divided = edits(("Cast", [0], numbers), ("RealDiv", [1, 0], numbers / H), at=2)
        assert set(named_where(divided, "takes")) == {name}


def length(x, axis, *kind):
    squares = (x**2).sum(axis, keepdims=True)
    return [
        ("Square", [0], x**2),
        ("Sum", [1, np.array([axis])], squares, KEPT),
        ("Maximum", [2, 1e-12], np.maximum(squares, 1e-12)),
        ("Rsqrt", [3], 1 / np.sqrt(squares)),
        *kind,
    ]


def test_a_length_over_another_axis_that_what_is_squared_is_divided_by_is_another_axis_of_a_norm():
    own = H / np.sqrt((H**2).sum(1, keepdims=True))
    found = edits(*length(H, 1, ("Mul", [0, 4], own)), at=2)
    assert named_where(found, "takes the sum over axis 0") == ["normalised_axis"]
    assert named_where(found, "takes the mean over axis 1") == ["reduction"], "over the same axis it is another sum"
    # The length of something else, or one by which nothing is divided, is a sum like any other.
    other = ("Mul", [X, 4], X / np.sqrt((H**2).sum(1, keepdims=True)))
    assert named_where(edits(*length(H, 1, other), at=2), "takes the sum over axis 0") == ["reduction"]
    squares = length(H, 1)[:2]
    assert named_where(edits(*squares, ("Mul", [0, 2], H * 2), at=2), "takes the sum over axis 0") == ["reduction"]


def test_another_place_of_a_sequence_that_is_cut_into_all_of_its_steps_is_no_pooling():
    steps = [("StridedSlice", [1], CUBE[:, place]) for place in range(4)]
    found = edits(("Reshape", [0], CUBE), *steps, at=3)
    assert {name for each in ("takes place", "takes the last") for name in named_where(found, each)} == {"moved_values"}
    assert set(named_where(found, "over axis 1")) == {"pooling"}
    found = edits(("Reshape", [0], CUBE), *steps[:3], at=3)
    assert set(named_where(found, "takes place")) == {"pooling"}, "one of its places is not taken"


def test_labels_that_a_pass_does_not_keep_are_known_by_what_takes_them():
    words, scores = np.array([[3, 1, 2, 0], [2, 2, 1, 3]]), RANDOM.normal(size=(2, 3, 4))
    labels = words[:, 1:]
    picked = np.take_along_axis(scores, labels[..., None], 2)[..., 0]
    ops = ("getitem", [words], labels), ("gather", [scores, np.array(2), labels[..., None]], picked)
    side = passed(*ops)
    taking = side.ops[1].operands[2]
    for shape, known in (((2, 3), True), ((2, 3, 1), False)):  # as it is, and laid out anew
        operand = taking._replace(op=0, name="", shape=list(shape))
        of_labels = side.ops[1]._replace(inputs=[0], operands=(*side.ops[1].operands[:2], operand))
        kept = side._replace(
            ops=[side.ops[0], of_labels],
            value=lambda number: None if number == 0 else picked,
            operand=lambda number, at: [[words], [scores, np.array(2), labels]][number][at],
        )
        run = RecomputedPass(kept)
        assert (run.output(0) is not None) == known
        near = Near(set(), [], [], [], [], frozenset(), True)
        assert ("labels_shifted" in [each.name for each in plain_edits(run, 0, near)]) == known


@pytest.mark.parametrize(("of_loss", "name"), [(False, "reduction"), (True, "loss_reduction")])
def test_a_running_sum_is_made_along_each_axis_from_each_end_and_without_each_place_itself(of_loss, name):
    found = only(edits(("Cumsum", [0, np.int64(1)], np.cumsum(H, 1)), of_loss=of_loss), name)
    as_is, back = "adds up along axis 1", np.cumsum(H[:, ::-1], 1)[:, ::-1]
    check(
        found,
        (name, as_is, "adds up along axis 0", np.cumsum(H, 0)),
        (name, as_is, "adds up along axis 0, its own place left out", np.cumsum(H, 0) - H),
        (name, as_is, "adds up along axis 0 from its end", np.cumsum(H[::-1], 0)[::-1]),
        (name, as_is, "adds up along axis 0 from its end, its own place left out", np.cumsum(H[::-1], 0)[::-1] - H),
        (name, as_is, "adds up along axis 1, its own place left out", np.cumsum(H, 1) - H),
        (name, as_is, "adds up along axis 1 from its end", back),
        (name, as_is, "adds up along axis 1 from its end, its own place left out", back - H),
    )
