"""First values of a port's parameters, read from the ops that compute the script's."""

import math

import numpy as np
import pytest

from parity.port.scripts.initial import initial_of
from parity.trace import RecordedGraph


def constant(name, value):
    value = np.asarray(value)
    kind = "DT_INT32" if value.dtype.kind == "i" else "DT_FLOAT"
    listed = {"int_val" if value.dtype.kind == "i" else "float_val": value.ravel().tolist()}
    shape = {"dim": [{"size": str(size)} for size in value.shape]}
    return {
        "name": name,
        "op": "Const",
        "attr": {"value": {"tensor": {"dtype": kind, "tensor_shape": shape, **listed}}},
    }


def op(name, kind, *inputs):
    return {"name": name, "op": kind, "input": list(inputs)}


def scaled(kind, scale, shift):
    """As `tf.random_normal` and its like are made: a draw, times a scale, plus a shift."""
    return [
        op("draw", kind, "shape"),
        constant("scale", np.float32(scale)),
        constant("shift", np.float32(shift)),
        op("mul", "Mul", "draw", "scale"),
        op("w/init", "Add", "mul", "shift"),
    ]


def uniform(low, high):
    return [
        op("draw", "RandomUniform", "shape"),
        constant("min", np.float32(low)),
        constant("max", np.float32(high)),
        op("sub", "Sub", "max", "min"),
        op("mul", "Mul", "draw", "sub"),
        op("w/init", "AddV2", "mul", "min"),
    ]


def written(nodes, shape=(3, 3, 2, 4), transform="hwio_to_oihw", fresh=None, optional=()):
    graph = RecordedGraph({}, {}, [], initial={"var/w": "w/init:0"}, initial_nodes=nodes)
    mapping = {"w": ("conv.weight", transform)}
    return initial_of(graph, mapping, {"w": "var"}, {"w": shape}, fresh or {}, optional=optional)


FANS = 3 * 3 * 2 + 3 * 3 * 4


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (scaled("TruncatedNormal", 0.1, 0.0), "like_tf.truncated_normal_({}, std=0.1)"),
        (scaled("TruncatedNormal", 0.1, 0.5), "like_tf.truncated_normal_({}, 0.5, 0.1)"),
        (scaled("RandomStandardNormal", 0.02, 0.0), "nn.init.normal_({}, std=0.02)"),
        (uniform(-0.1, 0.1), "nn.init.uniform_({}, -0.1, 0.1)"),
        (uniform(0.0, 0.3), "nn.init.uniform_({}, 0, 0.3)"),
        (uniform(-math.sqrt(6 / FANS), math.sqrt(6 / FANS)), "like_tf.glorot_uniform_({})"),
        (scaled("TruncatedNormal", math.sqrt(2 / FANS) / 0.87962566103423978, 0), "like_tf.glorot_normal_({})"),
        (scaled("TruncatedNormal", math.sqrt(2 / 18) / 0.87962566103423978, 0), "like_tf.he_normal_({})"),
        ([constant("w/init", np.zeros((3, 3, 2, 4), np.float32))], "nn.init.zeros_({})"),
        ([constant("w/init", np.full((3, 3, 2, 4), 0.1, np.float32))], "nn.init.constant_({}, 0.1)"),
        (
            [constant("size", np.array([3, 3, 2, 4])), constant("v", np.float32(1)), op("w/init", "Fill", "size", "v")],
            "nn.init.ones_({})",
        ),
    ],
)
def test_first_values_are_drawn_as_the_script_draws_them(nodes, text):
    assert written(nodes) == ([text.format("model.conv.weight")], [])


def test_bounds_that_are_almost_those_of_an_initializer_are_written_as_numbers():
    low = math.sqrt(6 / FANS) * (1 + 1e-5)
    ((text,), _) = written(uniform(-low, low))
    assert text.startswith("nn.init.uniform_(")


def test_an_initializer_that_counts_fans_is_not_named_where_torch_would_count_others():
    """A parameter in the script's own layout [in, out], which torch takes for [out, in]."""
    limit = math.sqrt(6 / 7)
    ((text,), _) = written(uniform(-limit, limit), (3, 4), "identity")
    assert text.startswith("nn.init.uniform_(")


def test_numbers_are_written_once_along_an_axis_on_which_nothing_changes():
    value = np.tile(np.array([0.1, 0.3], np.float32), [3, 3, 1, 1]).reshape(3, 3, 1, 2)
    ((text,), _) = written([constant("w/init", value)], (3, 3, 1, 2))
    assert text == "model.conv.weight.data.copy_(torch.tensor([[[[0.1]]], [[[0.3]]]]))"


def test_what_torch_begins_with_by_itself_is_left_out():
    zeros = [constant("w/init", np.zeros(4, np.float32))]
    assert written(zeros, (4,), "identity", {"conv.weight": 0.0}) == ([], [])
    assert written(zeros, (4,), "identity", {"conv.weight": 1.0}).statements == ["nn.init.zeros_(model.conv.weight)"]


def test_what_torch_may_make_a_layer_without_is_asked_for_by_its_path():
    """As a convolution's bias: its type is a tensor or None, and type checkers refuse to fill it."""
    zeros = [constant("w/init", np.zeros(4, np.float32))]
    found = written(zeros, (4,), "identity", {"conv.weight": 1.0}, optional=["conv.weight"])
    assert found.statements == ['nn.init.zeros_(model.get_parameter("conv.weight"))']


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [op("w/init", "Qr", "draw")],
        [op("one", "RandomUniform"), op("two", "RandomUniform"), op("w/init", "Add", "one", "two")],
        [constant("w/init", np.arange(65, dtype=np.float32))],
    ],
)
def test_what_is_no_known_draw_is_named_and_not_approximated(nodes):
    assert written(nodes, (65,), "identity") == ([], ["conv.weight"])


def test_a_fill_takes_no_memory_of_its_size():
    filled = [constant("dims", np.int32([2**31 - 1, 2**31 - 1])), constant("zero", np.float32(0))]
    found = written([*filled, op("w/init", "Fill", "dims", "zero")], (2**31 - 1, 2**31 - 1), "identity")
    assert found.statements == ["nn.init.zeros_(model.conv.weight)"]
