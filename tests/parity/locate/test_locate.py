"""The layer where two forward passes part is found from their outputs alone, whatever their layout and grain."""

import numpy as np
import pytest

from parity.experiment.layers import with_location
from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.locate import at_the_mover, locate
from parity.locate import matching as reached
from parity.locate.declared import shows
from parity.locate.layouts import align, layouts, same_in_some_layout
from parity.locate.located import Located
from parity.locate.matching import Pass, alike, partners, reach, tolerance_for, tolerances_for, without_fill
from parity.trace import ForwardOp, LaidOut, Operand, SourceLine

MAPPING = {
    "conv/kernel": ("conv.weight",),
    "conv/bias": ("conv.bias",),
    "fc/kernel": ("fc.weight",),
    "fc/bias": ("fc.bias",),
}
SHAPES = {"conv/kernel": (3, 3, 1, 4), "conv/bias": (4,), "fc/kernel": (64, 5), "fc/bias": (5,)}


def made(*ops):
    """A pass of (name, kind, inputs, weights, value)."""
    listed, values = [], []
    for name, kind, inputs, weights, value in ops:
        listed.append(ForwardOp(name, kind, inputs, weights, list(np.shape(value)), {}))
        values.append(None if value is None else np.asarray(value, np.float64))
    return Pass(listed, lambda number: values[number])


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    conv = random.normal(size=(2, 4, 4, 4))
    bias, kernel, of_fc = random.normal(size=4), random.normal(size=(64, 5)), random.normal(size=5)
    return conv, bias, kernel, of_fc


def graph(arrays, pooled=None):
    """What a graph of TensorFlow's shows: every op by itself, channels last."""
    conv, bias, kernel, of_fc = arrays
    relu = np.maximum(conv + bias, 0)
    scaled = relu * 0.5 if pooled is None else pooled(relu)
    dense = scaled.reshape(2, 64) @ kernel
    logits = dense + of_fc
    each = np.log(np.exp(logits).sum(1))
    return made(
        ("tower_0/conv/Conv2D", "Conv2D", [], ["conv/kernel"], conv),
        ("tower_0/conv/BiasAdd", "BiasAdd", [0], ["conv/bias"], conv + bias),
        ("tower_0/conv/Relu", "Relu", [1], [], relu),
        ("tower_0/pool/Mul", "Mul", [2], [], scaled),
        ("tower_0/fc/MatMul", "MatMul", [3], ["fc/kernel"], dense),
        ("tower_0/fc/BiasAdd", "BiasAdd", [4], ["fc/bias"], logits),
        ("tower_0/Xent", "Xent", [5], [], each),
        ("tower_0/Mean", "Mean", [6], [], each.mean()),
    )


def port(arrays, after_conv=lambda relu: relu, scale=0.5, smoothed=0.0, bias_of_fc=1.0):
    """What a port shows: bias and activation inside its modules, channels first."""
    conv, bias, kernel, of_fc = arrays
    relu = after_conv(np.maximum(conv + bias, 0))
    scaled = relu * scale
    logits = scaled.reshape(2, 64) @ kernel + bias_of_fc * of_fc
    loss = np.log(np.exp(logits).sum(1)).mean() + smoothed
    return made(
        ("conv", "conv2d", [], ["conv.bias", "conv.weight"], np.moveaxis(conv + bias, -1, 1)),
        ("", "relu", [0], [], np.moveaxis(relu, -1, 1)),
        ("", "mul", [1], [], np.moveaxis(scaled, -1, 1)),
        ("fc", "linear", [2], ["fc.bias", "fc.weight"], logits),
        ("", "cross_entropy", [3], [], loss),
    )


def test_two_passes_that_are_the_same_part_nowhere(arrays):
    assert locate(graph(arrays), port(arrays), MAPPING, SHAPES) is None


def test_an_activation_is_found_at_the_layer_whose_scope_it_is_in(arrays):
    place = locate(graph(arrays), port(arrays, lambda relu: relu * 1.1), MAPPING, SHAPES)
    assert (place.layer, place.op.kind, place.port.kind) == ("conv", "Relu", "relu")
    assert list(place.inputs) == ["tower_0/conv/BiasAdd"]
    np.testing.assert_allclose(place.candidate, place.reference * 1.1)


