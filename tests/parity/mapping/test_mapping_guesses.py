"""What is guessed where names do not decide, and how numbers decide it: on lists of plain ports, without a framework."""

import itertools

import numpy as np
import pytest
from support.port_lists import PORTS, gated_cells, points

from parity.mapping import (
    MappingEntry,
    MappingError,
    Variable,
    build_mapping,
    draft_mapping,
    mapping_notes,
    parse_transform,
)
from parity.mapping.by_gradients import Gradients, tied_values
from parity.mapping.similarity import strangeness
from parity.mapping.trace_map import Join
from parity.mapping.units import Unit
from parity.trace import parse_key


def joined(draft):
    return {pair.reference: (pair.candidate, pair.transform.text) for pair in draft.mapping().pairs}


def gradients(port, seed=0, noise=0.0):
    """Gradients of both sides as the meant pairs have them."""
    random = np.random.default_rng(seed)
    one, other = {}, {}
    shapes = {variable.name: variable.shape for variable in port.candidate}
    for variable in port.reference:
        names, text = port.meant[variable.name]
        transform = parse_transform(text)
        one[variable.name] = random.standard_normal(variable.shape)
        moved = one[variable.name] + noise * random.standard_normal(variable.shape)
        for name, part in zip(names, transform.forward(moved, linear=True), strict=True):
            if transform.rows is None:
                other[name] = part
            else:
                size = part.shape[0]
                whole = other.setdefault(name, np.zeros(shapes[name]))
                whole[transform.rows[0] * size : (transform.rows[0] + 1) * size] = part
    return Gradients(one, other)


@pytest.mark.parametrize("name", PORTS)
def test_a_plain_port_is_joined_without_a_line_of_mapping(name):
    port = PORTS[name]()
    draft = draft_mapping(port.reference, port.candidate, {})
    assert draft.total and joined(draft) == port.meant


@pytest.mark.parametrize("name", PORTS)
def test_numbers_that_agree_verify_every_guess(name):
    port = PORTS[name]()
    draft = draft_mapping(port.reference, port.candidate, {}).by(gradients(port))
    assert joined(draft) == port.meant
    assert all(guess.verified for guess in draft.guesses)


@pytest.mark.parametrize("name", PORTS)
def test_numbers_decide_where_order_is_misleading(name):
    port = PORTS[name]()
    port.candidate.reverse()
    draft = draft_mapping(port.reference, port.candidate, {}).by(gradients(port))
    assert joined(draft) == port.meant
    assert not [note for note in mapping_notes(draft) if "no numbers agree" in note]


@pytest.mark.parametrize("name", PORTS)
def test_a_port_with_a_bug_is_joined_by_the_gradients_that_are_nearest_and_called_unverified(name):
    port = PORTS[name]()
    draft = draft_mapping(port.reference, port.candidate, {}).by(gradients(port, noise=0.3))
    assert joined(draft) == port.meant
    assert not any(guess.verified for guess in draft.guesses)
    assert all(pair.why.endswith(", unverified") for pair in draft.mapping().pairs if pair.reference not in draft.sure)


