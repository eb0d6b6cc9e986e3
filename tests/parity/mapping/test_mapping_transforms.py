import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parity.mapping import TRANSFORMS, MappingError, parse_transform, register

RANDOM = np.random.default_rng(0)
sizes = st.integers(1, 4)


def numbered(*shape):
    return np.arange(1.0, 1 + math.prod(shape)).reshape(shape)


@st.composite
def written_transforms(draw):
    """A transform's text and an array that it takes."""
    a, b, c, d, e = (draw(sizes) for _ in range(5))
    cases = {
        "identity": ("identity", (a, b, c)),
        "transpose": ("transpose", (a, b)),
        "hwio_to_oihw": ("hwio_to_oihw", (a, b, c, d)),
        "hwoi_to_iohw": ("hwoi_to_iohw", (a, b, c, d)),
        "hwcm_to_depthwise": ("hwcm_to_depthwise", (a, b, c, d)),
        "wio_to_oiw": ("wio_to_oiw", (a, b, c)),
        "dhwio_to_oidhw": ("dhwio_to_oidhw", (a, b, c, d, e)),
        "nhwc_to_nchw": ("nhwc_to_nchw", (a, b, c, d)),
        "nchw_to_nhwc": ("nchw_to_nhwc", (a, b, c, d)),
        "ndhwc_to_ncdhw": ("ndhwc_to_ncdhw", (a, b, c, d, e)),
        "nlc_to_ncl": ("nlc_to_ncl", (a, b, c)),
        "ntc_to_tnc": ("ntc_to_tnc", (a, b, c)),
        "axes": ("axes(1, 3, 0, 2)", (a, b, c, d)),
        "flatten_hwc": (f"flatten_hwc({a}, {b}, {c})", (a * b * c, d)),
        "reshape": (f"reshape({a * b}, {c})", (a, b, c)),
        "unflatten_hwc": (f"unflatten_hwc({a}, {b}, {c})", (d, a * b * c) if d % 2 else (a * b * c,)),
        "rows": ("rows(0, 1)", (a, b)),
        "split": ("split(3)", (a, 3 * b) if d % 2 else (3 * b,)),
        "lstm_rows": ("lstm_rows", (a, 4 * b) if d % 2 else (4 * b,)),
        "gates": ("gates(1, 2, 0)", (a, 3 * b) if d % 2 else (3 * b,)),
        "rnn_kernel": ("rnn_kernel", (a + b, b)),
        "lstm_gates": ("lstm_gates", (a + b, 4 * b)),
        "lstm_projected": (f"lstm_projected({b})", (a + b, 4 * c)),
        "lstm_bias": (f"lstm_bias({c}.5)", (4 * a,)),
        "sum": ("sum", (a, b)),
    }
    assert set(cases) == set(TRANSFORMS)
    cases["chain"] = (f"reshape({a}, {b * c}) | transpose", (a, b, c))
    text, shape = cases[draw(st.sampled_from(sorted(cases)))]
    return text, numbered(*shape)


@given(written_transforms(), st.booleans())
@settings(max_examples=300)
def test_there_and_back_is_the_identity(written, linear):
    text, array = written
    transform = parse_transform(text)
    parts = transform.forward(array, linear)
    assert len(parts) == transform.parts
    assert transform.is_sum == text.startswith(("sum", "lstm_bias"))
    np.testing.assert_array_equal(transform.backward(*parts, shape=array.shape, linear=linear), array)


@given(written_transforms())
@settings(max_examples=200)
def test_back_and_there_is_the_identity_where_no_sum_is_split(written):
    text, array = written
    transform = parse_transform(text)
    assume(not transform.is_sum)
    random = np.random.default_rng(0)  # each example its own
    parts = tuple(random.standard_normal(part.shape) for part in transform.forward(array))
    again = transform.forward(transform.backward(*parts, shape=array.shape))
    for part, other in zip(parts, again, strict=True):
        np.testing.assert_array_equal(part, other)


@given(written_transforms())
@settings(max_examples=200)
def test_shapes_are_those_of_the_arrays_made_and_the_text_reads_back(written):
    text, array = written
    transform = parse_transform(text)
    assert transform.shapes(array.shape) == tuple(part.shape for part in transform.forward(array))
    again = parse_transform(transform.text)
    assert again.text == transform.text
    for part, other in zip(transform.forward(array), again.forward(array), strict=True):
        np.testing.assert_array_equal(part, other)