def test_an_op_without_weights_between_layers_is_found_by_its_place(arrays):
    place = locate(graph(arrays), port(arrays, scale=0.25), MAPPING, SHAPES)
    assert (place.layer, place.op.kind, place.port.kind, place.same) == ("pool", "Mul", "mul", ["conv"])
    np.testing.assert_allclose(place.candidate, place.reference / 2)


def test_a_layer_that_reads_weights_is_found_by_its_variables_and_named_with_the_ports_module(arrays):
    place = locate(graph(arrays), port(arrays, bias_of_fc=0.0), MAPPING, SHAPES)
    assert (place.layer, place.port.name, place.port.kind, place.same) == ("fc", "fc", "linear", ["conv"])


def test_what_comes_behind_all_layers_is_the_loss(arrays):
    place = locate(graph(arrays), port(arrays, smoothed=0.1), MAPPING, SHAPES)
    assert (place.layer, place.op.kind, place.same) == ("", "Xent", ["conv", "fc"])


def test_what_a_port_never_shows_is_no_difference_where_what_is_computed_from_it_is_the_same(arrays):
    whole = port(arrays, scale=0.25)
    fused = Pass([*whole.ops], lambda number: None if number == 0 else whole.value(number))
    place = locate(graph(arrays), fused, MAPPING, SHAPES)
    assert place.layer == "pool", "the convolution is reached through its activation"
    assert (place.same, place.unpaired) == (["conv"], [])


@pytest.mark.parametrize(("order", "shape"), [((0, 3, 1, 2), (2, 3, 4, 5)), ((1, 0, 2, 3), (2, 3, 4, 5))])
def test_outputs_are_put_in_the_order_of_axes_that_leaves_them_nearest(order, shape):
    value = np.random.default_rng(1).normal(size=shape)
    pair = align(value, value.transpose(order) * (1 + 1e-6))
    assert pair.apart < 2e-6
    np.testing.assert_allclose(pair.candidate, value, rtol=1e-5)


def test_axes_that_are_joined_on_one_side_are_put_apart():
    value = np.random.default_rng(1).normal(size=(3, 4, 5))  # batch, time, units
    pair = align(value.reshape(12, 5), value.transpose(1, 0, 2))
    assert pair.apart == 0.0
    assert align(value, np.zeros((3, 4, 6))) is None


@pytest.mark.parametrize(
    ("wanted", "got", "fits"),
    [
        ((2, 3, 4), (6, 4), True),
        ((6, 4), (2, 3, 4), True),
        ((2, 12), (2, 3, 4), True),
        ((2, 3, 4), (24,), True),
        ((3, 8), (2, 3, 4), False),
        ((2, 1, 3), (2, 3), True),
        ((5,), (7,), False),
        ((), (1, 1), True),
    ],
)
def test_neighbouring_axes_may_be_joined_and_axes_of_one_left_out(wanted, got, fits):
    value = np.random.default_rng(3).normal(size=got)
    (plain,) = [each for each in layouts(value, wanted) if np.array_equal(each.reshape(got), value)][:1] or [None]
    assert (plain is not None) == fits


def test_no_order_of_axes_makes_numbers_fit_that_are_too_few_or_cut_elsewhere():
    assert align(np.zeros((3, 4)), np.ones((2, 6))) is None and align(np.zeros(5), np.ones(7)) is None