@pytest.mark.parametrize("name", PORTS)
def test_tied_values_are_the_same_numbers_for_the_candidate_whatever_is_guessed(name):
    port = PORTS[name]()
    draft = draft_mapping(port.reference, port.candidate, {})
    random = np.random.default_rng(1)
    values = tied_values(draft.guesses, {v.name: random.standard_normal(v.shape) for v in port.reference})
    assert all(value.any() for value in values.values()), "what is zero tells nothing"
    made = {}
    for guess in draft.guesses:
        for unit, text in guess.options:
            parts = parse_transform(text).forward(values[guess.variable.name], linear=True)
            for one, other in zip(made.setdefault(unit, parts), parts, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", ["0, 2, 1", "1, 0, 2", "1, 2, 0", "2, 0, 1", "2, 1, 0"])
def test_numbers_decide_the_order_of_gates_that_are_packed_by_hand(order):
    port = gated_cells(order)
    draft = draft_mapping(port.reference, port.candidate, {}).by(gradients(port))
    assert joined(draft) == port.meant
    assert all(guess.verified for guess in draft.guesses)


def test_a_convolutions_kernel_is_not_taken_for_a_bias_of_as_many_elements():
    port = points()
    draft = draft_mapping(port.reference, port.candidate, {})
    kernels = {each.variable.name: each.options for each in draft.guesses if len(each.variable.shape) == 4}
    assert kernels and all(len(unit.parts[0].shape) == 3 for found in kernels.values() for unit, _ in found)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ([0.0] * 4, [1.0] * 4, 1.0),  # of one side alone
        ([1.0] * 4, [0.0] * 4, 1.0),
        ([0.0] * 4, [1e-13] * 4, None),  # rounding on both
        ([1e-11] * 4, [0.0] * 4, 1.0),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], 0.0),
        ([1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], 1.0),
        ([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], 0.5**0.5),
        ([1.0, 2.0, 3.0, np.nan], [1.0, 2.0, 3.0, 4.0], None),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], None),
        ([2.0, 4.0, 6.0, 8.0], [1.0, 2.0, 3.0, 4.0], 5e-4),  # a multiple joins and verifies nothing
        ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], 1 / 3),  # of three elements it may be chance
    ],
)
def test_gradients_are_as_far_apart_as_their_difference_is_beside_both(one, other, distance):
    numbers = Gradients({"a": np.array(one), "largest": np.ones(1)}, {"x": np.array(other)})
    found = numbers(Variable("a", (len(one),)), Unit("x", (Variable("x", (len(other),)),)), "identity")
    assert found is None if distance is None else found == pytest.approx(distance, abs=1e-12)


def test_all_pairs_at_once_are_as_far_apart_as_each_pair_alone():
    """Equal, along, near, zero, opposite, not finite and unrelated gradients, of sizes over fifteen orders, and blocks."""
    random, size = np.random.default_rng(3), 48
    one = {f"a{at}": random.standard_normal((4, 6)) * 10.0 ** random.integers(-12, 3) for at in range(size)}
    moved = [value * (-1 if at % 7 == 6 else 3 if at % 3 == 1 else 1) for at, value in enumerate(one.values())]
    other = {
        f"x{at}": value.T + 1e-7 * (at % 3 == 2) * random.standard_normal((6, 4)) for at, value in enumerate(moved)
    }
    one["a3"] = np.zeros((4, 6))
    other["x0"][0, 0], other["x3"] = np.nan, np.zeros((6, 4))
    other["packed"] = np.concatenate([moved[9].T, moved[12].T, moved[15].T])
    variables = [Variable(name, (4, 6)) for name in (*one, "silent")]
    units = [Unit(name, (Variable(name, (6, 4)),)) for name in (*other, "missing") if name != "packed"]
    blocks = [Unit(f"packed.{at}", (Variable("packed", (18, 4)),), ("rows",), (at, 3)) for at in range(3)]
    numbers = Gradients(one, other)
    for text, those in (("transpose", units), *((f"transpose | rows({at}, 3)", [blocks[at]]) for at in range(3))):
        found = numbers.of_all(variables, those, text)
        alone = [[numbers(variable, unit, text) for unit in those] for variable in variables]
        np.testing.assert_allclose(found, np.array(alone, np.float64), rtol=0, atol=1e-14)
        assert (found == 0).any() and np.isnan(found[-1]).all()


def test_what_a_report_says_of_guesses_is_of_those_that_numbers_could_tell_of():
    reference = [Variable(f"Variable_{at}", (4, 4), use="MatMul") for at in range(2)]
    draft = draft_mapping(reference, [Variable(f"net.{at}.weight", (4, 4), use="Linear") for at in range(2)], {})
    said = [
        "Variable_0" in " ".join(mapping_notes(draft, among)) for among in (None, ["Variable_0"], ["Variable_1"], [])
    ]
    assert said == [True, True, False, False]


