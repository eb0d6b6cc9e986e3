"""Combines the gradients of all towers into one per variable."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.user_errors import require_graph_mode
from tf_towers.tf_types import Gradient, Pairs, Tensor, Variable

REDUCE_CHOICES = ("mean", "sum")
MISSING = ("refuse", "zeros", "present", "skip")
SPARSE = ("dense", "slices", "slices_unscaled")
HALF_PRECISION = (tf.float16, tf.bfloat16)


def combine_gradients(
    tower_grads: Sequence[Pairs],
    reduce: str = "mean",
    missing: str = "refuse",
    sparse: str = "dense",
    weights: Optional[Sequence[Any]] = None,
) -> Pairs:
    """Combines the towers' gradients, paired by variable.

    Published versions pair by position after dropping missing gradients, and then merge gradients of different
    variables wherever two towers lack different ones. Pairing by variable cannot.

    Args:
      tower_grads: a list over the towers of lists of ``(gradient, variable)``; a gradient has its variable's shape, or
        is None where the tower's loss does not depend on the variable.
      reduce: "mean" divides by the number of towers, "sum" does not. Half precision is summed in float32.
      missing: what happens to a variable that has a gradient in some towers only: "refuse" it; "zeros" in its place;
        "present": the mean over those that have one; "skip" the variable.
      sparse: what happens to `tf.IndexedSlices`: "dense" tensors, as stacking makes them; "slices" keeps the rows of
        all towers, divided by their number; "slices_unscaled" forgets that division, a well-known bug: the embedding
        then trains faster by the number of towers.
      weights: a scalar for each tower, e.g. its number of examples; "mean" is then the sum of weight times gradient
        over the sum of weights.

    Returns:
      A list of ``(gradient, variable)`` in the order of the first tower; variables without a gradient in every tower are
      left out.

    Raises:
      TowerError: an argument is not one of its choices; a variable has a gradient in some towers only, or is missing
        from some.

    Counterpart: torch_ddp.step.gradients
    """
    require_graph_mode("combine_gradients")
    _require("reduce", reduce, REDUCE_CHOICES)
    _require("missing", missing, MISSING)
    _require("sparse", sparse, SPARSE)
    if not tower_grads:
        raise TowerError("combine_gradients: expected at least one tower, got none.")
    if weights is not None and (len(weights) != len(tower_grads) or reduce != "mean"):
        raise TowerError(
            f"combine_gradients: expected a weight for each of {len(tower_grads)} towers, and a mean, "
            f"got {len(weights)} and {reduce!r}."
        )
    by_name = [_by_name(tower, pairs) for tower, pairs in enumerate(tower_grads)]
    _require_same_variables(by_name)
    combined = []
    for name, (_, variable) in by_name[0].items():
        gradients = _complete([pairs[name][0] for pairs in by_name], variable, missing)
        if gradients:
            combined.append((_combine(gradients, reduce, sparse, weights, name), variable))
    return combined


def _require(argument: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        options = ", ".join(repr(choice) for choice in choices[:-1]) + f" or {choices[-1]!r}"
        raise TowerError(f"combine_gradients: expected {argument} to be {options}, got {value!r}.")


def _by_name(tower: int, pairs: Pairs) -> Dict[str, Tuple[Gradient, Variable]]:
    named = {}
    for gradient, variable in pairs:
        name = variable.op.name
        if name in named:
            raise TowerError(f"combine_gradients: expected each variable once, got {name!r} twice in tower {tower}.")
        named[name] = (gradient, variable)
    return named


def _require_same_variables(by_name: Sequence[Mapping[str, Any]]) -> None:
    first = set(by_name[0])
    for tower, pairs in enumerate(by_name):
        odd = sorted(first.symmetric_difference(pairs))
        if odd:
            raise TowerError(
                f"combine_gradients: expected the same variables in every tower, got {', '.join(odd)} "
                f"in only one of towers 0 and {tower}. Compute all gradients with the same variable list."
            )


def _complete(gradients: List[Gradient], variable: Variable, missing: str) -> List[Gradient]:
    """Returns the gradients to combine, with None where a tower takes no part; an empty list leaves the variable out."""
    present = [tower for tower, gradient in enumerate(gradients) if gradient is not None]
    # Of 58 codebases four divide by the towers that have one, as cifar10_estimator; PGGAN and StyleGAN put zeros; nine
    # look at tower 0 alone; the cifar10 tutorial's template fails.
    if len(present) == len(gradients) or missing == "present":
        return gradients if present else []
    if not present or missing == "skip":
        return []
    if missing == "refuse":
        raise TowerError(
            f"combine_gradients: expected a gradient of {variable.op.name!r} in every tower, got one in towers {present} "
            f"of {len(gradients)} only. Give every tower the same loss, or leave the variable out of all."
        )
    shape, dtype = variable.shape, variable.dtype.base_dtype
    return [tf.zeros(shape, dtype) if gradient is None else gradient for gradient in gradients]


def _combine(
    gradients: Sequence[Gradient], reduce: str, sparse: str, weights: Optional[Sequence[Any]], name: str
) -> Gradient:
    with tf.name_scope("combine"):
        present = [gradient for gradient in gradients if gradient is not None]
        if weights is not None:
            present = _weighted(gradients, weights)
            reduce = "sum"
        if sparse != "dense" and all(isinstance(gradient, tf.IndexedSlices) for gradient in present):
            return _concatenate(present, reduce == "mean" and sparse == "slices")
        # (towers, ...); convert_to_tensor makes slices dense, with repeated rows added up
        stacked = tf.stack([tf.convert_to_tensor(gradient) for gradient in present], name=name.replace("/", "_"))
        over_towers = tf.reduce_mean if reduce == "mean" else tf.reduce_sum
        # float16 ends at 65504: a sum may overflow where the mean does not, and would add with 11 bits.
        if stacked.dtype in HALF_PRECISION:
            return tf.cast(over_towers(tf.cast(stacked, tf.float32), 0), stacked.dtype)
        return over_towers(stacked, 0)


def _weighted(gradients: Sequence[Gradient], weights: Sequence[Any]) -> List[Gradient]:
    pairs = [(gradient, weight) for gradient, weight in zip(gradients, weights) if gradient is not None]
    dtype = pairs[0][0].dtype
    weights = [tf.cast(weight, dtype) for _, weight in pairs]
    # Of those towers alone that have a gradient, so that their weights add up to one.
    total = tf.add_n(weights)
    return [_times(gradient, weight / total) for (gradient, _), weight in zip(pairs, weights)]


def _concatenate(slices: Sequence[Gradient], divide: bool) -> Gradient:
    values = tf.concat([gradient.values for gradient in slices], 0)
    # A row of several towers is there several times: optimizers add such rows up, norms do not.
    indices = tf.concat([gradient.indices for gradient in slices], 0)
    # By the towers, not by the rows: a row that one tower looked up alone is divided as well, as in the dense mean.
    scale = tf.constant(len(slices), values.dtype)
    return tf.IndexedSlices(values / scale if divide else values, indices, slices[0].dense_shape)


def _times(gradient: Gradient, factor: Tensor) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