def test_what_is_infinite_says_nothing_of_how_far_the_rest_is_apart():
    value, other = np.array([1.0, -np.inf, 3.0]), np.array([1.0, 5.0, 4.0])
    assert align(value, value).apart == 0.0
    assert align(value, other).apart == pytest.approx(1.0 / np.sqrt(17.0))
    assert align(np.full(2, np.inf), np.ones(2)).apart == float("inf")
    assert align(np.zeros(3), np.zeros(3)).apart == 0.0
    assert align(np.zeros((1,) * 6), np.zeros((1,) * 6)) is None, "720 orders of axes"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (lambda x: x.transpose(2, 0, 1), True),
        (lambda x: x.reshape(8, 3), True),
        (lambda x: x[:, ::-1], False),
        (lambda x: x * (1 + 1e-7), False),
        (lambda x: x[..., :2], False),
        (lambda x: x.astype(str), False),
    ],
)
def test_numbers_are_in_the_same_places_in_some_order_of_the_axes(other, same):
    value = np.random.default_rng(3).normal(size=(2, 4, 3))
    assert same_in_some_layout(value, other(value), 1e-9) is same


@pytest.mark.parametrize(("apart", "same"), [(0.9e-10, True), (3e-10, False)])
def test_numbers_are_the_same_within_the_tolerance_and_not_beyond_it(apart, same):
    values = np.sort(np.random.default_rng(2).uniform(1.0, 1.1, size=50))
    assert alike(values, values * (1 + apart), 1e-10) is same


def test_an_infinity_is_as_near_as_itself_to_nothing_else():
    values = np.array([-np.inf, 0.3, 0.7])
    assert alike(values, values, 1e-10)
    for other in (-1e9, np.inf, 0.1, np.nan):
        assert not alike(values, np.array([other, 0.3, 0.7]), 1e-10)
        assert not alike(np.array([other, 0.3, 0.7]), values, 1e-10)


def test_a_masked_score_of_minus_a_billion_does_not_hide_the_others():
    values = np.array([-1e9, -1e9, 0.3, 0.7, 0.9])
    assert not alike(values, values + np.array([0, 0, 1e-6, 0, 0]), 1e-10)


SCORES = np.random.default_rng(4).normal(size=(2, 3, 5))
UNSEEN = np.broadcast_to([[False, False, True, True, True]], (2, 3, 5))
MASKED = {
    "-1e9 added": SCORES - 1e9 * UNSEEN,
    "-1e4 filled in": np.where(UNSEEN, -1e4, SCORES),
    "-inf filled in": np.where(UNSEEN, -np.inf, SCORES),
}


@pytest.mark.parametrize("one", MASKED)
@pytest.mark.parametrize("other", MASKED)
def test_scores_are_one_output_whatever_a_mask_fills_in(one, other):
    np.testing.assert_array_equal(without_fill(MASKED[one]), MASKED["-inf filled in"])
    reference, candidate = (made(("s", "op", [], [], MASKED[each])) for each in (one, other))
    assert reach(reference, candidate).reference == {0: 0}
    elsewhere = np.where(UNSEEN, MASKED[other], 1.001 * SCORES)
    assert reach(reference, made(("s", "op", [], [], elsewhere))).reference == {}


@pytest.mark.parametrize(
    ("fill", "largest", "filled"),
    [(-1e3, 1.0, True), (-999.0, 1.0, False), (-1e4, 999.0, True), (-1e4, 1001.0, False), (1e9, 1.0, False)],
)
def test_a_fill_is_a_thousand_below_0_and_ten_times_as_far_as_all_others(fill, largest, filled):
    values = np.array([[0.5, -largest, 0.25], [0.125, fill, 1.0]])
    expected = [values[0], [0.125, -np.inf, 1.0]] if filled else values
    np.testing.assert_array_equal(without_fill(values), expected)


@pytest.mark.parametrize(
    "value", [-(SCORES**2), np.full(4, -1e9), np.array([-1e9, np.nan]), np.array([-(10**9), 1]), np.zeros((0, 3))]
)
def test_what_holds_no_fill_beside_other_numbers_is_left_as_it_is(value):
    assert without_fill(value) is value


def test_a_small_difference_of_the_loss_is_looked_for_with_a_small_tolerance():
    assert tolerance_for(1e-3) == 1e-10
    assert tolerance_for(1e-8) == pytest.approx(1e-11)
    assert tolerance_for(float("nan")) == 1e-10