def test_a_kernel_that_may_be_turned_becomes_symmetric_and_keeps_its_size():
    reference = [Variable("a/kernel", (8, 8), use="Einsum"), Variable("b/kernel", (8, 8), use="Einsum")]
    candidate = [Variable("one", (8, 8), use=""), Variable("two", (8, 8), use="")]
    draft = draft_mapping(reference, candidate, {})
    random = np.random.default_rng(0)
    values = tied_values(draft.guesses, {v.name: random.standard_normal(v.shape) for v in reference})
    np.testing.assert_array_equal(values["a/kernel"], values["a/kernel"].T)
    np.testing.assert_array_equal(values["a/kernel"], values["b/kernel"])
    assert np.std(values["a/kernel"]) > 0.5


def test_variables_whose_gradients_are_equal_are_joined_in_order_and_nothing_is_asked():
    reference = [Variable(name, (4,), use="AddV2") for name in ("a", "b")]
    candidate = [Variable(name, (4,), use="") for name in ("x", "y")]
    same = np.arange(4.0)
    numbers = Gradients({"a": same, "b": same}, {"x": same, "y": same})
    mapping = build_mapping(reference, candidate, {}, numbers)
    assert [(pair.reference, pair.candidate) for pair in mapping.pairs] == [("a", ("x",)), ("b", ("y",))]


def test_a_bias_without_a_gradient_goes_with_the_kernel_of_its_layer():
    reference, candidate = [], []
    for tf, torch in (("conv2d", "net.3"), ("conv2d_1", "net.0")):
        reference += [Variable(f"{tf}/kernel", (3, 3, 4, 4), use="Conv2D"), Variable(f"{tf}/bias", (4,), use="BiasAdd")]
        candidate += [
            Variable(f"{torch}.weight", (4, 4, 3, 3), use="Conv2d"),
            Variable(f"{torch}.bias", (4,), use="Conv2d"),
        ]
    random = np.random.default_rng(0)
    one, two = random.standard_normal((2, 3, 3, 4, 4))
    zero, turn = np.zeros(4), parse_transform("hwio_to_oihw").forward
    numbers = Gradients(
        {"conv2d/kernel": one, "conv2d/bias": zero, "conv2d_1/kernel": two, "conv2d_1/bias": zero},
        {"net.0.weight": turn(one)[0], "net.0.bias": zero, "net.3.weight": turn(two)[0], "net.3.bias": zero},
    )
    mapping = build_mapping(reference, candidate, {}, numbers)
    assert [pair.candidate[0] for pair in mapping.pairs] == ["net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"]


def test_a_bias_without_a_gradient_goes_with_a_kernel_that_shapes_decide():
    reference, candidate, known = [], [], ({}, {})
    random, zero, turn = np.random.default_rng(0), np.zeros(4), parse_transform("hwio_to_oihw").forward
    for tf, torch, size in (("conv2d", "last", 3), ("conv2d_1", "first", 5)):
        kernel = random.standard_normal((size, size, 4, 4))
        reference += [
            Variable(f"{tf}/kernel", kernel.shape, use="Conv2D"),
            Variable(f"{tf}/bias", (4,), use="BiasAdd"),
        ]
        candidate.insert(0, Variable(f"{torch}.bias", (4,), use="Conv2d"))
        candidate.insert(0, Variable(f"{torch}.weight", (4, 4, size, size), use="Conv2d"))
        known[0].update({f"{tf}/kernel": kernel, f"{tf}/bias": zero})
        known[1].update({f"{torch}.weight": turn(kernel)[0], f"{torch}.bias": zero})
    mapping = build_mapping(reference, candidate, {}, Gradients(*known))
    assert [pair.candidate[0] for pair in mapping.pairs] == ["last.weight", "last.bias", "first.weight", "first.bias"]


