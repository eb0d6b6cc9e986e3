"""Shapes and constants of ops whose shorter forms hide what they do with examples, rows and padding."""

from typing import Any

import numpy as np
import pytest

from parity.port.tower.fold import fold
from parity.port.tower.infer import inferred
from parity.port.tower.ops import CONST, FEED, Op, Tensor, Tower
from parity.trace.arrays import Array


def of_shape(*shape: int) -> Tensor:
    return Op(FEED, "x", [], {}, [shape], ["float32"]).output()


def constant(value: Any) -> Tensor:
    array = np.asarray(value)
    return Op(CONST, "c", [], {"value": array}, [array.shape], [str(array.dtype)]).output()


def op_of(kind: str, *inputs: Tensor, **attributes: Any) -> Op:
    return Op(kind, "op", list(inputs), attributes, [()], ["float32"])


def folded(op: Op) -> Array | None:
    loss = fold(Tower(op.output())).loss
    return loss.value if loss.kind == CONST else None


@pytest.mark.parametrize(
    ("layout", "pads", "shape", "expected"),
    [
        ("NHWC", [0, 0, 2, 1, 3, 3, 0, 0], (2, 8, 9, 3), (2, 9, 13, 5)),
        ("NCHW", [0, 0, 0, 0, 2, 1, 3, 3], (2, 3, 8, 9), (2, 5, 9, 13)),
        ("NHWC", [0] * 8, (2, 8, 9, 3), (2, 6, 7, 5)),
    ],
)
def test_a_convolution_is_as_large_as_its_own_paddings_make_it(layout, pads, shape, expected):
    settings = {"padding": "EXPLICIT", "explicit_paddings": pads, "data_format": layout, "strides": [1, 1, 1, 1]}
    assert inferred(op_of("Conv2D", of_shape(*shape), of_shape(3, 3, 3, 5), **settings)) == expected


def test_padding_of_all_and_of_none_keep_their_sizes():
    for padding, expected in (("SAME", (2, 4, 5, 5)), ("VALID", (2, 3, 4, 5))):
        settings = {"padding": padding, "strides": [1, 2, 2, 1]}
        assert inferred(op_of("Conv2D", of_shape(2, 8, 9, 3), of_shape(3, 3, 3, 5), **settings)) == expected


def test_what_is_gathered_for_each_example_has_the_examples_once():
    op = op_of("GatherV2", of_shape(2, 7, 3), of_shape(2, 4), constant(1), batch_dims=1)
    assert inferred(op) == (2, 4, 3)
    assert inferred(op_of("GatherV2", of_shape(7, 3), of_shape(2, 4), constant(0))) == (2, 4, 3)


def test_constants_that_are_gathered_for_each_example_are_not_taken_across_examples():
    taken, places = constant([[1, 2], [3, 4]]), constant([[0], [1]])
    assert folded(op_of("GatherV2", taken, places, constant(1), batch_dims=1)) is None
    assert folded(op_of("GatherV2", taken, constant(1), constant(0))).tolist() == [3, 4]


def test_the_first_select_chooses_rows_where_its_condition_has_one_axis():
    chosen = [constant([True, False]), constant([[1, 2], [3, 4]]), constant([[5, 6], [7, 8]])]
    assert folded(op_of("Select", *chosen)).tolist() == [[1, 2], [7, 8]]
    assert folded(op_of("SelectV2", *chosen)).tolist() == [[1, 6], [3, 8]]
    assert inferred(op_of("Select", of_shape(2), of_shape(2, 3), of_shape(2, 3))) == (2, 3)