def test_smaller_tolerances_follow_down_to_what_rounding_leaves():
    assert list(tolerances_for(1e-3)) == pytest.approx([1e-10, 1e-11, 1e-12, 1e-13])
    assert list(tolerances_for(4e-9)) == pytest.approx([4e-12, 4e-13, 1e-13])
    assert list(tolerances_for(1e-15)) == [1e-13]


def test_a_declared_output_keeps_its_name_where_no_other_layer_comes_before_it(arrays):
    passed = graph(arrays)
    place = locate(passed, port(arrays, lambda relu: relu * 1.1), MAPPING, SHAPES)
    scaled, logits = passed.value(3), passed.value(5)
    assert shows("hidden", scaled, place, passed, SHAPES)
    assert not shows("logits", logits, place, passed, SHAPES), "the dense layer is between them"
    assert shows("conv", logits * 0, place, passed, SHAPES)


def test_a_location_says_all_that_shows_the_layer_and_what_goes_into_it(arrays):
    reference, candidate = graph(arrays), port(arrays, scale=0.25)
    place = locate(reference, candidate, MAPPING, SHAPES)
    assert (place.shown, list(place.inputs), place.fed_by) == ("tower_0/pool/Mul", ["tower_0/conv/Relu"], True)
    np.testing.assert_array_equal(place.output, reference.value(3))
    np.testing.assert_array_equal(place.inputs["tower_0/conv/Relu"], reference.value(2))
    assert (place.only_reference, place.only_candidate, place.extra, place.unpaired) == ([], [], None, [])
    assert place.parting == (3, 2, "", "fc") and place.passes == (reference, candidate)
    assert place.reached.reference == {1: 0, 2: 1} and place.lines == (None, None)
    first = locate(reference, port(arrays, bias_of_fc=0.5), MAPPING, SHAPES)
    assert (first.op.kind, first.shown, first.others) == ("MatMul", "tower_0/fc/MatMul", [])
    logits = locate(reference, port(arrays, lambda relu: relu * 1.1), MAPPING, SHAPES)
    assert logits.shown == "tower_0/conv/Relu" and [each.name for each in logits.others] == ["tower_0/pool/Mul"]
    np.testing.assert_allclose(logits.others[0].candidate, 1.1 * logits.others[0].reference)


def test_a_mask_that_each_side_makes_of_data_its_own_way_is_named_on_both():
    random = np.random.default_rng(4)
    x, kernel = random.normal(size=(3, 64)), random.normal(size=(64, 5))
    lengths, masks = np.array([1.5, 2.5, 0.5]), random.normal(size=(2, 3, 64))
    sides = []
    graphs = "tower_0/conv/Conv2D", "mask", "tower_0/add", "tower_0/fc/MatMul"
    for mask, names, sub, parts in zip(
        masks, (graphs, ("conv", "", "", "fc")), ("Sub", "rsub"), ("/kernel", ".weight"), strict=True
    ):
        sides.append(
            made(
                ("lengths", "Placeholder", [], [], lengths),
                (names[0], "Conv2D", [], [f"conv{parts}"], x),
                (names[1], sub, [0], [], mask),
                (names[2], "AddV2", [1, 2], [], x + mask),
                (names[3], "MatMul", [3], [f"fc{parts}"], (x + mask) @ kernel),
            )
        )
    place = locate(*sides, MAPPING, SHAPES)
    assert (place.layer, place.only_reference, place.only_candidate) == ("conv/add", ["mask Sub"], ["rsub"])
    assert list(place.inputs) == ["tower_0/conv/Conv2D"] and place.fed_by and place.same == ["conv"]


def test_layers_in_front_that_a_port_never_shows_are_told_apart_from_those_found_the_same():
    random = np.random.default_rng(0)
    x, one, two = random.normal(size=(3, 4)), random.normal(size=(4, 4)), random.normal(size=(4, 4))
    names = ("first", "second", "third")
    shapes = {f"{name}/kernel": (4, 4) for name in names}
    hidden = [x @ one, (x @ one) ** 3, (x @ one) ** 3 @ two]
    passed = made(*((f"tower_0/{name}/MatMul", "MatMul", [n - 1] if n else [], [f"{name}/kernel"], value)
                    for n, (name, value) in enumerate(zip(names, hidden, strict=True))))  # fmt: skip
    ports = made(
        ("first", "linear", [], ["first.weight"], hidden[0]),
        ("second", "linear", [0], ["second.weight"], None),
        ("third", "linear", [1], ["third.weight"], hidden[2] * 2),
    )
    place = locate(passed, ports, {f"{name}/kernel": (f"{name}.weight",) for name in names}, shapes)
    assert (place.layer, place.same, place.unpaired) == ("second", ["first"], [])
    assert locate(passed, ports, {}, shapes).same == ["first"]