def test_without_numbers_a_bias_goes_with_the_kernel_that_shapes_decide_and_not_with_the_order():
    reference, candidate = [], []
    for tf, torch, size in (("conv2d", "last", 3), ("conv2d_1", "first", 5)):
        reference += [
            Variable(f"{tf}/kernel", (size, size, 4, 4), use="Conv2D"),
            Variable(f"{tf}/bias", (4,), use="BiasAdd"),
        ]
        candidate.insert(0, Variable(f"{torch}.bias", (4,), use="Conv2d"))
        candidate.insert(0, Variable(f"{torch}.weight", (4, 4, size, size), use="Conv2d"))
    found = joined(draft_mapping(reference, candidate, {}))
    assert [found[f"conv2d{end}/bias"][0] for end in ("", "_1")] == [("last.bias",), ("first.bias",)]


def test_layers_counted_from_one_and_from_zero_are_joined_in_order():
    reference = [Variable(f"block_{at}/kernel", (4, 4), use="MatMul") for at in (1, 2, 3)]
    candidate = [Variable(f"block.{at}.weight", (4, 4), use="Linear") for at in (0, 1, 2)]
    head = Variable("head/kernel", (4, 2), use="MatMul"), Variable("head.weight", (2, 4), use="Linear")
    mapping = build_mapping([*reference, head[0]], [*candidate, head[1]], {})
    assert [pair.candidate[0] for pair in mapping.pairs] == [*(f"block.{at}.weight" for at in (0, 1, 2)), "head.weight"]


def test_what_nothing_but_order_decides_is_asked_about_in_few_lines_with_a_table_that_can_be_used():
    reference = [Variable(f"Variable_{at}", (4, 4), use="MatMul") for at in range(12)]
    candidate = [Variable(f"net.{3 * at}.weight", (4, 4), use="Linear") for at in range(12)]
    with pytest.raises(MappingError) as caught:
        build_mapping(reference, candidate, {})
    assert len(str(caught.value).splitlines()) <= 20
    assert '    "Variable_0" = { to = "net.0.weight", transform = "transpose" }' in str(caught.value)
    assert caught.value.table.count("transform = ") == 12


def test_costs_that_forbid_everything_leave_rows_without_a_column_and_the_rest_is_cheapest():
    from parity.mapping.pairwise.assignment import FORBIDDEN, assign

    random = np.random.default_rng(0)
    for _ in range(200):
        rows, columns = (int(each) for each in random.integers(1, 5, 2))
        costs = random.integers(0, 10, (rows, columns)).astype(float)
        costs[random.random((rows, columns)) < 0.3] = FORBIDDEN
        found = assign(costs)
        assert _score(costs, found) == min(
            _score(costs, [None if c >= columns or costs[r, c] >= FORBIDDEN else c for r, c in enumerate(order)])
            for order in itertools.permutations(range(columns + rows), rows)
        )


def _score(costs, found):
    return sum(each is None for each in found), sum(
        costs[row, each] for row, each in enumerate(found) if each is not None
    )


@pytest.mark.parametrize("use", ["Linear", ""])  # "" of a module of the port's own
@pytest.mark.parametrize(
    ("shape", "entries", "words"),
    [
        ((4, 64, 10), {}, ["the rows of fc/kernel are permuted for fc.weight", '"flatten_hwc(4, 4, 4)"']),
        ((4, 64, 10), {"fc/kernel": MappingEntry(to=["fc.weight"], transform="flatten_hwc(4, 4, 4)")}, []),
        ((4, 4, 10), {}, []),
    ],
)
def test_a_kernel_that_is_the_same_only_once_permuted_is_told_of(shape, entries, words, use):
    channels, inputs, outputs = shape
    reference = [
        Variable("conv/kernel", (3, 3, 1, channels), use="Conv2D"),
        Variable("fc/kernel", (inputs, outputs), use="MatMul"),
    ]
    candidate = [
        Variable("conv.weight", (channels, 1, 3, 3), use="Conv2d"),
        Variable("fc.weight", (outputs, inputs), use=use),
    ]
    draft = draft_mapping(reference, candidate, entries)
    notes = [note for note in mapping_notes(draft) if "permuted" in note]
    assert len(notes) == bool(words)
    assert all(word in notes[0] for word in words)


