"""What is done to the numbers that go into an op is told: scaled and shifted, or broadcast against each other."""

import numpy as np
import pytest

from parity.causes.at_inputs import broadcast, line_between, other_input
from parity.locate import locate
from parity.locate.reached import Pass
from parity.run.input_causes import cause_of_broadcast, cause_of_input
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.uniform(size=(2, 4, 5, 3))
LINES = ("model_torch.py:1", "model_tf.py:1")


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


def test_an_input_that_is_scaled_or_only_shifted_is_named():
    scaled = other_input("conv", IMAGES, (IMAGES - 0.5) / 0.25, LINES)
    assert scaled is not None and (scaled.name, "times 4 plus -2 in the port" in scaled.title) == ("input_scale", True)
    shifted = other_input("conv", IMAGES, IMAGES - 0.5, LINES)
    assert shifted is not None and shifted.name == "input_shift"
    assert other_input("conv", IMAGES, IMAGES.transpose(0, 3, 1, 2), LINES) is None


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
    cause = cause_of_input(place)
    assert (cause.name, "what goes into fc is the reference's times 4 plus -2" in cause.title) == ("input_scale", True)


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