def test_what_a_port_puts_in_front_of_a_layer_is_known():
    random = np.random.default_rng(0)
    x, kernel = random.normal(size=(3, 64)), random.normal(size=(64, 5))
    hidden, doubled = np.tanh(x), np.tanh(x) * 2
    passed = made(
        ("tower_0/conv/Conv2D", "Conv2D", [], ["conv/kernel"], hidden),
        ("tower_0/fc/MatMul", "MatMul", [0], ["fc/kernel"], hidden @ kernel),
    )
    ports = made(
        ("conv", "conv2d", [], ["conv.weight"], hidden),
        ("", "mul", [0], [], doubled),
        ("fc", "linear", [1], ["fc.weight"], doubled @ kernel),
    )
    place = locate(passed, ports, MAPPING, SHAPES)
    assert (place.layer, place.extra.op.kind) == ("fc", "mul")
    np.testing.assert_array_equal(place.extra.after, place.extra.before * 2)
    assert place.fed_by


@pytest.mark.parametrize("scope", ["tower_0/fc/", "tower_0/"])
def test_an_op_that_the_reference_has_too_is_nothing_that_a_port_puts_in_front_of_a_layer(scope):
    random = np.random.default_rng(0)
    x, kernel = random.normal(size=(3, 64)), random.normal(size=(64, 5))
    leaky, plain = np.where(x > 0, x, 0.2 * x), np.maximum(x, 0)
    passed = made(
        ("tower_0/conv/Conv2D", "Conv2D", [], ["conv/kernel"], x),
        (f"{scope}LeakyRelu", "LeakyRelu", [0], [], leaky),
        ("tower_0/fc/MatMul", "MatMul", [1], ["fc/kernel"], leaky @ kernel),
    )
    ports = made(
        ("conv", "conv2d", [], ["conv.weight"], x),
        ("", "relu", [0], [], plain),
        ("fc", "linear", [1], ["fc.weight"], plain @ kernel),
    )
    assert locate(passed, ports, MAPPING, SHAPES).extra is None


def test_what_a_port_does_to_the_loss_alone_is_found_in_the_port(arrays):
    passed = graph(arrays)
    each = made(*[(op.name, op.kind, op.inputs, op.weights, passed.value(n)) for n, op in enumerate(passed.ops)])
    loss = passed.value(7)
    scaled = Pass([*each.ops, ForwardOp("", "mul", [7], [], [], {})], lambda n: loss * 1.5 if n == 8 else each.value(n))
    place = locate(passed, scaled, MAPPING, SHAPES)
    assert (place.layer, place.op.kind, place.port.kind) == ("", "Mean", "mul")


def test_variables_that_are_exchanged_are_found_where_the_first_is_read():
    random = np.random.default_rng(0)
    x, one, other = random.normal(size=(3, 4)), random.normal(size=(4, 4)), random.normal(size=(4, 4))
    shapes = {"first/kernel": (4, 4), "second/kernel": (4, 4)}
    passed = made(
        ("tower_0/first/MatMul", "MatMul", [], ["first/kernel"], x @ one),
        ("tower_0/second/MatMul", "MatMul", [0], ["second/kernel"], x @ one @ other),
    )
    ports = made(
        ("first", "linear", [], ["first.weight"], x @ other),
        ("second", "linear", [0], ["second.weight"], x @ other @ one),
    )
    mapping = {"first/kernel": ("second.weight",), "second/kernel": ("first.weight",)}
    assert locate(passed, ports, mapping, shapes).layer == "first"