@pytest.mark.parametrize(("inputs", "open_"), [(8, True), (72, False)])
def test_what_a_flattened_map_is_multiplied_by_may_lie_as_it_does(inputs, open_):
    """A dense layer beside a convolution's map, whose outputs the next layer reads; not one that reads the map itself."""
    shapes = [("conv", (3, 3, 4, 8)), ("beside", (inputs, 72)), ("hidden", (72, 24)), ("out", (24, 4))]
    reference, candidate = [], []
    for name, shape in shapes:
        conv = len(shape) == 4
        reference.append(Variable(f"{name}/kernel", shape, use="Conv2D" if conv else "MatMul"))
        reference.append(Variable(f"{name}/bias", shape[-1:], use="BiasAdd"))
        kernel = (8, 4, 3, 3) if conv else shape[::-1]
        candidate.append(Variable(f"{name}.weight", kernel, use="Conv2d" if conv else "Linear"))
        candidate.append(Variable(f"{name}.bias", shape[-1:], use="Conv2d" if conv else "Linear"))
    options = {
        guess.variable.name: {text for _, text in guess.options}
        for guess in draft_mapping(reference, candidate, {}).guesses
    }
    for name in ("beside/kernel", "beside/bias"):
        assert ("unflatten_hwc(3, 3, 8)" in options.get(name, ())) == open_
    assert "flatten_hwc(3, 3, 8)" in options["hidden/kernel"]
    assert not any("unflatten" in text for name in ("hidden/kernel", "out/kernel") for text in options.get(name, ()))


@pytest.mark.parametrize("name", PORTS)
def test_gradients_that_a_bug_has_made_unlike_everywhere_do_not_outweigh_names_and_order(name):
    port = PORTS[name]()
    before = draft_mapping(port.reference, port.candidate, {})
    draft = before.by(Gradients(gradients(port, seed=1)._reference, gradients(port, seed=2)._candidate))
    assert {n: pair for n, (pair, _) in joined(draft).items()} == {n: pair for n, (pair, _) in joined(before).items()}
    assert not any(guess.verified for guess in draft.guesses)


@pytest.mark.parametrize("name", PORTS)
def test_gradients_that_are_all_off_by_a_factor_decide_where_order_is_misleading_and_verify_nothing(name):
    port = PORTS[name]()
    port.candidate.reverse()
    equal = gradients(port)
    scaled = {name: 0.5 * value for name, value in equal._candidate.items()}
    draft = draft_mapping(port.reference, port.candidate, {}).by(Gradients(equal._reference, scaled))
    telling = {variable.name for variable in port.reference if np.prod(variable.shape) >= 4}  # of few it may be chance
    assert all(pair == port.meant[name] for name, pair in joined(draft).items() if name in telling)
    assert not any(guess.verified for guess in draft.guesses)


@pytest.mark.parametrize("name", PORTS)
def test_without_the_factor_that_all_gradients_have_they_decide_and_verify_as_equal_ones_do(name):
    port = PORTS[name]()
    port.candidate.reverse()
    equal = gradients(port)
    weights = {variable.name for variable in port.candidate if variable.kind == "weight"}
    scaled = Gradients(
        equal._reference, {name: value / (3 if name in weights else 1) for name, value in equal._candidate.items()}
    )
    draft = draft_mapping(port.reference, port.candidate, {})
    known = draft.by(equal)
    multiples = scaled.of_one_factor(draft.by(scaled))
    if sum(guess.variable.kind == "weight" and np.prod(guess.variable.shape) >= 4 for guess in known.guesses) < 2:
        assert multiples is None
        return
    found = draft.by(multiples)
    assert joined(found) == joined(known)
    assert [guess.verified for guess in found.guesses] == [guess.verified for guess in known.guesses]
    # Equal gradients have no factor to be divided by, and two that have another each have none in common.
    assert equal.of_one_factor(known) is None
    first = next(guess.unit.names for guess in found.guesses if np.prod(guess.variable.shape) >= 4)
    uneven = Gradients(equal._reference, {**scaled._candidate, **{name: equal._candidate[name] / 2 for name in first}})
    assert uneven.of_one_factor(known) is None


