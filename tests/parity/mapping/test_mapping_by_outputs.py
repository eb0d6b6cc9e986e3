"""What layers give in the forward pass says which variables belong together where a bug has changed every gradient."""

import numpy as np
import pytest

from parity.experiment.mapping.by_outputs import (
    Outputs,
    Proven,
    exchanged,
    most_reached,
    statistics_as_their_layers,
)
from parity.locate.matching import Pass
from parity.mapping import Variable, draft_mapping
from parity.mapping.by_gradients import Gradients
from parity.mapping.guesses import EQUAL, NEAR, NUMBERS, ORDER
from parity.mapping.units import Unit
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


def silent(variable, unit, layout):
    """Gradients that say nothing."""


def test_what_a_layer_gives_on_both_sides_joins_its_variables_and_what_is_behind_the_bug_says_nothing():
    zero, first, active, second = IMAGES
    numbers = outputs([zero, first, active, second, second + 1], [first[:, ::-1], active, second * 2])
    near, far = said(numbers, "norm/gamma")
    assert 0 < near < 0.1 and far is None
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
    assert EQUAL < near < far < 0.1


@pytest.mark.parametrize("meant", ["transpose", "flatten_hwc(4, 4, 4)"])
def test_a_layout_that_no_gradient_shows_is_the_one_under_which_most_outputs_are_the_reference_s(meant):
    reference = [Variable("conv/kernel", (3, 3, 1, 4), use="Conv2D"), Variable("fc/kernel", (64, 10), use="MatMul")]
    candidate = [Variable("conv.weight", (4, 1, 3, 3), use="Conv2d"), Variable("fc.weight", (10, 64), use="Linear")]
    draft = draft_mapping(reference, candidate, {})
    ours = [
        op("Conv2D", [], "conv/kernel")._replace(shape=[2, 4, 4, 4]),
        op("MatMul", [0], "fc/kernel"),
        op("Mul", [1]),
    ]
    theirs = [op("conv2d", [], "conv.weight"), op("linear", [0], "fc.weight"), op("mul", [1])]
    kept = {}

    def passes(tried):
        kept["text"] = next(guess.text for guess in tried.guesses if guess.variable.name == "fc/kernel")
        right = kept["text"] == meant

        def value(number):  # read where it is asked for, as from a file that the next pass replaces
            return IMAGES[number] if number < (2 if right and kept["text"] == meant else 1) else IMAGES[number] + 1

        return Pass(ours, IMAGES.__getitem__), Pass(theirs, value)

    found = most_reached(draft, silent, passes)
    assert next(guess.text for guess in found.guesses if guess.variable.name == "fc/kernel") == meant
    assert most_reached(draft, silent, lambda tried: None) == draft
    verified = draft._replace(guesses=tuple(guess._replace(verified=True) for guess in draft.guesses))
    assert most_reached(verified, silent, passes) == verified


def test_of_branches_that_meet_the_one_counts_that_gives_the_same_nearest_to_its_weight():
    """Sums of what three weights give are the same whichever is taken for which; what each gives by itself is not."""
    left, right, total, shown = IMAGES
    ours = [op("MatMul", [], "left"), op("MatMul", [], "right"), op("AddV2", [0, 1]), op("Softmax", [2])]
    theirs = [op("linear", [], "b.weight"), op("linear", [], "a.weight"), op("add", [0, 1]), op("softmax", [2])]
    numbers = Outputs(
        Gradients({}, {}),
        Pass(ours, [left, right, total, shown].__getitem__),
        Pass(theirs, [right, left, total, shown].__getitem__),
    )
    near, far = said(numbers, "left")
    assert near < 1e-3 and NUMBERS * (far - near) > ORDER
    assert said(numbers, "right") == [far, near]