def test_an_op_without_scope_is_named_by_the_layer_before_it():
    x = np.random.default_rng(0).normal(size=(3, 4))
    shapes = {"net/w1": (4, 4), "net/w2": (4, 4)}
    passed = made(
        ("MatMul", "MatMul", [], ["net/w1"], x),
        ("Relu", "Relu", [0], [], abs(x)),
        ("MatMul_1", "MatMul", [1], ["net/w2"], x**3),
    )
    ports = made(
        ("", "linear", [], ["w1"], x), ("", "silu", [0], [], abs(x) + 1), ("", "linear", [1], ["w2"], x**3 + 1)
    )
    assert locate(passed, ports, {"net/w1": ("w1",), "net/w2": ("w2",)}, shapes).layer == "net/w1/Relu"


@pytest.mark.parametrize(
    ("value", "tells"),
    [
        ([0.5, 1.5], True),
        ([0.5, 0.5], False),
        ([1.0, 2.0], False),
        ([0.25], True),
        ([np.nan, 1.0], True),
        ([np.inf, 1.0], False),
        ([np.inf, -np.inf], True),
    ],
)
def test_whole_numbers_and_constants_tell_nothing_and_what_is_not_finite_does(value, tells):
    one = made(("a", "op", [], [], np.array(value)))
    assert reached.reach(one, one).told == (({0}, {0}) if tells else (set(), set()))


def test_numbers_that_are_not_finite_are_located_where_they_begin(arrays):
    broken = port(arrays, lambda relu: np.where(relu == relu.max(), np.nan, relu))
    place = locate(graph(arrays), broken, MAPPING, SHAPES)
    assert (place.layer, place.op.kind) == ("conv", "Relu")


def test_an_op_that_a_port_lacks_in_front_of_a_layer_is_found_before_the_layer():
    x, kernel = np.random.default_rng(0).normal(size=(3, 64)), np.random.default_rng(1).normal(size=(64, 5))
    passed = made(
        ("tower_0/conv/Conv2D", "Conv2D", [], ["conv/kernel"], x),
        ("tower_0/Tanh", "Tanh", [0], [], np.tanh(x)),
        ("tower_0/fc/MatMul", "MatMul", [1], ["fc/kernel"], np.tanh(x) @ kernel),
    )
    ports = made(("conv", "conv2d", [], ["conv.weight"], x), ("fc", "linear", [0], ["fc.weight"], x @ kernel))
    assert locate(passed, ports, MAPPING, SHAPES).layer == "conv/Tanh"


def test_outputs_whose_sums_differ_are_not_compared_number_by_number(monkeypatch):
    random = np.random.default_rng(5)
    values = [random.normal(size=30) for _ in range(20)]
    one = made(*[("", "op", [], [], value) for value in values])
    other = made(*[("", "op", [], [], value[::-1]) for value in [*values[::-1], values[3]]])
    compared = []
    monkeypatch.setattr(reached, "alike", lambda *given: compared.append(1) or alike(*given))
    found = partners(one, other)
    assert found == {number: [19 - number, *([20] if number == 3 else [])] for number in range(20)}
    assert len(compared) == 2 * 21, "in the order in which they are, and sorted"