@given(written_transforms())
@settings(max_examples=100)
def test_a_linear_transform_adds_no_constant(written):
    text, array = written
    for part in parse_transform(text).forward(np.zeros_like(array), linear=True):
        assert not part.any()


@pytest.mark.parametrize("text", ["transpose", "hwio_to_oihw", "nhwc_to_nchw"])
def test_permutations_are_views(text):
    array = numbered(*range(2, 2 + (2 if text == "transpose" else 4)))
    (moved,) = parse_transform(text).forward(array)
    assert np.shares_memory(moved, array)
    assert np.shares_memory(parse_transform(text).backward(moved), array)


def layouts():
    functional = pytest.importorskip("torch.nn.functional")
    return {
        # text: kernel, input (one position wide), TensorFlow's rule, torch's op, and how torch takes the input
        "transpose": ((3, 5), (3,), "i,io->o", functional.linear, lambda x: x[None]),
        "wio_to_oiw": ((2, 3, 5), (2, 3), "wi,wio->o", functional.conv1d, lambda x: x.T[None]),
        "hwio_to_oihw": (
            (2, 4, 3, 5),
            (2, 4, 3),
            "hwi,hwio->o",
            functional.conv2d,
            lambda x: x.transpose(2, 0, 1)[None],
        ),
        "dhwio_to_oidhw": (
            (2, 4, 3, 2, 5),
            (2, 4, 3, 2),
            "dhwi,dhwio->o",
            functional.conv3d,
            lambda x: x.transpose(3, 0, 1, 2)[None],
        ),
        "hwcm_to_depthwise": (
            (2, 4, 3, 5),
            (2, 4, 3),
            "hwc,hwcm->cm",
            lambda x, k: functional.conv2d(x, k, groups=3),
            lambda x: x.transpose(2, 0, 1)[None],
        ),
        "hwoi_to_iohw": (
            (2, 4, 5, 3),
            (3,),
            "i,hwoi->ohw",
            functional.conv_transpose2d,
            lambda x: x[None, :, None, None],
        ),
        "flatten_hwc(2, 4, 3)": (
            (24, 5),
            (2, 4, 3),
            None,
            functional.linear,
            lambda x: x.transpose(2, 0, 1).reshape(1, -1),
        ),
    }


