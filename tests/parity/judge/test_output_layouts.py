"""Outputs in the layouts of TensorFlow on one side and of torch on the other."""

import numpy as np
import pytest

from parity.judge import Join
from parity.judge.output_layouts import layout_of, take_layouts
from parity.mapping import Mapping, MappingEntry, parse_transform
from parity.mapping.trace_map import Renaming
from parity.trace import Trace, TraceWriter, parse_key

NCHW, NTC = (0, 3, 1, 2), (1, 0, 2)


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def trace(folder, **outputs):
    writer = TraceWriter(folder, {"package": "test"})
    writer.init({})
    writer.step(0, outputs)
    writer.close()
    return Trace(folder)


@pytest.mark.parametrize(
    ("shape", "axes", "layout"),
    [
        ((4, 3), (1, 0), "transpose"),
        ((2, 5, 3), (0, 2, 1), "nlc_to_ncl"),
        ((2, 5, 3), NTC, "ntc_to_tnc"),
        ((2, 5, 6, 3), NCHW, "nhwc_to_nchw"),
        ((2, 3, 5, 6), (0, 2, 3, 1), "nchw_to_nhwc"),
        ((2, 4, 5, 6, 3), (0, 4, 1, 2, 3), "ndhwc_to_ncdhw"),
        ((2, 5, 6, 3), (0, 1, 2, 3), "identity"),
        ((5, 3), (0, 1), "identity"),
    ],
)
def test_the_only_layout_that_fits_is_taken_even_where_the_numbers_differ(shape, axes, layout):
    value = drawn(*shape)
    assert layout_of([(value, value.transpose(axes))]) == layout
    assert layout_of([(value, 2.0 * value.transpose(axes))]) == layout


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 4, 6, 5, 3), (0, 1, 4, 2, 3)),  # images of slots, or of a sequence
        ((2, 4, 6, 6, 1), (0, 1, 4, 2, 3)),
        ((2, 7, 4, 5), (0, 2, 1, 3)),  # heads beside time
        ((2, 5, 6, 3), (3, 0, 1, 2)),
    ],
)
def test_another_order_of_axes_is_taken_where_the_numbers_agree_in_it(shape, axes):
    value = drawn(*shape)
    other = value.transpose(axes)
    layout = layout_of([(value, other)])
    np.testing.assert_array_equal(parse_transform(layout).backward(other, shape=None), value)
    assert layout.startswith("axes(") and layout_of([(value, 1.01 * other)]) == layout
    assert layout_of([(value, 2.0 * other)]) == "identity"
    assert layout_of([(value, drawn(*other.shape) + 3.0)]) == "identity"


@pytest.mark.parametrize("shape", [(4, 6, 6, 6), (6, 6, 6)])
def test_of_several_that_fit_a_square_the_numbers_decide(shape):
    value = drawn(*shape)
    axes, layout = (NCHW, "nhwc_to_nchw") if len(shape) == 4 else (NTC, "ntc_to_tnc")
    assert layout_of([(value, value.transpose(axes))]) == layout
    assert layout_of([(value, 1.01 * value.transpose(axes))]) == layout
    assert layout_of([(value, value)]) == "identity"
    assert layout_of([(value, 1.01 * value)]) == "identity"


@pytest.mark.parametrize("shape", [(4, 6, 6, 6), (6, 6, 6)])
def test_a_square_is_taken_in_no_layout_in_which_it_is_only_nearer(shape):
    value = drawn(*shape)
    other = value.transpose(NCHW if len(shape) == 4 else NTC) + 0.3 * np.random.default_rng(1).normal(size=shape)
    assert layout_of([(value, other)]) == "identity"


def test_products_in_either_order_are_not_one_in_two_layouts():
    one, other = drawn(5, 7), drawn(5, 8)[:, 1:]
    assert layout_of([(one @ other.T, other @ one.T)]) == "identity"
    assert layout_of([(one.T @ other[:, :3], (one.T @ other[:, :3]).T)]) == "transpose"


@pytest.mark.parametrize("other", [drawn(7, 6, 6, 6), np.full((7, 6, 6, 6), np.nan)])
def test_a_square_that_agrees_in_no_layout_stays_as_it_is(other):
    assert layout_of([(np.random.default_rng(1).normal(size=other.shape), other)]) == "identity"


def test_a_layout_has_to_fit_every_tower():
    one, other = drawn(2, 5, 6, 3), drawn(2, 5, 5, 5)
    assert layout_of([(one, one.transpose(NCHW)), (other, other.transpose(NCHW))]) == "nhwc_to_nchw"
    assert layout_of([(one, one.transpose(NCHW)), (one, one)]) == "identity"


def test_outputs_are_read_in_the_layout_that_was_found_and_the_report_says_so(tmp_path):
    value = drawn(2, 5, 6, 3)
    moved = value.transpose(NCHW).copy()
    reference = trace(tmp_path / "reference", **dict.fromkeys(["act/0/a", "act/0/b", "metric/m", "act/0/c"], value))
    candidate = trace(
        tmp_path / "candidate", **{"act/0/a": moved, "act/0/other": moved, "metric/m": value, "act/0/c": moved}
    )
    entries = {"b": MappingEntry(to="other"), "c": MappingEntry(to="c", transform="identity")}
    join = Join(Mapping([]), {"act": Renaming("act", entries)}, [])
    (told,) = take_layouts(join, reference, candidate)
    assert told.endswith("guessed by their shapes and numbers: a (nhwc_to_nchw), b (nhwc_to_nchw)")
    for name in ("a", "b"):
        np.testing.assert_array_equal(join.read(parse_key(f"act/0/{name}"), candidate.step(0)), value)
    assert join.read(parse_key("act/0/c"), candidate.step(0)).shape == moved.shape  # as it is written by hand
    np.testing.assert_array_equal(join.write(parse_key("act/0/b"), value)["act/0/other"], moved)
    np.testing.assert_array_equal(join.read(parse_key("eval/a"), _Held(moved)), value)


class _Held(dict):
    def __init__(self, value):
        super().__init__({"eval/a": value})

    def read(self, name):
        return self[name]