def test_a_part_that_is_right_proves_nothing_of_what_it_is_cut_out_of():
    """Two batches go through a layer together in the port: of the one all before it is wrong."""
    random = np.random.default_rng(0)
    given, real, kernel = random.normal(size=(2, 3)), random.normal(size=(2, 3)), random.normal(size=(3, 4))

    def reference(x):
        fake = np.where(x > 0, x, 0.2 * x)
        return made(
            ("x", "Placeholder", [], [], x),
            ("real", "Placeholder", [], [], real),
            ("tower_0/gen/MatMul", "MatMul", [0], ["gen/kernel"], x @ kernel[:, :3]),
            ("tower_0/lrelu", "Mul", [2], [], fake),
            ("tower_0/fc/MatMul", "MatMul", [1], ["fc/kernel"], real @ kernel),
            ("tower_0/fc_1/MatMul", "MatMul", [3], ["fc/kernel"], fake @ kernel),
            ("tower_0/Sum", "Sum", [4, 5], [], (real @ kernel).std() + (fake @ kernel).std()),
        )

    fake = np.where(given > 0, given, 0.01 * given)
    both = np.concatenate([real, fake])
    port = made(
        ("", "__getitem__", [], [], given),
        ("", "__getitem__", [], [], real),
        ("gen", "linear", [0], ["gen.weight"], given @ kernel[:, :3]),
        ("gen", "leaky_relu", [2], [], fake),
        ("", "cat", [1, 3], [], both),
        ("fc", "linear", [4], ["fc.weight"], both @ kernel),
        ("", "chunk", [5], [], real @ kernel),
        ("", "chunk", [5], [], fake @ kernel),
        ("", "sum", [6, 7], [], (real @ kernel).std() + (fake @ kernel).std()),
    )
    mapping = {"gen/kernel": ("gen.weight",), "fc/kernel": ("fc.weight",)}
    place = locate(reference(given), port, mapping, {"gen/kernel": (3, 3), "fc/kernel": (3, 4)})
    assert place is not None
    assert (place.parting.reference, place.parting.candidate) == (3, 3)


def test_numbers_in_other_places_are_followed_back_to_what_put_them_there():
    """Two features are joined one after the other in the graph, in turn in the port, which multiplies by a mask then."""
    random = np.random.default_rng(4)
    one, two, mask = (random.normal(size=(5, 4)) for _ in range(3))
    joined, mask = np.concatenate([one, two], 1), np.concatenate([mask, random.normal(size=(5, 4))], 1)
    stacked = np.stack([one, two], 2)
    line = SourceLine("model.py", 7, "forward", "return stacked.flatten(1)", ())

    def passes(in_turn, laid_out):
        """What joins them in the port puts them in places of its own, or what lays them out behind it does."""
        taken = Operand("0", "", 0, [5, 8], None, laid_out)
        graph = [("Sub", [], joined, ()), ("Mul", [0], joined * mask, (Operand("0", "", 0, [5, 8]),))]
        turned = stacked.reshape(5, 8)
        of_port = [("cat", [], in_turn, ()), ("mul", [0], turned * mask, (taken,))]
        made = []
        for side, wrong in ((graph, joined), (of_port, turned)):
            ops = [
                ForwardOp(f"m{n}", kind, ins, [] if n else ["w"], list(v.shape), {}, None, o)
                for n, (kind, ins, v, o) in enumerate(side)
            ]
            made.append(Pass(ops, [v for _, _, v, _ in side].__getitem__, lambda n, at, wrong=wrong: wrong))
        return made

    for in_turn, laid_out, module in (
        (stacked.reshape(5, 8), None, "m0"),
        (stacked, LaidOut("flatten", "encoder", line), "encoder"),
    ):
        place = locate(*passes(in_turn, laid_out), {"w": ("w",)}, {"w": (8,)})
        assert place.parting.module == "m1"
        found = at_the_mover(place)
        assert found.parting.module == module
        assert found.lines[1] == (line if laid_out else None)
    aside = locate(*passes(stacked, None), {"w": ("w",)}, {"w": (8,)})
    assert at_the_mover(aside) is aside


