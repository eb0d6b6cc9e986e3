"""Calls one model for every tower on the same variables, in each of the ways that TensorFlow 1 has for it."""

from typing import Any, Callable, ContextManager, Mapping

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.user_errors import require_graph_mode
from tf_towers.tf_types import Tensor, TowerFunction

TEMPLATE = "model"


def share(tower: TowerFunction, style: str = "variable_scope") -> Callable[[int, Mapping[str, Tensor]], Any]:
    """Returns a function that builds the model for one tower after the other on shared variables.

    Args:
      tower: function of the inputs by name; it makes its variables with `tf.get_variable` or layers that do.
      style: how the variables are shared:
        "variable_scope": ``tf.variable_scope(..., reuse=index > 0)``.
        "auto_reuse": ``reuse=tf.AUTO_REUSE``; a name that differs between towers makes a new variable silently.
        "reuse_variables": ``tf.get_variable_scope().reuse_variables()`` after the first tower.
        "make_template": `tf.make_template`; names then start with "model/", and `tf.Variable` is shared too.
        "model_first": the model is built once for its variables before the first tower, which then reuses them too.
        "own": the function shares by itself, as objects that keep their variables do.

    Returns:
      A function ``(index, inputs) -> whatever tower returns``, to be called with index 0, 1, ... in this order.

    Raises:
      TowerError: the style is not one of these.
    """
    require_graph_mode("share")
    if style not in SHARING:
        raise TowerError(f"share: expected style to be one of {', '.join(sorted(SHARING))}, got {style!r}.")
    return SHARING[style](tower)


def _same_scope(reuse: Any = None) -> ContextManager[Any]:
    # Entering a scope that is open opens its name scope a second time, unless told not to.
    return tf.variable_scope(tf.get_variable_scope(), reuse=reuse, auxiliary_name_scope=False)


def _in_variable_scope(tower: TowerFunction) -> Callable[[int, Mapping[str, Tensor]], Any]:
    def call(index: int, inputs: Mapping[str, Tensor]) -> Any:
        with _same_scope(reuse=index > 0):
            return tower(**inputs)

    return call


def _auto_reuse(tower: TowerFunction) -> Callable[[int, Mapping[str, Tensor]], Any]:
    def call(index: int, inputs: Mapping[str, Tensor]) -> Any:
        with _same_scope(reuse=tf.AUTO_REUSE):
            return tower(**inputs)

    return call


def _reuse_variables(tower: TowerFunction) -> Callable[[int, Mapping[str, Tensor]], Any]:
    def call(index: int, inputs: Mapping[str, Tensor]) -> Any:
        # A scope of its own: left on, reuse would stop the optimizer from making its slots.
        with _same_scope():
            if index:
                tf.get_variable_scope().reuse_variables()
            return tower(**inputs)

    return call


def _make_template(tower: TowerFunction) -> Callable[[int, Mapping[str, Tensor]], Any]:
    template = tf.make_template(TEMPLATE, tower)
    return lambda index, inputs: template(**inputs)


def _model_first(tower: TowerFunction) -> Callable[[int, Mapping[str, Tensor]], Any]:
    def call(index: int, inputs: Mapping[str, Tensor]) -> Any:
        if not index:
            updates = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
            known = len(updates)
            # pointnet2, openai/iaf and doc-classify-multi-gpu build a model for its variables alone.
            with tf.name_scope("model_first"), _same_scope():
                tower(**inputs)
            del updates[known:]  # its batch-norm updates belong to no tower
        with _same_scope(reuse=True):
            return tower(**inputs)

    return call


def _own(tower: TowerFunction) -> Callable[[int, Mapping[str, Tensor]], Any]:
    return lambda index, inputs: tower(**inputs)


# In 58 codebases: variable_scope(reuse=...) 29, reuse_variables() 15, objects 6, AUTO_REUSE 4, a model built first 4,
# make_template 1; some do two of these.
SHARING = {
    "variable_scope": _in_variable_scope,
    "auto_reuse": _auto_reuse,
    "reuse_variables": _reuse_variables,
    "make_template": _make_template,
    "model_first": _model_first,
    "own": _own,
}
