"""What is taken for the sequences, states and lengths of recurrent layers, and for what goes into losses."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.located.losses import boundary, is_cross_entropy
from parity.diagnose.located.other_rules import cause_by_other_ways
from parity.diagnose.located.recurrent import recurrent_layers, sequences_of, shared_scopes
from parity.diagnose.ops.resize import resized
from parity.locate import locate
from parity.locate.matching import Pass, reach
from parity.trace import ForwardOp, Operand, SourceLine

RANDOM = np.random.default_rng(41)


def normal(*size):
    return RANDOM.normal(size=size)


def passed(*ops):
    """A pass of ``(name, kind, inputs, weights, value)``."""
    listed = [ForwardOp(name, kind, inputs, read, list(np.shape(v)), {}) for name, kind, inputs, read, v in ops]
    values = [None if value is None else np.asarray(value) for *_, value in ops]
    return Pass(listed, values.__getitem__)


WORDS, STATE, WRONG = normal(4, 3, 5), normal(4, 6), (normal(4, 6), normal(4, 3, 6))
FEEDS = {
    "feed/0/words": WORDS,
    "feed/0/start": STATE[:, :2],
    "feed/0/length": np.array([[3], [1], [2], [3]]),
    "feed/0/goes_on": np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]),
    "feed/0/rate": np.array(0.5),
    "feed/1/words": normal(4, 3, 5),
}


def layers(variables, feeds=FEEDS, op="tower_0/rnn/cell/MatMul"):
    """The recurrent layers of two passes that part behind a state."""
    first = ("embedded", "Gather", [], [], WORDS[..., :2]), ("tower_0/rnn/cell/h", "Tanh", [0], [], STATE)
    one = passed(*first, ("a", "MatMul", [1], ["w"], WRONG[0]), ("b", "Pack", [2], [], WRONG[1]))
    other = passed(*first, ("a", "linear", [1], ["w"], 2 * WRONG[0]), ("b", "stack", [2], [], 2 * WRONG[1]))
    file = SimpleNamespace(names=lambda: list(feeds), read=feeds.__getitem__)
    evidence = SimpleNamespace(
        reference=SimpleNamespace(
            variables={name: {"shape": list(value.shape)} for name, value in variables.items()}, step=lambda n: file
        ),
        before=lambda step, quantity, name: variables[name],
    )
    parting = SimpleNamespace(reference=2, candidate=2)
    place = SimpleNamespace(
        passes=(one, other), reached=reach(one, other), parting=parting, op=SimpleNamespace(name=op)
    )
    return list(recurrent_layers(place, evidence, 0, "0"))


def same(found, *wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_sequence_of_the_reference_is_cut_as_the_port_takes_its_numbers():
    """Two frames are one step behind a time reduction: the port joins others than the graph, which shows none of it."""
    frames = normal(2, 6, 3)
    halves = frames.reshape(2, 2, 3, 3).swapaxes(1, 2).reshape(2, 3, 6)
    one = passed(("norm", "AddV2", [], ["w"], frames), ("a", "MatMul", [0], ["v"], normal(2, 3, 4)))
    listed = [*one.ops[:1], one.ops[1]._replace(operands=(Operand("0", "", 0, [2, 3, 6]),))]
    other = Pass(listed, [frames, normal(2, 3, 4)].__getitem__, lambda number, at: halves)
    variables = {"rnn/cell/kernel": normal(10, 16)}
    file = SimpleNamespace(names=lambda: ["feed/0/x"], read=lambda name: np.zeros((2, 1)))
    reference = SimpleNamespace(variables={"rnn/cell/kernel": {"shape": [10, 16]}}, step=lambda n: file)
    evidence = SimpleNamespace(reference=reference, before=lambda step, quantity, name: variables[name])
    parting, op = SimpleNamespace(reference=1, candidate=1), SimpleNamespace(name="a")
    place = SimpleNamespace(passes=(one, other), reached=reach(one, other), parting=parting, op=op)
    layer = next(iter(recurrent_layers(place, evidence, 0, "0")))
    np.testing.assert_array_equal(layer.sequences["what a takes"], halves)
    np.testing.assert_array_equal(layer.sequences["norm, cut into steps of 6"], frames.reshape(2, 3, 6))


def test_what_may_go_into_a_recurrent_layer_and_come_out_is_gathered_from_inputs_and_passes():
    kernel = normal(11, 24)
    (layer,) = [each for each in layers({"rnn/cell/kernel": kernel}) if each.name == "rnn/cell"]
    assert layer.variables == {"rnn/cell/kernel": kernel}
    assert {"words", "embedded", "embedded, turned"} <= set(layer.sequences)
    np.testing.assert_array_equal(layer.sequences["words"], WORDS)
    np.testing.assert_array_equal(layer.sequences["embedded, turned"], WORDS[..., :2].swapaxes(0, 1))
    assert set(layer.states) == {"start", "tower_0/rnn/cell/h"}
    assert {name: list(value) for name, value in layer.lengths.items()} == {
        "length": [3, 1, 2, 3],
        "goes_on": list(FEEDS["feed/0/goes_on"].reshape(-1)),
    }
    assert list(layer.marks) == ["goes_on"] and layer.marks["goes_on"].dtype == np.float64
    same(layer.reference, *WRONG)
    same(layer.candidate, 2 * WRONG[0], 2 * WRONG[1])
    same(layer.parted[0], STATE, WRONG[0])
    same(layer.parted[1], STATE, 2 * WRONG[0])
    same(layer.read, 2 * WRONG[0])


@pytest.mark.parametrize(
    ("shapes", "names"),
    [
        ({"a/cell/kernel": (5, 8), "a/cell/bias": (8,)}, {"a/cell", "a"}),
        ({"a/cell/kernel": (5, 1), "a/cell/bias": (1,)}, set()),
        ({"a/cell/kernel": (5, 8), "a/cell/step": ()}, {"a/cell", "a"}),
        ({"a/cell/kernel": (3, 3, 2, 4)}, set()),
        ({"kernel": (5, 8)}, set()),
        (
            {"a/x/kernel": (5, 8), "a/h/kernel": (2, 8), "a/x/bias": (8,)},
            {"a/x", "a/h", "a", "a/x/kernel", "a/h/kernel"},
        ),
    ],
)
def test_variables_of_one_scope_or_of_those_right_inside_may_be_a_cells(shapes, names):
    found = layers({name: normal(*shape) for name, shape in shapes.items()})
    assert {layer.name for layer in found} == names
    assert all(value.ndim for layer in found for value in layer.variables.values()), "a counter is no weight"


def test_each_kernel_of_a_scope_of_several_is_also_tried_alone_with_a_bias_that_fits_it():
    shapes = {"a/x": (5, 8), "a/h": (2, 6), "a/c": (3, 7), "a/bias": (6,), "a/other": (6,)}
    found = {layer.name: list(layer.variables) for layer in layers({name: normal(*s) for name, s in shapes.items()})}
    assert found == {"a/x": ["a/x"], "a/h": ["a/h", "a/bias"], "a/c": ["a/c"]}
    many = {f"a/{number}": normal(3, 4) for number in range(5)}
    assert layers(many) == [] and len(layers(dict(list(many.items())[:4]))) == 4


def test_only_the_nearest_twelve_layers_are_looked_at():
    variables = {f"{scope}/kernel": normal(3, 4) for scope in "abcdefghijklmnopq"}
    assert [layer.name for layer in layers(variables, op="tower_0/q/MatMul")] == ["q", *"abcdefghijk"]


@pytest.mark.parametrize(
    ("layer", "op", "shared"),
    [
        ("rnn/cell", "tower_0/rnn/cell/MatMul", 2),
        ("rnn/cell", "rnn/other/MatMul", 1),
        ("rnn/cell", "cell/MatMul", 0),
        ("rnn", "tower_0/rnn2/MatMul", 0),
    ],
)
def test_scopes_are_shared_from_the_outermost_on(layer, op, shared):
    assert shared_scopes(layer, op) == shared


def test_the_steps_of_a_loop_that_is_written_out_are_stacked_from_three_on():
    steps = [normal(4, 6) for _ in range(3)]
    ops = [("", "Tanh", [], ["w"], value) for value in steps]
    found = sequences_of(passed(*ops), {0, 1, 2}, ())
    np.testing.assert_array_equal(found["the steps of Tanh of ['w'], [4, 6]"], np.stack(steps, 1))
    assert set(found) == {"the steps of Tanh of ['w'], [4, 6]"}
    assert sequences_of(passed(*ops), {0, 1}, ()) == {}
    assert sequences_of(passed(*ops[:2], ("", "Tanh", [], ["other"], steps[2])), {0, 1, 2}, ()) == {}
    assert sequences_of(passed(*ops[:2], ("", "Tanh", [], ["w"], np.full((4, 6), np.inf))), {0, 1, 2}, ()) == {}
    named = passed(*(("cell", *op[1:]) for op in ops))
    assert list(sequences_of(named, {0, 1, 2}, ())) == ["the steps of cell"]


def test_what_of_two_axes_may_be_cut_into_sequences_has_three_steps_of_every_example_or_more():
    flat = passed(("flat", "MatMul", [], [], normal(12, 5)))
    assert set(sequences_of(flat, {0}, (4,))) == {"flat, cut into 4", "flat, cut into 4, turned"}
    assert sequences_of(flat, {0}, (5, 6)) == {}
    whole = passed(("count", "Cast", [], [], np.ones((12, 5), int)), ("one", "Sum", [], [], normal(1, 1, 1)))
    assert sequences_of(whole, {0, 1}, (4,)) == {}


LOGITS, HIDDEN, LABELS = normal(6, 3), normal(6, 4), np.eye(3)[[0, 2, 1, 1, 0, 2]]


def loss_of(factor, named="", **further):
    each = ((LOGITS - LABELS) ** 2).sum(1) * factor
    ops = [
        ("in", "Placeholder", [], [], normal(6, 2)),
        ("dense", "MatMul", [0], ["w"], HIDDEN),
        (named, "MatMul", [1], ["v"], LOGITS),
        ("labels", "OneHot", [], [], LABELS),
        ("", "SquaredDifference", [2, 3], [], (LOGITS - LABELS) ** 2 * factor),
        ("", "Sum", [4], [], each),
        ("", "Mean", [5], [], each.mean()),
    ]
    return passed(*ops), each.mean()


def test_what_both_sides_have_and_losses_are_made_of_otherwise_goes_into_them():
    (one, mean), (other, twice) = loss_of(1.0, "logits"), loss_of(2.0)
    outputs, data = boundary(one, other, reach(one, other), (mean, twice))
    # The port's names first; then what comes right before it.
    assert list(outputs) == ["MatMul", "dense"] and list(data) == ["labels", "in", "in Placeholder"]
    np.testing.assert_array_equal(outputs["MatMul"], LOGITS)
    np.testing.assert_array_equal(outputs["dense"], HIDDEN)
    np.testing.assert_array_equal(data["labels"], LABELS)
    nowhere = boundary(one, other, reach(one, other), (mean + 1, twice + 1))
    assert nowhere == ({}, {}), "no op gives the losses"


def test_parts_that_are_right_go_into_a_loss_where_they_are_stacked():
    def side(factor):
        both = np.stack([LOGITS, LOGITS + 1])
        loss = (both**3).mean() * factor
        ops = [
            ("one", "MatMul", [], ["w"], LOGITS),
            ("two", "MatMul", [], ["v"], LOGITS + 1),
            ("both", "Pack", [0, 1], [], both * (1 + (factor - 1) / 2)),
            ("", "Mean", [2], [], loss),
        ]
        return passed(*ops), loss

    (one, mean), (other, twice) = side(1.0), side(2.0)
    outputs, _ = boundary(one, other, reach(one, other), (mean, twice))
    assert next(iter(outputs)) == "both" and {"one", "two"} <= set(outputs)


def test_no_more_than_eight_outputs_of_a_side_go_into_a_loss_and_none_of_two_equal_ones():
    def side(factor):
        values = [normal_of[number] for number in range(20)]
        ops = [(f"o{number}", "MatMul", [], ["w"], value) for number, value in enumerate(values)]
        loss = sum(value.sum() for value in values) * factor
        return passed(*ops, ("", "AddN", list(range(20)), [], loss)), loss

    normal_of = [normal(3, 2) for _ in range(20)]
    normal_of[1] = normal_of[0].copy()
    (one, first), (other, second) = side(1.0), side(3.0)
    outputs, _ = boundary(one, other, reach(one, other), (first, second))
    assert list(outputs) == [f"o{number}" for number in (0, *range(2, 17))]


TABLE, KERNEL = normal(9, 4), normal(3, 3, 2, 5)
IMAGE = normal(2, 6, 6, 2)


def convolved(image, kernel, front):
    padded = np.pad(image, [(0, 0), (front, 2 - front), (front, 2 - front), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.tensordot(windows, kernel, axes=([3, 4, 5], [2, 0, 1]))


def with_operands(side, *taken):
    """The pass with what each op takes: names of variables, or numbers of ops."""
    ops, given = [], []
    for op, takes in zip(side.ops, taken, strict=True):
        known = [side.value(each) if isinstance(each, int) else each[1] for each in takes]
        operands = [
            Operand(str(at), "" if isinstance(each, int) else each[0], each if isinstance(each, int) else None, [])
            for at, each in enumerate(takes)
        ]
        ops.append(op._replace(operands=tuple(operands)))
        given.append(known)
    return side._replace(ops=ops, operand=lambda number, at: given[number][at])


def parted(one, other, weights):
    mapping = {name: (name,) for name in weights}
    return locate(one, other, mapping, {name: value.shape for name, value in weights.items()})


def test_rows_of_a_table_that_are_looked_up_otherwise_are_told_where_passes_part():
    ids = np.array([3, 0, 7, 5, 2, 8])

    def side(ids, kind):
        rows = TABLE[ids]
        return passed(
            ("embedding/lookup", kind, [], ["embedding/table"], rows),
            ("dense/MatMul", "MatMul", [0], ["dense/kernel"], np.tanh(rows) @ TABLE[:4]),
            ("loss", "Mean", [1], [], (np.tanh(rows) @ TABLE[:4]).mean()),
        )

    weights = {"embedding/table": TABLE, "dense/kernel": TABLE[:4]}
    place = parted(side(ids, "GatherV2"), side(ids - 1, "embedding"), weights)
    cause = cause_by_other_ways(place, weights)
    assert cause.name == "other_rows" and "embedding" in cause.title
    assert cause_by_other_ways(parted(side(ids, "Relu"), side(ids - 1, "relu"), weights), weights) is None


def test_a_convolution_by_other_windows_is_told_where_passes_part():
    def side(front, names):
        made = convolved(IMAGE, KERNEL, front)
        return passed(
            ("conv/in", "Sub", [], [], IMAGE),
            ("conv/Conv2D", names, [0], ["conv/kernel"], made),
            ("loss", "Mean", [1], [], (made**2).mean()),
        )

    weights = {"conv/kernel": KERNEL}
    one = side(1, "Conv2D")
    settings = {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 1, 1, 1]}
    one = one._replace(ops=[one.ops[0], one.ops[1]._replace(attributes=settings), one.ops[2]])
    cause = cause_by_other_ways(parted(one, side(0, "conv2d"), weights), weights)
    assert cause is not None and cause.name == "padding" and "conv" in cause.title
    assert cause_by_other_ways(parted(one, side(0, "conv2d"), weights), {}) is None


def test_an_image_that_is_enlarged_by_another_rule_is_told_where_passes_part():
    def side(kind, enlarged):
        return passed(
            ("in", "Placeholder", [], [], IMAGE),
            ("up/resize", kind, [0], [], enlarged),
            ("conv/Conv2D", "Conv2D", [1], ["conv/kernel"], convolved(enlarged, KERNEL, 1)),
            ("loss", "Mean", [2], [], (enlarged**2).mean()),
        )

    nearest = IMAGE.repeat(2, 1).repeat(2, 2)
    ways = dict(resized(IMAGE, (12, 12)))
    centred = next(made for words, made in ways.items() if words.startswith("bilinear between"))
    weights = {"conv/kernel": KERNEL}
    place = parted(side("ResizeNearestNeighbor", nearest), side("upsample_bilinear2d", centred), weights)
    cause = cause_by_other_ways(place, weights)
    assert cause.name == "resizing"
    assert "bilinear between the centres of pixels, the reference one pixel each" in cause.title


MAPS, FLAT = normal(2, 3, 3, 4), normal(6, 4)


@pytest.mark.parametrize(
    ("given", "flattened", "told"), [(MAPS, False, 1), (MAPS, True, 1), (FLAT, False, 1), (FLAT, True, 0)]
)
def test_channels_in_another_order_are_told_where_passes_part_but_not_of_what_may_be_a_flattened_map(
    given, flattened, told
):
    kernel = normal(4, 3)

    def side(taken, kind):
        made = taken @ kernel
        return with_operands(
            passed(
                ("bn/x", "Relu", [], [], taken),
                ("dense/MatMul", kind, [0], ["dense/kernel"], made),
                ("loss", "Mean", [1], [], (made**2).mean()),
            ),
            [],
            [0, ("dense/kernel", kernel)],
            [1],
        )

    weights = {"dense/kernel": kernel}
    place = parted(side(given, "MatMul"), side(given[..., [2, 0, 3, 1]], "linear"), weights)
    cause = cause_by_other_ways(place, weights, flattened)
    assert (cause is not None and cause.name == "channel_order") == bool(told)


@pytest.mark.parametrize(
    ("name", "kind", "text", "crossed"),
    [
        ("tower_0/logistic_loss/mul", "Mul", "losses = of(labels, logits)", True),
        ("loss", "SparseSoftmaxCrossEntropyWithLogits", "", True),
        ("", "binary_cross_entropy_with_logits", "", True),
        ("", "log1p", "return self.bce_loss(scores, real)", True),
        ("tower_0/Softplus", "Softplus", "tf.nn.softplus(-(positive - negative))", False),
        ("", "logsigmoid", "-F.logsigmoid(positive - negative).mean()", False),
    ],
)
def test_what_a_source_calls_a_cross_entropy_is_one(name, kind, text, crossed):
    line = SourceLine("model.py", 1, "tower", text)
    assert is_cross_entropy(ForwardOp(name, kind, [], [], [], {}, line if text else None)) is crossed
