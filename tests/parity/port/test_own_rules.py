"""Optimizers that a script writes itself, with one rule for some weights and another one for the others."""

from typing import Any

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.functions import Names
from parity.port.tower.ops import CONST, FEED, Op, Tensor
from parity.port.tower.reader import functions_that_hand_on
from parity.port.training.rules import OWN_GRADIENT, OWN_RATE, OWN_SLOT, OWN_WEIGHT, Rule, class_lines
from parity.port.training.whole import with_whole_reductions

NAMES = Names(lambda op: "", lambda op: "")


def leaf(name: str, shape: tuple[int, ...] = ()) -> Tensor:
    return Op(FEED, name, [], {}, [shape], ["float32"]).output()


def op(kind: str, shape: tuple[int, ...], *inputs: Any, **attributes: Any) -> Tensor:
    tensors = [each if isinstance(each, Tensor) else number(each) for each in inputs]
    return Op(kind, kind, tensors, attributes, [shape], ["float32"]).output()


def number(value: Any) -> Tensor:
    array = np.asarray(value)
    return Op(CONST, "c", [], {"value": array}, [array.shape], [str(array.dtype)]).output()


def norm(tensor: Tensor) -> Tensor:
    """As tf.norm writes it: the axes stay, and are squeezed behind the root."""
    kept = tuple(1 for _ in tensor.shape)
    axes = np.arange(len(tensor.shape))
    root = op("Sqrt", kept, op("Sum", kept, op("Mul", tensor.shape, tensor, tensor), axes, keep_dims=True))
    return op("Squeeze", (), root, squeeze_dims=[])


def moved(shape: tuple[int, ...], decay: float = 0.0, by_norm: bool = False) -> Rule:
    weight, gradient, slot = (leaf(name, shape) for name in (OWN_WEIGHT, OWN_GRADIENT, f"{OWN_SLOT}m"))
    mean = op("Add", shape, op("Mul", shape, 0.9, slot), op("Mul", shape, 0.1, gradient))
    update = op("Add", shape, mean, op("Mul", shape, decay, weight)) if decay else mean
    factor = op("Mul", (), norm(weight), leaf(OWN_RATE)) if by_norm else leaf(OWN_RATE)
    left = op("Sub", shape, weight, op("Mul", shape, factor, update))
    left, mean = with_whole_reductions([left, mean])
    return Rule(left, {"m": mean})


def test_a_norm_is_the_same_rule_for_weights_of_any_number_of_axes():
    ids: dict[object, int] = {}
    keys = [moved(shape, 0.01, True).key(ids) for shape in ((3,), (4, 3), (3, 3, 1, 4))]
    assert len({*keys}) == 1
    assert moved((3,), 0.02, True).key(ids) not in keys


def test_a_norm_is_written_without_the_axes_of_the_weight_that_it_was_read_of():
    lines = class_lines([moved((3, 3, 1, 4), by_norm=True)], "Updates", {"m": (0.0, 0.0)}, NAMES)
    (update,) = (line.strip() for line in lines if "sub_" in line)
    assert update.startswith("weight.sub_(torch.sqrt((weight * weight).sum()) * learning_rate * ")
    assert not any("keepdim" in line or "squeeze" in line for line in lines)


def test_one_rule_asks_no_group_which_it_has():
    lines = class_lines([moved((3,))], "Updates", {"m": (0.0, 0.0)}, NAMES)
    assert not any("rule" in line for line in lines)
    assert "Iterable[nn.Parameter]" in "\n".join(lines)


def test_of_two_rules_each_group_names_its_own():
    text = "\n".join(class_lines([moved((4, 3), 0.01), moved((3,))], "Updates", {"m": (0.0, 0.0)}, NAMES))
    decayed, _, others = text.partition("                else:\n")
    assert '                if group["rule"] == 0:\n' in decayed
    assert ("0.01 * weight" in decayed, "0.01 * weight" in others) == (True, False)
    assert "weight.sub_(" in decayed and "weight.sub_(" in others
    assert "Iterable[dict[str, Any]]" in text


def function(ret: dict[str, str], **more: Any) -> dict[str, Any]:
    signature = {"name": "dense_gradient", "input_arg": [{"name": "x_0"}], "output_arg": [{"name": "x"}]}
    return {"library": {"function": [{"signature": signature, "ret": ret, **more}]}}


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        (function({"x": "x_0"}), {"dense_gradient"}),
        (function({"x": "double:0"}, node_def=[{"name": "double"}]), set()),
        ({}, set()),
    ],
)
def test_a_function_that_gives_what_it_takes_is_told_from_one_that_computes(definition, found):
    assert functions_that_hand_on(definition) == found