def test_a_kernel_that_the_graph_transposes_itself_is_taken_as_it_is_where_its_shape_says_so():
    reference = [Variable("loss/output_weights", (4, 32), use="MatMul"), Variable("fc/kernel", (16, 32), use="MatMul")]
    candidate = [Variable("classifier.weight", (4, 32), use="Linear"), Variable("fc.weight", (32, 16), use="Linear")]
    found = joined(draft_mapping(reference, candidate, {}))
    assert found == {
        "loss/output_weights": (("classifier.weight",), "identity"),
        "fc/kernel": (("fc.weight",), "transpose"),
    }


@pytest.mark.parametrize(
    ("one", "other", "strange"),
    [
        ("conv", "conv", 0.0),
        ("", "conv", 0.0),
        ("conv", "", 0.0),
        ("conv", "dense", 0.25),
        ("dense", "conv", 0.25),
        ("deconv", "conv", 0.25),
        ("embedding", "dense", 0.25),
        ("recurrent", "dense", 0.25),
        ("embedding", "conv", 1.0),
        ("norm", "dense", 1.0),
        ("recurrent", "embedding", 1.0),
    ],
)
def test_what_one_side_may_write_as_the_other_is_less_strange_than_another_layer(one, other, strange):
    assert strangeness(one, other) == strange


@pytest.mark.parametrize(
    ("use", "text"), [("LSTM", "lstm_bias(1.0)"), ("LSTMCell", "lstm_bias(1.0)"), ("RNN", "sum"), ("RNNCell", "sum")]
)
def test_a_bias_of_a_plain_cell_is_a_sum_and_an_lstms_may_hold_a_forget_bias(use, text):
    reference = [Variable("cell/bias", (8,), use="BiasAdd")]
    candidate = [Variable(f"cell.bias_{part}", (8,), use=use) for part in ("ih_l0", "hh_l0")]
    [guess] = draft_mapping(reference, candidate, {}).guesses
    assert (guess.unit.names, guess.text) == (("cell.bias_ih_l0", "cell.bias_hh_l0"), text)
    assert {each for _, each in guess.options} == (
        {"sum"} if text == "sum" else {"lstm_bias(1.0)", "lstm_bias(0.0)", "sum"}
    )


def test_an_only_fit_is_not_sure_where_what_is_left_is_equal_but_for_axes_of_length_1():
    reference = [
        Variable("attention_W", (10, 8), use="MatMul"),
        Variable("attention_b", (1, 8), use="AddV2"),
        Variable("attention_p", (8,), use="Mul"),
    ]
    candidate = [
        Variable("attention.weight", (8, 10), use="Linear"),
        Variable("attention.bias", (8,), use="Linear"),
        Variable("projection.weight", (1, 8), use="Linear"),
    ]
    draft = draft_mapping(reference, candidate, {})
    assert draft.total
    assert {name: to for name, (to, _) in joined(draft).items()} == {
        "attention_W": ("attention.weight",),
        "attention_b": ("attention.bias",),
        "attention_p": ("projection.weight",),
    }


def test_what_is_left_takes_no_sure_pair_apart_where_that_joins_no_more():
    reference = [Variable("layer/bias", (8,), use="BiasAdd"), Variable("scale", (8, 1, 1), use="Mul")]
    candidate = [Variable("layer.bias", (8,), use="Linear"), Variable("other.table", (2, 4), use="Embedding")]
    draft = draft_mapping(reference, candidate, {})
    assert joined(draft) == {"layer/bias": (("layer.bias",), "identity")}
    assert [variable.name for variable in draft.left] == ["scale"]