def test_the_order_of_a_flattened_map_is_tried_where_the_kernel_may_be_another_layer_s_too():
    reference = [Variable("conv/kernel", (3, 3, 1, 4), use="Conv2D"), Variable("fc/kernel", (16, 8), use="MatMul")]
    reference.append(Variable("back/kernel", (8, 16), use="MatMul"))
    candidate = [Variable("conv.weight", (4, 1, 3, 3), use="Conv2d"), Variable("fc.weight", (8, 16), use="Linear")]
    candidate.append(Variable("back.weight", (16, 8), use="Linear"))
    draft = draft_mapping(reference, candidate, {})
    guess = next(each for each in draft.guesses if each.variable.name == "fc/kernel")
    assert guess.text == "flatten_hwc(2, 2, 4)"
    options = (*guess.options, (Unit("back.weight", (candidate[2],)), "identity"))
    other = guess._replace(text="transpose", options=options, verified=False)
    wrong = draft._replace(guesses=tuple(other if each is guess else each for each in draft.guesses))
    ours = [op("Conv2D", [], "conv/kernel")._replace(shape=[2, 2, 2, 4]), op("MatMul", [0], "fc/kernel")]
    theirs = [op("conv2d", [], "conv.weight"), op("linear", [0], "fc.weight")]

    def passes(tried):
        right = next(each.text for each in tried.guesses if each.variable.name == "fc/kernel") == guess.text
        return Pass(ours, IMAGES.__getitem__), Pass(theirs, [IMAGES[0], IMAGES[1] + (not right)].__getitem__)

    assert (
        next(g.text for g in most_reached(wrong, silent, passes).guesses if g.variable.name == "fc/kernel")
        == guess.text
    )


@pytest.mark.parametrize(("in_front", "text"), [(True, "transpose"), (False, "flatten_hwc(4, 4, 4)")])
def test_a_layer_that_gives_other_numbers_of_the_same_in_every_layout_takes_its_kernel_as_it_is(in_front, text):
    reference = [Variable("conv/kernel", (3, 3, 1, 4), use="Conv2D"), Variable("fc/kernel", (64, 10), use="MatMul")]
    candidate = [Variable("conv.weight", (4, 1, 3, 3), use="Conv2d"), Variable("fc.weight", (10, 64), use="Linear")]
    draft = draft_mapping(reference, candidate, {})
    ours = [op("Conv2D", [], "conv/kernel")._replace(shape=[2, 4, 4, 4]), op("MatMul", [0], "fc/kernel")]
    theirs = [op("conv2d", [], "conv.weight"), op("linear", [0], "fc.weight")]
    own = [IMAGES[0] if in_front else IMAGES[2], IMAGES[1] + 1]
    found = most_reached(draft, silent, lambda tried: (Pass(ours, IMAGES.__getitem__), Pass(theirs, own.__getitem__)))
    assert next(guess.text for guess in found.guesses if guess.variable.name == "fc/kernel") == text


@pytest.mark.parametrize("verified", [None, True])
def test_a_bias_that_is_guessed_by_itself_lies_as_its_kernel_does(verified):
    reference = [Variable("fc/kernel", (8, 64), use="MatMul"), Variable("fc/bias", (64,), use="BiasAdd")]
    reference.append(Variable("conv/kernel", (3, 3, 16, 4), use="Conv2D"))
    candidate = [Variable("fc.weight", (64, 8), use="Linear"), Variable("fc.bias", (64,), use="Linear")]
    candidate.append(Variable("conv.weight", (4, 16, 3, 3), use="Conv2d"))
    draft = draft_mapping(reference, candidate, {})
    assert [guess.text for guess in draft.guesses[:2]] == ["unflatten_hwc(2, 2, 16)"] * 2
    # Numbers have decided the kernel's: its columns are split, and make no map.
    kernel = draft.guesses[0]._replace(text="transpose", verified=verified)
    draft = draft._replace(guesses=(kernel, *draft.guesses[1:]))
    ours = [op("MatMul", [], "fc/kernel"), op("BiasAdd", [0], "fc/bias"), op("Split", [1])]
    theirs = [op("matmul", [], "fc.weight"), op("add", [0], "fc.bias"), op("chunk", [1])]

    def passes(tried):
        right = [guess.text for guess in tried.guesses[:2]] == ["transpose", "identity"]
        values = [IMAGES[0], IMAGES[1] + (not right), IMAGES[2] + 1]
        return Pass(ours, IMAGES.__getitem__), Pass(theirs, values.__getitem__)

    assert [guess.text for guess in most_reached(draft, silent, passes).guesses[:2]] == ["transpose", "identity"]