def test_what_a_port_does_to_all_heads_at_once_parts_behind_where_it_joins_them():
    random = np.random.default_rng(0)
    x, kernels = random.normal(size=(5, 3)), random.normal(size=(2, 3, 4))
    heads = [x @ kernel for kernel in kernels]
    both = np.stack(heads, 1)
    shares = [np.exp(head) / np.exp(head).sum(1, keepdims=True) for head in heads]
    names = ["one", "two"]
    reference = made(
        ("x", "Placeholder", [], [], x),
        *[(f"tower_0/{n}/MatMul", "MatMul", [0], [f"{n}/kernel"], h) for n, h in zip(names, heads, strict=True)],
        *[("tower_0/Softmax", "Softmax", [1 + at], [], share) for at, share in enumerate(shares)],
        ("tower_0/AddV2", "AddV2", [3, 4], [], shares[0] + shares[1]),
        ("tower_0/Mean", "Mean", [5], [], (shares[0] + shares[1]).std()),
    )
    port = made(
        ("", "__getitem__", [], [], x),
        *[(n, "linear", [0], [f"{n}.weight"], h) for n, h in zip(names, heads, strict=True)],
        ("", "stack", [1, 2], [], both),
        ("", "__getitem__", [3], [], both[:, :, ::-1]),
        ("", "tanh", [4], [], np.tanh(both[:, :, ::-1])),
        ("", "sum", [5], [], np.tanh(both[:, :, ::-1]).sum(1)),
        ("", "mean", [6], [], np.tanh(both).sum(1).std()),
    )
    mapping = {f"{n}/kernel": (f"{n}.weight",) for n in names}
    place = locate(reference, port, mapping, {f"{n}/kernel": (3, 4) for n in names})
    assert place is not None
    assert (place.parting.reference, place.parting.candidate) == (3, 5)


@pytest.mark.parametrize(
    ("cause", "module"), [("channel_order", "encoder"), ("moved_values", "encoder"), ("mask", "head")]
)
def test_what_is_joined_in_another_order_is_shown_where_it_is_joined(cause, module):
    random = np.random.default_rng(4)
    one, two, kernel = random.normal(size=(5, 4)), random.normal(size=(5, 4)), random.normal(size=(8, 3))
    passes = []
    for joined, kinds in (((one, two), ("ConcatV2", "MatMul")), ((two, one), ("cat", "linear"))):
        both = np.concatenate(joined, 1)
        values = [both, both @ kernel]
        ops = [
            ForwardOp("encoder", kinds[0], [], ["v"], [5, 8], {}),
            ForwardOp("head", kinds[1], [0], ["w"], [5, 3], {}),
        ]
        passes.append(Pass(ops, values.__getitem__))
    place = locate(*passes, {"w": ("w",), "v": ("v",)}, {"w": (8, 3), "v": (4,)})
    first = FirstDifference(
        Check("lockstep", 0, "act/0/head", "different", 1.0, 0.0, 1.0, 1.0), "act", "head", "0", None
    )
    level = Level("function", "different", "", [first.check], first, [Cause(cause, "", "", "")])
    level = with_location(level, Located(first, place))
    assert level.first_difference.module == module


def test_what_is_made_of_one_modules_weights_alone_and_stands_in_other_places_shows_that_module():
    """A table of positions that is projected comes of no data: its product with the queries is the first op that has it."""
    random = np.random.default_rng(3)
    queries, table, mask = random.normal(size=(5, 4)), random.normal(size=(7, 4)), random.normal(size=(5, 7))

    def side(projected, kernel):
        scores = queries @ projected.T
        listed = [
            ForwardOp("q", "MatMul", [], ["w"], [5, 4], {}),
            ForwardOp(
                "attn",
                "matmul",
                [0],
                [kernel],
                [5, 7],
                {},
                None,
                (Operand("0", "", 0, [5, 4]), Operand("1", "", None, [7, 4])),
            ),
            ForwardOp(
                "attn", "mul", [1], [], [5, 7], {}, None, (Operand("0", "", 1, [5, 7]), Operand("1", "m", None, [5, 7]))
            ),
            ForwardOp("attn", "mean", [2], [], [], {}),
        ]
        values = [queries, scores, scores * mask, (scores * mask).mean()]
        taken = {(1, 0): queries, (1, 1): projected, (2, 0): scores, (2, 1): mask}
        return Pass(listed, values.__getitem__, lambda number, at: taken[number, at])

    names = {"w": ("w",), "r/kernel": ("attn.r_net.weight",)}
    for turned, module in ((table[::-1], "attn.r_net"), (table[:, [1, 0, 3, 2]], "attn")):
        place = locate(
            side(table, "r/kernel"), side(turned, "attn.r_net.weight"), names, {"w": (4,), "r/kernel": (4, 4)}
        )
        assert at_the_mover(place).parting.module == module
