"""Computes float attributes of ops in float64 towers as a tower writes them: 0.2, not the float32 nearest to it.

A float attribute is a float32 number in every graph, whatever the dtype of the op: `tf.nn.leaky_relu(x, 0.2)` multiplies by
0.20000000298 in float64 too. And some ops that have one have no float64 form at all, fused batch norm among them.
"""

import contextlib
import importlib.util
import os
from typing import Any, Callable, Dict, Iterator, List, Mapping

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import op_def_library

from tf_towers.float64.graph_def import op_def
from tf_towers.float64.op_rewrites import EXPANSIONS
from tf_towers.tf_types import Tensor

HELPER = "_apply_op_helper"
OF_TENSORFLOW_2 = hasattr(op_def_library, HELPER)  # in 1.15 it is a method
KERAS_NORM = "tf_keras.src.layers.normalization.batch_normalization"


@contextlib.contextmanager
def attributes_as_written(inputs: Mapping[str, Tensor]) -> Iterator[None]:
    """Has the ops of `EXPANSIONS` written out as plain ones where a tower takes float64, their attributes as it gives them.

    Batch norm layers that fuse in float32 do so in float64 too: TensorFlow 2 would take another rule there, whose moving
    variance gets the biased variance, and 1.15 would raise an error.

    Args:
      inputs: dict of input name to tensor. Where none is float64 nothing is done.
    """
    # In float32 the towers are to run TensorFlow's own kernels, rounding and all.
    if not any(tensor.dtype.base_dtype == tf.float64 for tensor in inputs.values()):
        yield
        return
    library = op_def_library if OF_TENSORFLOW_2 else op_def_library.OpDefLibrary
    with _replaced(library, HELPER, _written_out), _fused_in_float64():
        yield


class _PlainOps:
    """What the generated function of an op asks of that op; here of those that stand for it."""

    def __init__(self, inputs: List[Tensor], outputs: List[Tensor], attributes: Dict[str, Any]) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._attributes = attributes

    def get_attr(self, name: str) -> Any:
        return self._attributes.get(name)

    _get_attr_type = get_attr


def _written_out(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*arguments: Any, **keywords: Any) -> Any:
        # A function in 2.x, a method in 1.15: self comes first there, and the name of the op type is the first text.
        op_type = next(each for each in arguments if isinstance(each, str))
        described: Any = op_def(op_type) if op_type in EXPANSIONS else None
        given = [keywords.get(argument.name) for argument in described.input_arg] if described else []
        if not (given and _has_floats(described) and getattr(given[0], "dtype", None) == tf.float64):
            return original(*arguments, **keywords)
        attributes = {each.name: _as_text(keywords[each.name]) for each in described.attr if each.name in keywords}
        with tf.name_scope(keywords.get("name") or op_type):
            inputs = [tf.convert_to_tensor(each) for each in given]
            outputs = EXPANSIONS[op_type](inputs, attributes)
        # Nothing outside the op's own gradient reads those that are not computed.
        # Something has to stand at each place: the op's generated function makes a named tuple of its outputs.
        outputs = [outputs[0] if output is None else output for output in outputs]
        stand_in = _PlainOps(inputs, outputs, attributes)
        return (None, False, stand_in, outputs) if OF_TENSORFLOW_2 else (None, False, stand_in)

    return apply


def _as_text(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _has_floats(described: Any) -> bool:
    return any(attr.type == "float" for attr in described.attr)


@contextlib.contextmanager
def _replaced(owner: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, change(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def _fused_in_float64() -> Iterator[None]:
    # 1.15's layers fuse whatever the dtype. Those of TensorFlow 2 are Keras's, which `tf.layers` needs this variable for.
    keras = OF_TENSORFLOW_2 and os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "True", "true")
    if not (keras and importlib.util.find_spec("tf_keras")):
        yield
        return
    layer = importlib.import_module(KERAS_NORM).BatchNormalizationBase
    with _replaced(layer, "_raise_if_fused_cannot_be_used", _whatever_the_dtype):
        yield


def _whatever_the_dtype(original: Callable[..., Any]) -> Callable[[Any], None]:
    def check(layer: Any) -> None:
        try:
            original(layer)
        except ValueError as error:
            if "compute dtype" not in str(error):
                raise

    return check
