"""What is done to the numbers that go into an op is told: scaled and shifted, or broadcast against each other."""

import numpy as np
import pytest

from parity.diagnose.layers.op_inputs import Read, broadcast, line_between, other_input
from parity.diagnose.located.op_inputs import cause_of_broadcast, cause_of_input
from parity.locate import locate
from parity.locate.matching import Pass
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.uniform(size=(2, 4, 5, 3))
FRAMES = RANDOM.normal(size=(3, 4, 6))
SQUARE = RANDOM.normal(size=(3, 5, 5, 2))
WEIGHTS = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize(("factor", "shift"), [(1 / 0.3081, -0.1307 / 0.3081), (0.5, 0.5), (-2.0, 0.0), (1.0, 0.25)])
def test_what_each_number_is_multiplied_by_and_shifted_is_told_whatever_the_layout(factor, shift):
    line = line_between(IMAGES, (factor * IMAGES + shift).transpose(0, 3, 1, 2))
    np.testing.assert_allclose(line, (factor, shift), rtol=1e-9)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (IMAGES, IMAGES**2),
        (IMAGES, IMAGES[..., ::-1]),
        (np.array([0.0, 1.0, 1.0]), np.array([2.0, 5.0, 5.0])),  # two numbers are on any line
        (IMAGES, IMAGES[:1]),
        (IMAGES, np.ones_like(IMAGES)),
    ],
)
def test_what_is_on_no_line_is_not_told(before, after):
    assert line_between(before, after) is None


def named(reference, *candidate, first=True):
    return other_input(Read("images", "conv1", reference, candidate, "model_torch.py:1", first))


@pytest.mark.parametrize(
    ("reference", "candidate", "name", "title"),
    [
        (SQUARE, SQUARE * 1.02, "input_scale", "the port multiplies images by 1.02 in front of conv1"),
        (SQUARE, (SQUARE / 255.0).transpose(0, 3, 1, 2), "input_scale", "multiplies images by 0.00392156863 in front"),
        (SQUARE, SQUARE * 2.0 - 1.0, "input_scale", "multiplies images by 2 and adds -1 to it in front"),
        (SQUARE, SQUARE - 0.25, "input_shift", "the port adds -0.25 to images in front of conv1"),
        (SQUARE, SQUARE.swapaxes(1, 2).reshape(3, 50), "transposed_input", "exchanges rows and columns of images"),
        (SQUARE, SQUARE.transpose(0, 3, 2, 1), "transposed_input", "exchanges rows and columns of images"),
        (SQUARE[:, :4], SQUARE[:, :4].swapaxes(1, 2), "transposed_input", "exchanges rows and columns of images"),
        (SQUARE, SQUARE[..., ::-1].transpose(0, 3, 1, 2), "reversed_input", "the port reverses the channels of images"),
        (FRAMES, FRAMES[:, ::-1], "reversed_input", "the port reverses the steps of images"),
    ],
)
def test_one_thing_that_is_done_to_an_input_is_named(reference, candidate, name, title):
    cause = named(reference, candidate)
    assert (cause.name, title in cause.title) == (name, True)


@pytest.mark.parametrize(
    "candidate",
    [
        SQUARE,
        SQUARE.transpose(0, 3, 1, 2),
        SQUARE.reshape(3, 50),
        SQUARE.transpose(0, 3, 1, 2).reshape(3, 50),  # a map that is flattened otherwise: no input is exchanged
        SQUARE * (1.0 + 1e-4 * SQUARE),
        RANDOM.normal(size=SQUARE.shape),
        np.full(SQUARE.shape, np.nan),
        SQUARE[:2] * 2.0,
    ],
)
def test_what_is_read_as_it_is_or_is_something_else_is_not_named(candidate):
    assert named(SQUARE, candidate) is None


def test_an_input_that_the_port_reads_somewhere_there_as_it_is_is_not_named():
    assert named(SQUARE, SQUARE * 2.0, SQUARE) is None


def test_a_few_different_numbers_tell_nothing():
    two, few = np.tile([0.0, 1.0, 0.0, 0.0], (4, 5)), np.tile([0.0, 1.0, 2.0, 0.0], (4, 5))
    assert named(two, 1.0 - two) is None  # any two numbers are on a line
    assert named(few, few[:, ::-1]) is None


def test_one_number_in_the_place_of_an_input_says_that_it_is_not_used():
    cause = named(WEIGHTS, np.ones(6), first=False)
    assert cause.name == "input_ignored"
    assert (
        cause.title
        == "the port does not use images, it takes 1 for all its numbers in front of conv1: model_torch.py:1"
    )
    assert named(np.ones((2, 3)), np.zeros(6), first=False) is None  # as little as the reference tells of it
    assert named(WEIGHTS, WEIGHTS[:, ::-1], first=False) is None


