"""What variables are taken for parts of: packed arrays of attention and of gates, beside layers that are as wide."""

import pytest

from parity.mapping import Variable, draft_mapping
from parity.mapping.units import units_of

D = 8
PARTS = ("query", "key", "value")
GATES = ("reset", "update", "new")


def dense(name, inputs, outputs):
    return [
        Variable(f"{name}/kernel", (inputs, outputs), use="MatMul"),
        Variable(f"{name}/bias", (outputs,), use="BiasAdd"),
    ]


def linear(name, inputs, outputs):
    return [
        Variable(f"{name}.weight", (outputs, inputs), use="Linear"),
        Variable(f"{name}.bias", (outputs,), use="Linear"),
    ]


def attention(name="attn"):
    of = "MultiheadAttention"
    return [Variable(f"{name}.in_proj_weight", (3 * D, D), use=of), Variable(f"{name}.in_proj_bias", (3 * D,), use=of)]


def cell(name="rnn"):
    return [
        Variable(f"{name}.weight_hh", (3 * D, D), use="GRUCell"),
        Variable(f"{name}.bias_hh", (3 * D,), use="GRUCell"),
    ]


def split(*names):
    return [variable for name in names for variable in dense(name, D, D)]


def cut(units, module):
    """Into how many blocks of rows each array of a module is cut, 1 where it is whole."""
    return {
        name: sum(name in unit.names for unit in units)
        for unit in units
        for name in unit.names
        if name.startswith(module)
    }


@pytest.mark.parametrize("wide", [0, 1, 2])  # layers of 3 d units behind it
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("module", "parts"), [(attention("it"), PARTS), (cell("it"), GATES)])
def test_what_a_module_packs_is_cut_where_the_reference_has_no_packed_array_to_spare(module, parts, packed, wide):
    own = dense("it/packed", D, 3 * D) if packed else split(*(f"it/{part}" for part in parts))
    reference = [*own, *(each for at in range(wide) for each in dense(f"wide_{at}", D, 3 * D))]
    candidate = [*module, *(each for at in range(wide) for each in linear(f"wide.{at}", D, 3 * D))]
    units = units_of(candidate, reference)
    assert cut(units, "it.") == {each.name: 1 if packed else 3 for each in module}
    assert set(cut(units, "wide").values()) <= {1}


def test_of_two_modules_the_packed_arrays_of_the_reference_are_both_taken():
    for make in (attention, cell):
        candidate = [*make("one"), *make("two"), *linear("wide", D, 3 * D)]
        reference = [each for name in ("one", "two", "wide") for each in dense(name, D, 3 * D)]
        assert set(cut(units_of(candidate, reference), "").values()) == {1}


def test_moving_statistics_of_so_many_channels_leave_no_packed_bias_to_spare():
    """Another kind is no partner, whatever its shape."""
    statistic = [Variable("norm/moving_mean", (3 * D,), kind="statistic")]
    reference = [*split(*PARTS), *statistic, *dense("wide", D, 3 * D)]
    own = [Variable("norm.running_mean", (3 * D,), kind="statistic", use="BatchNorm1d")]
    assert set(cut(units_of([*attention(), *own, *linear("wide", D, 3 * D)], reference), "attn.").values()) == {3}


@pytest.mark.parametrize(("use", "shape"), [("Conv1d", (3 * D, D, 1)), ("Conv1D", (D, 3 * D))])
def test_a_layer_whose_kernel_lies_otherwise_is_as_wide_all_the_same(use, shape):
    reference = [*split(*PARTS), *dense("wide", D, 3 * D)]
    wide = [Variable("wide.weight", shape, use=use), Variable("wide.bias", (3 * D,), use=use)]
    assert set(cut(units_of([*attention(), *wide], reference), "attn.").values()) == {3}


def test_attention_beside_a_dense_layer_of_three_times_its_width_is_joined_part_by_part():
    out = [Variable("attn.out_proj.weight", (D, D), use="NonDynamicallyQuantizableLinear")]
    reference = [
        *(each for name in PARTS for each in dense(f"attn/{name}", D, D)),
        Variable("attn/out/kernel", (D, D), use="MatMul"),
        *dense("ffn/wide", D, 3 * D),
    ]
    pairs = draft_mapping(reference, [*attention(), *out, *linear("ffn.wide", D, 3 * D)], {}).mapping().pairs
    joined = {pair.reference: (pair.candidate, pair.transform.text) for pair in pairs}
    for at, name in enumerate(PARTS):
        assert joined[f"attn/{name}/kernel"] == (("attn.in_proj_weight",), f"transpose | rows({at}, 3)")
        assert joined[f"attn/{name}/bias"] == (("attn.in_proj_bias",), f"rows({at}, 3)")
    assert joined["ffn/wide/kernel"] == (("ffn.wide.weight",), "transpose")
    assert joined["ffn/wide/bias"] == (("ffn.wide.bias",), "identity")


@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_whose_output_is_projected_is_joined_with_the_cells_projection(layers):
    hidden, size = 6, 3
    reference, candidate = [], []
    for at, inputs in enumerate((5, size)[:layers]):
        cell = f"rnn/cell_{at}/lstm_cell"
        reference += [
            Variable(f"{cell}/kernel", (inputs + size, 4 * hidden), use="MatMul"),
            Variable(f"{cell}/projection/kernel", (hidden, size), use="MatMul"),
        ]
        shapes = {"weight_ih": (4 * hidden, inputs), "weight_hh": (4 * hidden, size), "weight_hr": (size, hidden)}
        candidate += [Variable(f"lstm.{name}_l{at}", shape, use="LSTM") for name, shape in shapes.items()]
    draft = draft_mapping(reference, candidate, {})
    assert draft.total
    found = {pair.reference: (pair.candidate, pair.transform.text) for pair in draft.mapping().pairs}
    for at in range(layers):
        names = (f"lstm.weight_ih_l{at}", f"lstm.weight_hh_l{at}")
        assert found[f"rnn/cell_{at}/lstm_cell/kernel"] == (names, f"lstm_projected({size})")
        assert found[f"rnn/cell_{at}/lstm_cell/projection/kernel"] == ((f"lstm.weight_hr_l{at}",), "transpose")