@pytest.mark.parametrize(
    "text",
    [
        "transpose",
        "wio_to_oiw",
        "hwio_to_oihw",
        "dhwio_to_oidhw",
        "hwcm_to_depthwise",
        "hwoi_to_iohw",
        "flatten_hwc(2, 4, 3)",
    ],
)
def test_torch_computes_with_the_new_layout_what_tensorflow_defines_for_the_old(text):
    torch = pytest.importorskip("torch")
    kernel_shape, input_shape, rule, op, laid_out = layouts()[text]
    kernel, x = RANDOM.standard_normal(kernel_shape), RANDOM.standard_normal(input_shape)
    expected = np.einsum(rule, x, kernel) if rule else x.reshape(-1) @ kernel
    (changed,) = parse_transform(text).forward(kernel)
    got = op(torch.tensor(laid_out(x).copy()), torch.tensor(changed.copy())).numpy()
    np.testing.assert_allclose(got.reshape(-1), expected.reshape(-1), rtol=1e-12, atol=1e-14)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def basic_lstm_cell(x, kernel, bias, forget_bias):
    """tensorflow/python/ops/rnn_cell_impl.py (1.15), BasicLSTMCell.call, over ``[time, in]``; returns ``[time, h]``."""
    h = c = np.zeros(len(bias) // 4)
    outputs = []
    for row in x:
        i, j, f, o = np.split(np.concatenate([row, h]) @ kernel + bias, 4)
        c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize("forget_bias", [0.0, 1.0, 2.5])
def test_torchs_lstm_computes_what_basic_lstm_cell_does(forget_bias):
    torch = pytest.importorskip("torch")
    x, kernel, bias = (RANDOM.standard_normal(shape) for shape in ((6, 3), (3 + 5, 4 * 5), (4 * 5,)))
    lstm = torch.nn.LSTM(3, 5, dtype=torch.float64)
    parts = parse_transform("lstm_gates").forward(kernel) + parse_transform(f"lstm_bias({forget_bias})").forward(bias)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    lstm.load_state_dict({name: torch.tensor(part.copy()) for name, part in zip(names, parts, strict=True)})
    got = lstm(torch.tensor(x))[0].detach().numpy()
    np.testing.assert_allclose(got, basic_lstm_cell(x, kernel, bias, forget_bias), rtol=1e-12)


def test_torchs_lstm_with_projected_outputs_computes_what_a_cell_with_num_proj_does():
    torch = pytest.importorskip("torch")
    x, kernel, down = (RANDOM.standard_normal(shape) for shape in ((6, 3), (3 + 2, 4 * 5), (5, 2)))
    lstm = torch.nn.LSTM(3, 5, proj_size=2, bias=False, dtype=torch.float64)
    parts = parse_transform("lstm_projected(2)").forward(kernel) + parse_transform("transpose").forward(down)
    names = ("weight_ih_l0", "weight_hh_l0", "weight_hr_l0")
    lstm.load_state_dict({name: torch.tensor(part.copy()) for name, part in zip(names, parts, strict=True)})
    state, c, outputs = np.zeros(2), np.zeros(5), []
    for row in x:  # LSTMCell.call with num_proj, and forget_bias=0
        i, j, f, o = np.split(np.concatenate([row, state]) @ kernel, 4)
        c = c / (1 + np.exp(-f)) + np.tanh(j) / (1 + np.exp(-i))
        state = np.tanh(c) / (1 + np.exp(-o)) @ down
        outputs.append(state)
    np.testing.assert_allclose(lstm(torch.tensor(x))[0].detach().numpy(), np.stack(outputs), rtol=1e-12)


@pytest.mark.parametrize("text", ["lstm_projected(0)", "lstm_projected(-1)"])
def test_a_projection_has_a_size(text):
    with pytest.raises(MappingError, match="Write num_proj"):
        parse_transform(text)


def test_the_forget_bias_is_added_to_a_value_and_never_to_a_gradient():
    bias = parse_transform("lstm_bias")
    value, constant = bias.forward(np.zeros(8))
    assert not value.any()
    np.testing.assert_array_equal(constant, [0, 0, 1, 1, 0, 0, 0, 0])
    for part in bias.forward(np.zeros(8), linear=True):
        assert not part.any()
    np.testing.assert_array_equal(bias.backward(np.zeros(8), np.zeros(8), linear=True), np.zeros(8))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_bias_is_not_rounded_by_the_forget_bias(dtype):
    bias, variable = parse_transform("lstm_bias(1.0)"), RANDOM.standard_normal(8).astype(dtype) / 100
    np.testing.assert_array_equal(bias.backward(*bias.forward(variable)), variable)


def test_a_forget_bias_that_a_port_keeps_in_its_trained_bias_is_taken_off_there():
    bias = parse_transform("lstm_bias(1.0)")
    trained = np.array([5.0, 6, 8, 9, 1, 2, 3, 4])
    np.testing.assert_array_equal(bias.backward(trained, np.zeros(8)), [5, 6, 1, 2, 7, 8, 3, 4])


def test_each_term_of_a_sum_has_the_whole_gradient_and_a_frozen_term_may_have_none():
    split = parse_transform("sum")
    gradient = numbered(3)
    for part in split.forward(gradient, linear=True):
        np.testing.assert_array_equal(part, gradient)
    np.testing.assert_array_equal(split.backward(gradient, gradient, linear=True), gradient)
    np.testing.assert_array_equal(split.backward(gradient, linear=True), gradient)
    np.testing.assert_array_equal(split.backward(gradient, gradient), 2 * gradient)
    with pytest.raises(MappingError, match="expected 2 arrays of the candidate, got 1"):
        split.backward(gradient)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_no_transform_changes_the_dtype(dtype):
    for text, shape in (("lstm_bias", (8,)), ("lstm_gates", (3, 8)), ("sum", (3,)), ("transpose", (2, 3))):
        for linear in (False, True):
            transform = parse_transform(text)
            parts = transform.forward(np.ones(shape, dtype), linear)
            back = transform.backward(*parts, linear=linear)
            assert {part.dtype.name for part in parts} | {back.dtype.name} == {dtype}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("transposed", "expected one of axes, dhwio_to_oidhw, .*, wio_to_oiw, got 'transposed'"),
        ("", "got ''"),
        ("flatten_hwc", "expected arguments that flatten_hwc takes"),
        ("flatten_hwc(7, 7)", "missing 1 required positional argument: 'channels'"),
        ("flatten_hwc(7, 7, 2.5)", r"expected whole numbers of at least 1, got \(7, 7, 2.5\)"),
        ("flatten_hwc(7, 7, True)", "expected numbers between the parentheses"),
        ("flatten_hwc(7, 7, __import__('os'))", "expected numbers between the parentheses"),
        ("flatten_hwc(*[7, 7, 7])", "expected numbers between the parentheses"),
        ("lstm_bias(**{})", "expected numbers between the parentheses"),
        ("lstm_bias(1)(2)", "expected numbers between the parentheses"),
        ("lstm_bias(1) + lstm_bias(2)", "expected numbers between the parentheses|expected one of"),
        ("lstm_bias(1e999)", "expected a finite forget_bias"),
        ("reshape(0)", "at least 1"),
        ("axes(0, 2)", "each axis from 0 once"),
        ("axes()", "each axis from 0 once"),
        ("transpose(1)", "expected arguments that transpose takes"),
    ],
)
def test_what_is_no_transform_is_refused(text, message):
    with pytest.raises(MappingError, match=message):
        parse_transform(text)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("transpose", (2, 3, 4)),
        ("hwio_to_oihw", (2, 3)),
        ("hwcm_to_depthwise", (2, 3)),
        ("flatten_hwc(2, 2, 2)", (9, 3)),
        ("reshape(2, 2)", (5,)),
        ("lstm_gates", (2, 12)),
        ("lstm_gates", (8, 10)),
        ("lstm_gates", (8, 4, 1)),
        ("lstm_gates", (12,)),
        ("lstm_projected(2)", (2, 12)),
        ("lstm_projected(2)", (8, 10)),
        ("lstm_projected(2)", (12,)),
        ("lstm_bias", (6,)),
        ("lstm_bias", (4, 4)),
        ("lstm_rows", (4, 6)),
        ("lstm_rows", (4, 4, 4)),
        ("lstm_rows", ()),
        ("rnn_kernel", (3, 3)),
        ("rnn_kernel", (5, 3, 1)),
        ("gates(1, 0, 2)", (3, 5)),
        ("gates(1, 0, 2)", (2, 3, 3)),
        ("gates(1, 0, 2)", ()),
        ("split(2)", (2, 3)),
        ("split(2)", (2, 2, 2)),
        ("rows(0, 2)", ()),
        ("unflatten_hwc(2, 2, 2)", (8, 3)),
        ("unflatten_hwc(2, 2, 2)", (3, 3, 8)),
        ("flatten_hwc(2, 2, 2)", (8, 3, 1)),
    ],
)
def test_an_array_of_another_shape_is_refused_with_both_shapes(text, shape):
    with pytest.raises(MappingError, match=r"expected .*, got an array of shape \("):
        parse_transform(text).forward(np.zeros(shape))