@pytest.mark.parametrize(("apart", "text"), [(0.0, "transpose"), (1.0, "unflatten_hwc(2, 2, 16)")])
def test_a_layout_that_gradients_agree_with_beside_another_is_the_one_that_outputs_show(apart, text):
    reference = [Variable("fc/kernel", (8, 64), use="MatMul"), Variable("conv/kernel", (3, 3, 16, 4), use="Conv2D")]
    candidate = [Variable("fc.weight", (64, 8), use="Linear"), Variable("conv.weight", (4, 16, 3, 3), use="Conv2d")]
    draft = draft_mapping(reference, candidate, {})
    draft = draft._replace(guesses=tuple(guess._replace(verified=True) for guess in draft.guesses))
    ours = [op("MatMul", [], "fc/kernel"), op("Mul", [0])]
    theirs = [op("linear", [], "fc.weight"), op("mul", [0])]
    asked = []

    def passes(tried):
        asked.append(tried)
        right = next(each.text for each in tried.guesses if each.variable.name == "fc/kernel") == "transpose"
        values = [IMAGES[0] + (not right), IMAGES[1] + (not right)]
        return Pass(ours, IMAGES.__getitem__), Pass(theirs, values.__getitem__)

    def gradients(variable, unit, layout):
        return 0.0 if "unflatten" in layout else apart

    found = most_reached(draft, gradients, passes)
    assert [guess.text for guess in found.guesses if guess.variable.name == "fc/kernel"] == [text]
    assert all(guess.verified for guess in found.guesses) and bool(asked) is (apart != 1.0)


@pytest.mark.parametrize("text", ["identity", "unflatten_hwc(4, 4, 32)"])
def test_statistics_lie_as_what_is_trained_in_their_layer(text):
    names = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
    kinds = {name: "statistic" if "moving" in name else "weight" for name in names}
    reference = [Variable(f"bn/{name}", (512,), kinds[name]) for name in names]
    reference.append(Variable("up/kernel", (5, 5, 16, 32), use="Conv2DBackpropInput"))
    candidate = [Variable(f"bn.{to}", (512,), kinds[name]) for name, to in names.items()]
    candidate.append(Variable("up.weight", (32, 16, 5, 5), use="ConvTranspose2d"))
    draft = draft_mapping(reference, candidate, {})
    other = {"identity": "unflatten_hwc(4, 4, 32)"}.get(text, "identity")
    guesses = [
        guess._replace(text=other if guess.variable.kind == "statistic" else text)
        if guess.variable.name.startswith("bn/")
        else guess
        for guess in draft.guesses
    ]
    found = statistics_as_their_layers(draft._replace(guesses=tuple(guesses)))
    assert {guess.text for guess in found.guesses if guess.variable.name.startswith("bn/")} == {text}


def test_a_penalty_on_the_loss_that_reads_a_kernel_says_nothing_of_its_layout():
    reference = [Variable("conv/kernel", (3, 3, 1, 4), use="Conv2D"), Variable("fc/kernel", (64, 10), use="MatMul")]
    candidate = [Variable("conv.weight", (4, 1, 3, 3), use="Conv2d"), Variable("fc.weight", (10, 64), use="Linear")]
    draft = draft_mapping(reference, candidate, {})
    ours = [
        op("Conv2D", [], "conv/kernel")._replace(shape=[2, 4, 4, 4]),
        op("MatMul", [0], "fc/kernel"),
        op("Mean", [1]),
    ]
    theirs = [op("conv2d", [], "conv.weight"), op("linear", [0], "fc.weight"), op("mean", [1])]
    theirs.append(op("add", [2], "conv.weight", "fc.weight"))

    def passes(tried):
        right = any("flatten_hwc" in guess.text for guess in tried.guesses)
        values = [IMAGES[0], IMAGES[1] + (not right), IMAGES[2] + (not right), IMAGES[3] + 1]
        return Pass(ours, IMAGES.__getitem__), Pass(theirs, values.__getitem__)

    found = most_reached(draft, silent, passes)
    assert next(guess.text for guess in found.guesses if guess.variable.name == "fc/kernel") == "flatten_hwc(4, 4, 4)"


