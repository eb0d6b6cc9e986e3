"""Sorts a graph's variables into weights, slots, statistics, averages and counters; finds hyper-parameters."""

import collections
from typing import AbstractSet, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as real
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from parity.trace import GLOBAL_STEP, parse_key, role_of, section_prefix, trace_name
from parity.trace.arrays import Tensors
from tf_towers.graph.op_types import WRITING
from tf_towers.graph.traversal import ancestors, passes_weights_on
from tf_towers.graph.update.optimizer import HYPER_PARAMETERS
from tf_towers.record.hooks import ApplyCall
from tf_towers.tf_types import Graph, Operation, Optimizer, Tensor, Variable

AVERAGE = "/ExponentialMovingAverage"


class Variables(NamedTuple):
    """The variables of a graph under their names in a trace.

    Fields:
      keys: dict of trace name, e.g. "slot/m/conv1/kernel", to variable.
      weights, statistics: dicts of variable name to variable.
      owners: dict of the name of every weight's op to its trace name.
      slots: sorted names of the slots.
    """

    keys: Dict[str, Variable]
    weights: Dict[str, Variable]
    statistics: Dict[str, Variable]
    owners: Dict[str, str]
    slots: List[str]


def sort_variables(graph: Graph, applies: Sequence[ApplyCall], sections: Sequence[str]) -> Variables:
    """Returns the `Variables` of a graph.

    Args:
      graph: a `tf.Graph`.
      applies: list of `ApplyCall`.
      sections: list as long, of the prefix of each in a trace, as of `section_prefix`.
    """
    everything = _all(graph)
    weights = collections.OrderedDict(
        (variable.op.name, variable)
        for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
        if isinstance(variable, real.Variable)
    )
    # A script may train variables that it took out of the collection.
    for apply in applies:
        for _, variable in apply.pairs:
            weights.setdefault(variable.op.name, variable)
    keys = collections.OrderedDict()
    taken, slot_names = set(), set()
    for apply, section in zip(applies, sections):
        for slot, name, variable in slots_of(apply.optimizer, weights.values()):
            keys[section + trace_name("slot", name, slot=slot)] = variable
            taken.add(variable.op.name)
            slot_names.add(slot)
        for name, variable in _own_scalars(apply.optimizer):
            if variable.op.name not in taken:
                keys[section + trace_name("state", name)] = variable
                taken.add(variable.op.name)
    # A hand-made optimizer may have made its slots and its counter trainable: they are not weights then.
    # The second positional argument of tf.Variable is `trainable`, so tf.Variable(1., 'adam_t') is: of
    # openai/pixel-cnn's 514 trainable variables 343 are slots.
    updated = {variable.op.name: variable for apply in applies for _, variable in apply.pairs}
    for name, variable in list(weights.items()):
        made = name not in updated and (_hand_made_slot(name, variable, updated) or _counts(variable))
        if name in taken or made:
            del weights[name]
    step = _global_step(graph, applies)
    if step is not None:
        keys[GLOBAL_STEP] = step
        taken.add(step.op.name)
    statistics = collections.OrderedDict()
    for name, variable in everything.items():
        if name in taken or name in weights:
            continue
        # Of w/ExponentialMovingAverage the weight is w; of ...Average_1, a second average of it, none is known.
        of, _, average = name.rpartition(AVERAGE)
        if of and not average and of in weights:
            keys[trace_name("ema", of)] = variable
            continue
        hand_made = _hand_made_slot(name, variable, weights)
        if hand_made is not None:
            weight, slot = hand_made
            keys[trace_name("slot", weight, slot=slot)] = variable
            slot_names.add(slot)
        # Floats with an axis that are neither weights nor slots: moving statistics. Scalars are counters and rates.
        elif variable.dtype.base_dtype.is_floating and variable.shape.ndims and not _debiases(name, everything):
            statistics[name] = variable
            keys[trace_name("stat", name)] = variable
        elif variable.dtype.base_dtype not in (tf.string, tf.resource, tf.variant):
            keys[trace_name("state", name)] = variable
    keys.update((trace_name("var", name), variable) for name, variable in weights.items())
    owners = {variable.op.name: key for key, variable in keys.items()}
    return Variables(keys, weights, statistics, owners, sorted(slot_names))


def slots_of(optimizer: Optimizer, weights: Iterable[Variable]) -> List[Tuple[str, str, Variable]]:
    """Returns list of ``(slot, variable name, slot variable)`` in TensorFlow's order."""
    found = []
    for slot in optimizer.get_slot_names():
        for variable in weights:
            held = optimizer.get_slot(variable, slot)
            if held is not None:
                found.append((slot.lower(), variable.op.name, held))
    return found


def read_variables(run: Callable[..., Any], variables: Mapping[str, Variable]) -> Tensors:
    """Reads variables in a run of its own; those without a value yet are left out.

    Args:
      run: function of fetches, TensorFlow's own `Session.run`.
      variables: dict of trace name to variable.

    Returns:
      Dict of trace name to array.
    """
    try:
        # In one run, which is one call of the session for all variables; only one without a value makes it as many.
        return run(dict(variables))
    except tf.errors.FailedPreconditionError:
        found = {}
        for key, variable in variables.items():
            try:
                found[key] = run(variable)
            except tf.errors.FailedPreconditionError:
                continue  # nothing to record: the script has not given it a value
        return found


def describe(variables: Variables, ops: AbstractSet[Operation]) -> Dict[str, Dict[str, Any]]:
    """Returns dict of variable name to `shape`, `dtype`, `kind`, `placement`, `use` and `saved_as`.

    `use` is what reads it among `ops`. Both are as `tf_towers.describe_variables` makes them.
    """
    described = {}
    saved_as = _saved_as(variables)
    for kind, group in (("weight", variables.weights), ("statistic", variables.statistics)):
        for name, variable in group.items():
            described[name] = {
                "shape": variable.shape.as_list(),
                "dtype": variable.dtype.base_dtype.name,
                "kind": kind,
                "placement": variable.device or "",
                "use": "+".join(_consumers(variable, ops)),
                "saved_as": saved_as.get(name, {}),
            }
    return described