@pytest.mark.parametrize(
    ("text", "shapes", "shape"),
    [
        ("transpose", [(2, 3, 4)], None),
        ("hwcm_to_depthwise", [(7, 1, 3, 3)], (3, 3, 2, 3)),
        ("hwcm_to_depthwise", [(6, 3, 3)], (3, 3, 2, 3)),
        ("flatten_hwc(2, 2, 2)", [(3, 9)], None),
        ("flatten_hwc(2, 2, 2)", [(3, 8, 1)], None),
        ("reshape(2, 2)", [(4,)], (4,)),
        ("reshape(2, 2)", [(2, 2)], (5,)),
        ("unflatten_hwc(2, 2, 2)", [(3, 8)], None),
        ("unflatten_hwc(2, 2, 2)", [(8, 3, 3)], None),
        ("lstm_gates", [(12, 4), (12, 4)], None),
        ("lstm_gates", [(8, 4), (12, 3)], None),
        ("lstm_gates", [(12,), (12, 3)], None),
        ("lstm_gates", [(12, 4), (12,)], None),
        ("lstm_projected(3)", [(12, 4), (12, 4)], None),
        ("lstm_projected(4)", [(8, 4), (12, 4)], None),
        ("lstm_projected(4)", [(12, 4), (10, 4)], None),
        ("rnn_kernel", [(3, 2), (3, 2)], None),
        ("rnn_kernel", [(3,), (3, 3)], None),
        ("rnn_kernel", [(3, 2), (3,)], None),
        ("lstm_bias", [(8,), (4,)], None),
        ("sum", [(8,), (4,)], None),
        ("gates(1, 0, 2)", [(5, 3)], None),
        ("gates(1, 0, 2)", [(3, 2, 2)], None),
        ("rows(0, 2)", [(3, 2)], None),
        ("rows(0, 2)", [()], None),
        ("split(2)", [(2, 3), (3, 2)], None),
        ("split(2)", [(2, 2, 2), (2, 2, 2)], None),
    ],
)
def test_going_back_from_arrays_of_other_shapes_is_refused_with_both_shapes(text, shapes, shape):
    with pytest.raises(MappingError, match=r"expected .*, got an array of shape \("):
        parse_transform(text).backward(*map(np.zeros, shapes), shape=shape)