@pytest.mark.parametrize("exchanged_in_port", [False, True])
@pytest.mark.parametrize("tied_alike", [True, False])
def test_layers_that_give_the_same_while_tied_are_exchanged_where_more_is_the_same_then(exchanged_in_port, tied_alike):
    """A query and a key: with the layers go their biases; what tied weights tell apart stays."""
    query, key, product, _ = IMAGES
    ours = [
        op("MatMul", [], "query/kernel", "query/bias"),
        op("MatMul", [], "key/kernel", "key/bias"),
        op("Mul", [0, 1]),
    ]
    theirs = [op("linear", [], "a.weight", "a.bias"), op("linear", [], "b.weight", "b.bias"), op("mul", [0, 1])]
    reference, candidate = [], []
    for tf, torch in (("query", "a"), ("key", "b")):
        reference += [Variable(f"{tf}/kernel", (3, 3), use="MatMul"), Variable(f"{tf}/bias", (3,), use="BiasAdd")]
        candidate += [Variable(f"{torch}.weight", (3, 3), use="Linear"), Variable(f"{torch}.bias", (3,), use="Linear")]
    draft = draft_mapping(reference, candidate, {})
    meant = {"query": "ab"[exchanged_in_port], "key": "ab"[not exchanged_in_port]}
    tied = Pass(ours, [query, query if tied_alike else key, product].__getitem__)

    def passes(tried):
        found = {guess.variable.name: guess.unit.label for guess in tried.guesses}
        right = all(
            found[f"{name}/kernel"] == f"{to}.weight" and found[f"{name}/bias"] == f"{to}.bias"
            for name, to in meant.items()
        )
        values = [query, key, product] if right else [key, query, product + 1]
        return Pass(ours, [query, key, product].__getitem__), Pass(theirs, values.__getitem__)

    alike = Outputs(Gradients({}, {}), tied, Pass(theirs, tied.value))
    found = {guess.variable.name: guess.unit.label for guess in exchanged(draft, alike, passes).guesses}
    to = meant if tied_alike else {"query": "a", "key": "b"}
    assert found == {
        f"{name}/{part}": f"{to[name]}.{role}" for name in to for part, role in (("kernel", "weight"), ("bias", "bias"))
    }


@pytest.mark.parametrize("crossed", [False, True])
def test_what_an_equal_gradient_proves_is_not_asked_of_outputs_that_are_alike(crossed):
    """Statistics are off and the forward pass is right: gradients say which of two layers of one input is which."""
    gradients = {name: RANDOM.standard_normal((3, 3)) for name in ("left", "right")}
    reference = [Variable(name, (3, 3), use="MatMul") for name in gradients]
    candidate = [Variable(f"{name}.weight", (3, 3), use="Linear") for name in "ab"]
    to = dict(zip(gradients, ("b.weight", "a.weight") if crossed else ("a.weight", "b.weight"), strict=True))
    known = Gradients(gradients, {to[name]: value.T for name, value in gradients.items()})
    ours = [op("MatMul", [], "left"), op("MatMul", [], "right")]
    theirs = [op("linear", [], "a.weight"), op("linear", [], "b.weight")]
    tied = [Pass(ops, lambda number: IMAGES[0]) for ops in (ours, theirs)]
    draft = draft_mapping(reference, candidate, {})
    found = draft.by(Outputs(known, *tied, draft))
    assert {guess.variable.name: guess.unit.label for guess in found.guesses} == to


def test_outputs_verify_a_pair_that_alone_gives_them_from_tied_weights_and_gives_them_from_its_own():
    left, right, total, _ = IMAGES
    ours = [op("MatMul", [], "left"), op("MatMul", [], "right"), op("AddV2", [0, 1])]
    theirs = [op("linear", [], "a.weight"), op("linear", [], "b.weight"), op("add", [0, 1])]
    reference = [Variable("left", (3, 3), use="MatMul"), Variable("right", (3, 3), use="MatMul")]
    candidate = [Variable(f"{name}.weight", (3, 3), use="Linear") for name in "ab"]
    draft = draft_mapping(reference, candidate, {})
    none = Gradients({}, {})

    def passes(*candidates):
        of_reference = Pass(ours, [left, right, total].__getitem__)
        return Outputs(none, of_reference, Pass(theirs, [*candidates, total].__getitem__))

    def verified(tied, own):
        return [guess.verified for guess in draft.checked(Proven(draft, none, tied, own)).guesses]

    assert verified(passes(left, right), passes(left, right)) == [True, True]
    assert verified(passes(left, left), passes(left, right)) == [None, None]  # nothing tells them apart
    assert verified(passes(left, right), Outputs(none, Pass([], left), Pass([], left))) == [None, None]


def test_gradients_that_are_merely_near_are_not_ahead_of_equal_outputs():
    """Behind a bug two branches may have exchanged their gradients, nearly; what they give in front of it they have not."""
    gradient = np.array([0.3, -1.0, 0.8])
    known = ({"norm/gamma": gradient}, {"a.weight": -gradient, "b.weight": 1.02 * gradient + [0.01, 0.0, 0.0]})
    zero, first, active, second = IMAGES
    values = [zero, first, active, second, second + 1]
    near, far = said(outputs(values, [first, active, second * 2], known), "norm/gamma")
    assert near < far < NEAR
    _, alone = said(outputs(values, [first * 2, active * 2, second * 2], known), "norm/gamma")
    assert alone < 0.02  # what the candidate gives nowhere is told by the nearest gradient