def _saved_as(variables: Variables) -> Dict[str, Dict[str, str]]:
    found: Dict[str, Dict[str, str]] = {}
    counted: Dict[str, Dict[str, str]] = {}
    for text, variable in variables.keys.items():
        key = parse_key(text)
        if key.quantity in ("slot", "ema"):
            found.setdefault(key.name, {})[role_of(key)] = variable.op.name
        elif key.quantity == "state" and key.section:
            counted.setdefault(section_prefix(key.section), {})[text] = variable.op.name
    # What an optimizer counts for all of its variables hangs on each of those that it keeps slots of.
    for hanging in found.values():
        for section, counters in counted.items():
            if any(what.startswith(section) for what in hanging):
                hanging.update(counters)
    return found


def _consumers(variable: Variable, ops: AbstractSet[Operation]) -> List[str]:
    found, seen, pending = [], set(), list(variable.op.outputs)
    while pending:
        tensor = pending.pop(0)
        for op in tensor.consumers():
            if op not in ops or op in seen:
                continue
            seen.add(op)
            if passes_weights_on(op, tensor):
                pending += op.outputs
            elif op.type not in found:
                found.append(op.type)
    return found


def _hand_made_slot(name: str, variable: Variable, weights: Mapping[str, Variable]) -> Optional[Tuple[str, str]]:
    """Optimizers that are written by hand keep their slots as variables below the weight's name."""
    for weight, of in weights.items():
        below = name.startswith((weight + "/", weight + "_"))
        if below and of.shape.as_list() == variable.shape.as_list():
            return weight, name[len(weight) + 1 :].lower().replace("/", "_")
    return None


def _debiases(name: str, everything: Mapping[str, Variable]) -> bool:
    """Tells whether a variable is what TensorFlow's `assign_moving_average` keeps beside an average to correct its start.

    Source: `_zero_debias` of tensorflow/python/training/moving_averages.py: "biased" and "local_step" below its name.
    """
    scope, _, last = name.rpartition("/")
    return last == "biased" and scope + "/local_step" in everything


def _counts(variable: Variable) -> bool:
    """Tells whether an op adds to a number, in place or by assigning what is computed from it and constants alone."""
    if variable.shape.ndims != 0:
        return False
    writers = {op for out in variable.op.outputs for op in out.consumers() if op.type.startswith(WRITING)}
    return any(_adds(op, variable) for op in writers)


def _adds(writer: Operation, variable: Variable) -> bool:
    if writer.type.startswith(("AssignAdd", "AssignSub")):
        return tensor_util.constant_value(writer.inputs[1]) is not None
    of = {op for op in ancestors([writer.inputs[1].op]) if not op.inputs and op.type not in ("Const", "NoOp")}
    return of == {variable.op}


def _all(graph: Graph) -> Dict[str, Variable]:
    found = collections.OrderedDict()
    # TensorFlow 2's own class: its compat.v1.Variable leaves resource variables out.
    for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
        if isinstance(variable, real.Variable):
            found[variable.op.name] = variable
    return found


def _own_scalars(optimizer: Optimizer) -> List[Tuple[str, Variable]]:
    held = getattr(optimizer, "_non_slot_dict", {})
    # Their keys are (name, graph): a second Adam's variable may be beta1_power_1, its name is beta1_power.
    return [(key[0], variable) for key, variable in held.items() if isinstance(variable, real.Variable)]


def _global_step(graph: Graph, applies: Sequence[ApplyCall]) -> Variable:
    for apply in applies:
        if isinstance(apply.global_step, real.Variable):
            return apply.global_step
    found = graph.get_collection(tf.GraphKeys.GLOBAL_STEP)
    return found[0] if found and isinstance(found[0], real.Variable) else None


# Reads an optimizer's hyper-parameters as the graph holds them.

# The tensor that _prepare made comes first, being what the update op reads.
RATES = ("_lr_t", "_learning_rate_tensor", "_lr", "_learning_rate", "learning_rate")


def hyper_parameters(optimizer: Optimizer) -> Dict[str, Any]:
    """Returns the optimizer's class as `name`, and its constant hyper-parameters, rounded to float32 as TF does.

    What changes from step to step, or is fed, is left out: see ``state/learning_rate`` in the steps.
    """
    found: Dict[str, Any] = {"name": type(optimizer).__name__}
    for attribute, name in HYPER_PARAMETERS.items():
        value = getattr(optimizer, attribute, None)
        if tf.is_tensor(value) and not isinstance(value, real.Variable):
            constant = tensor_util.constant_value(value)
            value = float(constant) if constant is not None and np.size(constant) == 1 else None
        # Before numbers: bool is an int in Python.
        if isinstance(value, bool):
            found[name] = value
        elif isinstance(value, (int, float, np.floating)):
            found[name] = float(np.float32(value))
    return found


def learning_rate(optimizer: Optimizer) -> Tensor:
    """Returns the scalar tensor that the updates multiply by, or None where the optimizer keeps none."""
    for attribute in RATES:
        value = getattr(optimizer, attribute, None)
        if tf.is_tensor(value) and not isinstance(value, real.Variable):
            return value
        if isinstance(value, real.Variable):
            # The read that a resource variable keeps: its value() would add an op to the script's graph, a reference's
            # adds none.
            return getattr(value, "_graph_element", None) if hasattr(value, "handle") else value.value()
    return None