@pytest.mark.parametrize("text", ["hwcm_to_depthwise", "reshape(2, 3)"])
def test_going_back_without_the_shape_it_needs_is_refused(text):
    with pytest.raises(MappingError, match="Pass it as shape"):
        parse_transform(text).backward(numbered(2, 3))


def test_a_name_cannot_be_registered_twice():
    with pytest.raises(MappingError, match="got 'transpose' a second time"):
        register("transpose")(TRANSFORMS["identity"])
    assert parse_transform("transpose").shapes((2, 3)) == ((3, 2),)


def test_gates_of_keras_become_those_of_torch():
    kernel = np.concatenate([np.full((2, 3), gate) for gate in (10.0, 20.0, 30.0)], axis=1)  # z, r, h
    (made,) = parse_transform("gates(1, 0, 2)").forward(kernel)
    assert made.shape == (9, 2)
    np.testing.assert_array_equal(made[:, 0], np.repeat([20.0, 10.0, 30.0], 3))


def test_a_block_of_rows_is_taken_from_the_whole_and_counts_in_its_shape():
    transform = parse_transform("reshape(4, 6) | transpose | rows(1, 3)")
    assert transform.shapes((4, 2, 3)) == ((18, 4),) and transform.rows == (1, 3)
    array = numbered(4, 2, 3)
    (block,) = transform.forward(array)
    whole = np.concatenate([np.zeros((6, 4)), block, np.ones((6, 4))])
    np.testing.assert_array_equal(transform.backward(whole, shape=(4, 2, 3)), array)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows(3, 3)", "expected a block's number below the number of blocks"),
        ("rows(-1, 3)", "expected a block's number below the number of blocks"),
        ("split(1)", "expected a number of pieces of at least 2"),
        ("rows(0, 1.5)", "expected a block's number below the number of blocks"),
        ("split(2.0)", "expected a number of pieces of at least 2"),
        ("gates(0, 2)", "expected every block's number once"),
        ("gates(0)", "expected every block's number once"),
        ("gates(0.0, 1.0)", "expected every block's number once"),
        ("flatten_hwc(2, 0, 2)", "expected whole numbers of at least 1"),
        ("reshape(2.0, 2)", "expected whole numbers of at least 1"),
        ("split(2) | transpose", "expected only the last of"),
        ("transpose | split(2) | transpose", "expected only the last of"),
        ("split(2) | transpose | transpose", "expected only the last of"),
        ("rows(1, 2) | transpose", "expected only the last of 'rows(1, 2) | transpose' to make several arrays or rows"),
        ("transpose | rows(0, 2) | split(2)", "expected only the last of"),
        ("transpose | turn", "expected one of"),
    ],
)
def test_a_wrong_chain_or_block_is_refused(text, message):
    with pytest.raises(MappingError) as refused:
        parse_transform(text)
    assert message in str(refused.value)


def test_what_a_chain_makes_in_the_end_it_takes_back_through_every_link():
    transform = parse_transform("transpose | reshape(3, 8) | split(2)")
    array = numbered(4, 6)
    assert (transform.parts, transform.rows, transform.is_sum) == (2, None, False)
    parts = transform.forward(array)
    assert [part.tolist() for part in parts] == [
        part.T.tolist() for part in np.split(array.T.reshape(3, 8), 2, axis=-1)
    ]
    np.testing.assert_array_equal(transform.backward(*parts, shape=(4, 6)), array)
    with pytest.raises(
        MappingError, match=r"transpose \| reshape\(3, 8\) \| split\(2\): expected the reference's shape"
    ):
        transform.backward(*parts)


