"""What layers give in the forward pass says which variables belong together where a bug has changed every gradient."""

import numpy as np
import pytest

from parity.locate.reached import Pass
from parity.mapping import Variable, draft_mapping
from parity.mapping.gradients import Gradients
from parity.mapping.guesses import EQUAL, LAYOUT, NUMBERS
from parity.mapping.units import Unit
from parity.run.map_by_outputs import Outputs, most_reached
from parity.trace import ForwardOp

RANDOM = np.random.default_rng(0)
IMAGES = [RANDOM.standard_normal((4, 3)) for _ in range(4)]
UNITS = {name: Unit(name, (Variable(name, (3,), "weight"),)) for name in ("a.weight", "b.weight")}


def op(kind, inputs, *weights):
    return ForwardOp(kind, kind, inputs, list(weights), [4, 3], {})


def outputs(reference, candidate, gradients=None):
    """A net of two norms of one size with something behind each, the second behind a bug."""
    theirs = [op("batch_norm", [], "a.weight"), op("relu", [0]), op("batch_norm", [1], "b.weight")]
    ours = [
        op("Mul", [], "norm/gamma"),
        op("Add", [0]),
        op("Relu", [1]),
        op("Mul", [2], "norm_1/gamma"),
        op("Add", [3]),
    ]
    return Outputs(
        Gradients(*(gradients or ({}, {}))), Pass(ours, reference.__getitem__), Pass(theirs, candidate.__getitem__)
    )


def said(numbers, variable):
    return [numbers(Variable(variable, (3,), "weight"), unit, "identity") for unit in UNITS.values()]


def test_what_a_layer_gives_on_both_sides_joins_its_variables_and_what_is_behind_the_bug_says_nothing():
    zero, first, active, second = IMAGES
    numbers = outputs([zero, first, active, second, second + 1], [first[:, ::-1], active, second * 2])
    near, far = said(numbers, "norm/gamma")
    assert 0 < near < 1e-3 and far is None
    assert said(numbers, "norm_1/gamma") == [None, None]


def test_gradients_that_are_equal_are_all_that_is_asked():
    gradient = RANDOM.standard_normal(3)
    known = ({"norm/gamma": gradient}, {"a.weight": gradient, "b.weight": -gradient})
    numbers = outputs([None] * 5, [None] * 3, known)
    assert said(numbers, "norm/gamma") == [0.0, 1.0]


def test_outputs_that_are_not_known_not_finite_or_one_number_say_nothing():
    same = np.ones((4, 3))
    bad = np.full((4, 3), np.nan)
    numbers = outputs([None, same, bad, None, None], [same, bad, None])
    assert said(numbers, "norm/gamma") == [None, None]


def test_of_two_layouts_with_one_output_the_one_of_the_nearer_gradient_is_ahead():
    unit = Unit("a.weight", (Variable("a.weight", (3, 3), "weight"),))
    gradient = RANDOM.standard_normal((3, 3))
    known = ({"norm/gamma": gradient}, {"a.weight": gradient.T + 0.3 * RANDOM.standard_normal((3, 3))})
    zero, first, active, second = IMAGES
    numbers = outputs([zero, first, active, second, second + 1], [first, active, second * 2], known)
    near, far = (numbers(Variable("norm/gamma", (3, 3), "weight"), unit, text) for text in ("transpose", "identity"))
    assert EQUAL < near < far < 1e-2
    assert NUMBERS * (far - near) > LAYOUT


@pytest.mark.parametrize("meant", ["transpose", "flatten_hwc(4, 4, 4)"])
def test_a_layout_that_no_gradient_shows_is_the_one_under_which_most_outputs_are_the_reference_s(meant):
    reference = [Variable("conv/kernel", (3, 3, 1, 4), use="Conv2D"), Variable("fc/kernel", (64, 10), use="MatMul")]
    candidate = [Variable("conv.weight", (4, 1, 3, 3), use="Conv2d"), Variable("fc.weight", (10, 64), use="Linear")]
    draft = draft_mapping(reference, candidate, {})
    ours = [op("Conv2D", [], "conv/kernel"), op("MatMul", [0], "fc/kernel"), op("Mul", [1])]
    theirs = [op("conv2d", [], "conv.weight"), op("linear", [0], "fc.weight"), op("mul", [1])]
    kept = {}

    def passes(tried):
        kept["text"] = next(guess.text for guess in tried.guesses if guess.variable.name == "fc/kernel")
        right = kept["text"] == meant

        def value(number):  # read where it is asked for, as from a file that the next pass replaces
            return IMAGES[number] if number < (2 if right and kept["text"] == meant else 1) else IMAGES[number] + 1

        return Pass(ours, IMAGES.__getitem__), Pass(theirs, value)

    found = most_reached(draft, passes)
    assert next(guess.text for guess in found.guesses if guess.variable.name == "fc/kernel") == meant
    assert most_reached(draft, lambda tried: None) == draft
    verified = draft._replace(guesses=tuple(guess._replace(verified=True) for guess in draft.guesses))
    assert most_reached(verified, passes) == verified
