"""Gradients where two operands are the same: TensorFlow gives one of them all, and a proof need not come across it."""

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.ops import CONST, FEED, Op


def op(kind, *inputs, name="op", shape=(4,), dtype="float32", **attributes):
    return Op(kind, name, [each.output() for each in inputs], attributes, [shape], [dtype])


def number(value):
    return op(CONST, name="bound", shape=(), value=np.array(value))


X, Y = op(FEED, name="x"), op(FEED, name="y")


def written(kind, *inputs, dtype="float32", called="x"):
    wanted = op(kind, *inputs, dtype=dtype)
    given = {X.output(): called, Y.output(): "y"}
    writer = Writer(Parameters({}, {}), "self", given)
    (found,) = writer.write([each for each in inputs if each.kind not in (CONST, FEED)] + [wanted], [wanted.output()])
    return [*writer.statements, found.text]


@pytest.mark.parametrize(
    ("kind", "inputs", "text"),
    [
        ("Maximum", (X, Y), "torch.where(x >= y, x, y)"),
        ("Minimum", (X, Y), "torch.where(x <= y, x, y)"),
        ("Maximum", (X, number(0.5)), "x.clamp(min=0.5)"),
        ("Minimum", (X, number(6.0)), "x.clamp(max=6)"),
        ("Maximum", (number(0.0), X), "F.relu(x)"),
        ("Maximum", (number(0.5), X), "torch.where(0.5 >= x, 0.5, x)"),
        ("Minimum", (number(0.0), X), "torch.where(0 <= x, 0, x)"),
        ("Selu", (X,), "torch.where(x < 0, F.selu(x), 1.0507009873554805 * x)"),
    ],
)
def test_the_whole_gradient_goes_where_tensorflow_has_it(kind, inputs, text):
    assert written(kind, *inputs) == [text]


def test_whole_numbers_have_no_gradient_to_share():
    assert written("Maximum", X, Y, dtype="int32") == ["torch.maximum(x, y)"]


def test_what_stands_twice_is_computed_once():
    assert written("Maximum", op("Exp", X), Y) == ["x = torch.exp(x)", "torch.where(x >= y, x, y)"]
    assert written("Maximum", X, Y, called="model(a)") == ["output = model(a)", "torch.where(output >= y, output, y)"]


@pytest.mark.parametrize(("kind", "bound"), [("Maximum", "min"), ("Minimum", "max")])
def test_whole_numbers_are_bounded_whichever_side_the_bound_stands_on(kind, bound):
    three = op(CONST, name="three", shape=(), dtype="int32", value=np.array(3))
    assert written(kind, three, X, dtype="int32") == written(kind, X, three, dtype="int32") == [f"x.clamp({bound}=3)"]