def test_a_chain_that_ends_in_a_sum_takes_gradients_and_values_back_as_the_sum_does():
    transform = parse_transform("transpose | sum")
    value = numbered(2, 3)
    parts = tuple(2.0 * value.T if number == 0 else np.zeros((3, 2)) for number in range(transform.parts))
    assert transform.is_sum and transform.parts == 2
    np.testing.assert_array_equal(transform.backward(*parts, shape=(2, 3)), 2.0 * value)
    np.testing.assert_array_equal(transform.backward(*parts, shape=(2, 3), linear=True), value)


@pytest.mark.parametrize(
    ("text", "shape", "permuted"),
    [
        ("transpose", (12, 5), False),
        ("hwio_to_oihw", (3, 3, 2, 4), False),
        ("reshape(3, 4)", (12,), False),
        ("reshape(3, 4) | transpose", (12,), True),
        ("split(2)", (3, 8), False),
        ("flatten_hwc(2, 3, 2)", (12, 5), True),
        ("unflatten_hwc(2, 3, 2)", (5, 12), True),
        ("lstm_rows", (3, 8), True),
        ("sum", (3, 8), False),
        ("lstm_bias(1.0)", (8,), True),
    ],
)
def test_what_only_turns_an_array_is_told_from_what_puts_its_elements_in_another_order(text, shape, permuted):
    assert parse_transform(text).permutes(shape) is permuted


MADE = {
    "identity": ((), (2, 3), 1),
    "transpose": ((), (2, 3), 1),
    "hwio_to_oihw": ((), (2, 3, 4, 5), 1),
    "hwoi_to_iohw": ((), (2, 3, 4, 5), 1),
    "wio_to_oiw": ((), (2, 3, 4), 1),
    "dhwio_to_oidhw": ((), (2, 3, 4, 5, 6), 1),
    "nhwc_to_nchw": ((), (2, 3, 4, 5), 1),
    "nchw_to_nhwc": ((), (2, 3, 4, 5), 1),
    "ndhwc_to_ncdhw": ((), (2, 3, 4, 5, 6), 1),
    "ntc_to_tnc": ((), (2, 3, 4), 1),
    "nlc_to_ncl": ((), (2, 3, 4), 1),
    "axes": ((2, 0, 1), (2, 3, 4), 1),
    "hwcm_to_depthwise": ((), (2, 3, 4, 5), 1),
    "flatten_hwc": ((2, 3, 4), (24, 5), 1),
    "unflatten_hwc": ((2, 3, 4), (5, 24), 1),
    "reshape": ((6, 4), (2, 3, 4), 1),
    "rows": ((1, 3), (2, 3), 1),
    "split": ((2,), (3, 4), 2),
    "lstm_rows": ((), (3, 8), 1),
    "gates": ((2, 0, 1), (2, 6), 1),
    "rnn_kernel": ((), (5, 3), 2),
    "lstm_gates": ((), (5, 8), 2),
    "lstm_projected": ((3,), (5, 8), 2),
    "lstm_bias": ((0.5,), (8,), 2),
    "sum": ((), (8,), 2),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("linear", [False, True])
def test_a_transform_that_is_made_anew_says_how_many_arrays_it_makes_and_reads_as_it_is_written(name, linear):
    given, shape, parts = MADE[name]
    transform = TRANSFORMS[name](*given)
    made = transform.forward(numbered(*shape), linear)
    assert len(made) == transform.parts == parts
    assert transform.is_sum == (name in ("sum", "lstm_bias"))
    whole = [np.concatenate([made[0] * 0, made[0], made[0] * 0])] if name == "rows" else made
    np.testing.assert_array_equal(transform.backward(*whole, shape=shape, linear=linear), numbered(*shape))
    assert transform.rows == ((1, 3) if name == "rows" else None)
    assert parse_transform(transform.text).text == transform.text
    assert [part.shape for part in parse_transform(transform.text).forward(numbered(*shape))] == [p.shape for p in made]


@pytest.mark.parametrize("signs", [3_000, 9_000])
def test_signs_before_signs_that_no_parser_takes_are_no_arguments(signs):
    with pytest.raises(MappingError, match="expected numbers between the parentheses"):
        parse_transform(f"rows({'-' * signs}1)")