FEATURES = [
    Variable("vgg/conv1/kernel", (3, 3, 3, 8), kind="statistic", use="Conv2D"),
    Variable("vgg/conv1/bias", (8,), kind="statistic", use="BiasAdd"),
    Variable("head/kernel", (8, 2), use="MatMul"),
]
FROZEN = [
    Variable("features.0.weight", (8, 3, 3, 3), use="Conv2d"),
    Variable("features.0.bias", (8,), use="Conv2d"),
    Variable("head.weight", (2, 8), use="Linear"),
]
TO_FROZEN = {"to": "features.0.weight", "transform": "hwio_to_oihw"}


@pytest.mark.parametrize("by_hand", [{}, {"vgg/conv1/kernel": MappingEntry.model_validate(TO_FROZEN)}])
def test_what_the_reference_does_not_train_may_be_a_weight_that_the_port_has_frozen(by_hand):
    draft = draft_mapping(FEATURES, FROZEN, by_hand)
    assert draft.total
    mapping = draft.mapping()
    assert [(pair.candidate, pair.frozen) for pair in mapping.pairs] == [
        (("features.0.weight",), True),
        (("features.0.bias",), True),
        (("head.weight",), False),
    ]
    join = Join(mapping, {}, ())
    assert join.candidates(parse_key("stat/vgg/conv1/kernel")) == ("var/features.0.weight",)
    assert join.candidates(parse_key("var/head/kernel")) == ("var/head.weight",)


def test_a_cell_that_the_reference_does_not_train_is_the_parameters_of_one_that_the_port_has_frozen():
    """A target network: the one kernel of TensorFlow's cell is two of torch's, neither of its size."""
    reference, candidate = [], []
    for scope, module, kind in (("main", "online", "weight"), ("target", "older", "statistic")):
        reference.append(Variable(f"{scope}/lstm/kernel", (5 + 3, 12), kind=kind, use="MatMul"))
        reference.append(Variable(f"{scope}/lstm/bias", (12,), kind=kind, use="BiasAdd"))
        for name, shape in (("weight_ih", (12, 5)), ("weight_hh", (12, 3)), ("bias_ih", (12,)), ("bias_hh", (12,))):
            candidate.append(Variable(f"{module}.lstm.{name}", shape, use="LSTMCell"))
    draft = draft_mapping(reference, candidate, {})
    assert draft.total and draft.frozen == {"target/lstm/kernel", "target/lstm/bias"}
    assert joined(draft)["target/lstm/kernel"] == (("older.lstm.weight_ih", "older.lstm.weight_hh"), "lstm_gates")


def test_a_statistic_is_no_weight_where_the_port_has_a_buffer_for_it():
    reference = [Variable("norm/mean", (8,), kind="statistic"), Variable("scale", (8,), use="Mul")]
    candidate = [Variable("norm.running_mean", (8,), kind="statistic"), Variable("gain", (8,))]
    draft = draft_mapping(reference, candidate, {})
    assert draft.total and not draft.frozen
    assert joined(draft)["norm/mean"] == (("norm.running_mean",), "identity")


@pytest.mark.parametrize(
    ("use", "shape", "joins"),
    [
        ("AddV2", (1,), True),
        ("BiasAdd+Sub", (1,), True),
        ("Mul", (1,), False),  # a weight by name and by what is done with it
        ("AddV2+Mul", (1,), False),
        ("", (1,), False),
        ("AddV2", (3, 2), False),  # what is added may be a table of positions: its name stands
    ],
)
def test_a_vector_that_is_added_alone_is_a_bias_whatever_it_is_called(use, shape, joins):
    # As factorization machines have it: w0 is the bias, w the weights of the features.
    reference = [Variable("linear/w", (5, 1), use="GatherV2"), Variable("linear/w0", shape, use=use)]
    candidate = [Variable("linear.fc.weight", (5, 1), use="Embedding"), Variable("linear.bias", shape, use="")]
    assert draft_mapping(reference, candidate, {}).total == joins