def test_an_axis_of_size_one_that_is_left_in_pairs_each_number_with_each():
    values, returns = RANDOM.normal(size=7), RANDOM.normal(size=7)
    cause = broadcast([values, returns], [returns, values[:, None]], 49, "loss_reduction", "lines")
    assert cause is not None and "broadcasts [7] against [7, 1] to [7, 7], where the reference has [7]" in cause.title
    assert broadcast([values, returns], [values, returns], 7, "loss_reduction", "lines") is None
    assert broadcast([values, returns], [values + 1, returns[:, None]], 49, "loss_reduction", "lines") is None
    wide = RANDOM.normal(size=(7, 1))
    assert broadcast([wide, returns], [wide, returns], 49, "loss_reduction", "lines") is None, (
        "the reference does so too"
    )


def passed(*ops):
    """A pass of (name, kind, weights, operands, value), operands as number of an op, or name and array."""
    listed, values, taken = [], [], []
    for name, kind, weights, operands, value in ops:
        numbers = [each for each in operands if isinstance(each, int)]
        arrays = [values[each] if isinstance(each, int) else each[1] for each in operands]
        described = tuple(
            Operand(str(at), "" if isinstance(each, int) else each[0], each if isinstance(each, int) else None, [])
            for at, each in enumerate(operands)
        )
        described = tuple(one._replace(shape=list(np.shape(x))) for one, x in zip(described, arrays, strict=True))
        listed.append(ForwardOp(name, kind, numbers, weights, list(np.shape(value)), {}, None, described))
        values.append(np.asarray(value, np.float64))
        taken.append(arrays)
    return Pass(listed, lambda number: values[number], lambda number, place: taken[number][place])


def test_what_a_port_does_to_an_image_in_front_of_its_first_layer_is_found():
    x, kernel = RANDOM.normal(size=(5, 6)), RANDOM.normal(size=(6, 3))
    y = (x - 0.5) / 0.25
    reference = passed(
        ("split", "Split", [], [("images", x)], x),
        ("tower_0/fc/MatMul", "MatMul", ["fc/kernel"], [0, ("fc/kernel/read", kernel)], x @ kernel),
        ("tower_0/Sum", "Sum", [], [1], np.sum(x @ kernel)),
    )
    port = passed(
        ("", "__getitem__", [], [("", x)], x),
        ("", "sub", [], [0], x - 0.5),
        ("", "div", [], [1], y),
        ("fc", "linear", ["fc.weight"], [2, ("fc.weight", kernel.T)], y @ kernel),
        ("", "sum", [], [3], np.sum(y @ kernel)),
    )
    place = locate(reference, port, {"fc/kernel": ("fc.weight",)}, {"fc/kernel": (6, 3)})
    cause = cause_of_input(place, ["images"])
    assert (cause.name, "the port multiplies images by 4 and adds -2 to it in front of fc" in cause.title) == (
        "input_scale",
        True,
    )


def test_a_value_that_keeps_its_axis_is_found_where_it_is_broadcast():
    x, kernel, returns = RANDOM.normal(size=(5, 6)), RANDOM.normal(size=(6, 1)), RANDOM.normal(size=5)
    values = x @ kernel
    one, each = values[:, 0] - returns, values - returns
    reference = passed(
        ("split", "Split", [], [("x", x)], x),
        ("returns", "Split", [], [("returns", returns)], returns),
        ("tower_0/fc/MatMul", "MatMul", ["fc/kernel"], [0, ("fc/kernel/read", kernel)], values[:, 0]),
        ("tower_0/sub", "Sub", [], [2, 1], one),
        ("tower_0/Mean", "Mean", [], [3], np.abs(one).mean()),
    )
    port = passed(
        ("", "__getitem__", [], [("", x)], x),
        ("", "__getitem__", [], [("", returns)], returns),
        ("fc", "linear", ["fc.weight"], [0, ("fc.weight", kernel.T)], values),
        ("", "expand", [], [2], np.broadcast_to(values, (5, 5))),
        ("", "sub", [], [3, 1], each),
        ("", "mean", [], [4], np.abs(each).mean()),
    )
    place = locate(reference, port, {"fc/kernel": ("fc.weight",)}, {"fc/kernel": (6, 1)})
    assert place.parting.candidate == 3
    cause = cause_of_broadcast(place, True)
    assert cause.name == "loss_reduction" and "broadcasts [5, 1] against [5] to [5, 5]" in cause.title