@pytest.mark.parametrize(("use", "joins"), [("MatMul+L2Loss", True), ("Conv2D", True), ("AddV2", False), ("", False)])
def test_what_is_multiplied_by_is_a_kernel_whatever_it_is_called(use, joins):
    reference = [Variable("B", (8, 4), use=use), Variable("nasr_w1", (4, 4), use="MatMul")]
    candidate = [Variable("project.weight", (4, 8), use="Linear"), Variable("first.weight", (4, 4), use="Linear")]
    assert draft_mapping(reference, candidate, {}).total == joins


@pytest.mark.parametrize("order", [("query", "key", "value"), ("value", "query", "key")])
def test_dense_layers_that_a_port_computes_as_one_are_its_blocks_of_rows(order):
    """All of attention's projections in one layer, as many ports have them; numbers say in which order."""
    reference, candidate, random = [], [], np.random.default_rng(2)
    for layer in ("layer_0", "layer_1"):
        for name in ("query", "key", "value", "output"):
            reference.append(Variable(f"{layer}/{name}/kernel", (8, 8), use="MatMul"))
            reference.append(Variable(f"{layer}/{name}/bias", (8,), use="BiasAdd"))
        module = layer.replace("layer_", "blocks.")
        for name, rows in (("qkv", 24), ("proj", 8)):
            candidate.append(Variable(f"{module}.{name}.weight", (rows, 8), use="Linear"))
            candidate.append(Variable(f"{module}.{name}.bias", (rows,), use="Linear"))
    one = {variable.name: random.standard_normal(variable.shape) for variable in reference}
    other = {}
    for layer in ("layer_0", "layer_1"):
        module = layer.replace("layer_", "blocks.")
        for part, role in (("kernel", "weight"), ("bias", "bias")):
            other[f"{module}.qkv.{role}"] = np.concatenate([one[f"{layer}/{name}/{part}"].T for name in order])
            other[f"{module}.proj.{role}"] = one[f"{layer}/output/{part}"].T
    draft = draft_mapping(reference, candidate, {})
    assert draft.total
    found = joined(draft.by(Gradients(one, other)))
    for at, name in enumerate(order):
        assert found[f"layer_1/{name}/kernel"] == (("blocks.1.qkv.weight",), f"transpose | rows({at}, 3)")
        assert found[f"layer_0/{name}/bias"] == (("blocks.0.qkv.bias",), f"rows({at}, 3)")
    assert found["layer_1/output/kernel"] == (("blocks.1.proj.weight",), "transpose")


def test_a_dense_layer_that_is_as_wide_as_two_others_is_no_two_of_them():
    reference = [Variable(f"fc{at}/kernel", shape, use="MatMul") for at, shape in enumerate([(8, 16), (16, 8), (8, 8)])]
    candidate = [Variable(f"body.{at}.weight", v.shape[::-1], use="Linear") for at, v in enumerate(reference)]
    found = joined(draft_mapping(reference, candidate, {}))
    assert {name: text for name, (_, text) in found.items()} == dict.fromkeys(found, "transpose") and len(found) == 3


def test_a_layer_that_only_the_port_has_is_no_two_of_those_that_it_has_too():
    reference = [Variable(f"fc{at}/kernel", (8, 8), use="MatMul") for at in range(2)]
    candidate = [Variable(f"body.{at}.weight", (8, 8), use="Linear") for at in range(2)]
    draft = draft_mapping(reference, [*candidate, Variable("extra.weight", (16, 8), use="Linear")], {})
    assert [variable.name for variable in draft.free] == ["extra.weight"]
    assert {text for guess in draft.guesses for _, text in guess.options} == {"transpose"}
