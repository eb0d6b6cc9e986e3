"""Finds what updates are fed beside the gradients: learning rates, momenta, switches."""

import collections
import re
from typing import TYPE_CHECKING, AbstractSet, Any, Dict, Iterable, List, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from parity.trace import LEARNING_RATE, trace_name
from parity.trace.arrays import Tensors
from tf_towers.graph.value_flow import writers_of
from tf_towers.record.inputs import is_fed, is_source
from tf_towers.record.manual_updates import HandWritten
from tf_towers.tf_types import Operation, Tensor

if TYPE_CHECKING:
    from tf_towers.record.plan import Section
    from tf_towers.record.variables import Variables


# Five of 58 published codebases feed their learning rate from Python, under a name of their own choice.
NAME_OF_A_RATE = re.compile(r"(^|_)(lr|learning_?rate|rate|step_?size)($|_)", re.IGNORECASE)


def given_to_updates(
    sections: "Sequence[Section]",
    wanted: Mapping[str, Tensor],
    own: AbstractSet[Operation],
    variables: "Variables",
    fed: AbstractSet[str],
) -> Dict[str, Tensor]:
    """Returns what is recorded of the numbers that a script feeds to its updates.

    Args:
      sections: list of `Section`.
      wanted: dict of trace name to tensor, of what is recorded already.
      own: set of ops that the script's own run needs.
      variables: the `Variables` of the graph.
      fed: names of tensors that are fed though they are no placeholders.

    Returns:
      Dict of trace name to tensor. The rate of an update that the script writes itself is "state/learning_rate", any other
      number goes by its op: "state/momentum".
    """
    known = {tensor.name for tensor in wanted.values()}
    known |= {each.source.name for section in sections for inputs in section.inputs for each in inputs}
    writers = [op for variable in variables.keys.values() for op in writers_of(variable, own)]
    given = [each for each in _sources(writers, known, fed) if _is_recordable(each)]
    found = collections.OrderedDict((trace_name("state", tensor.op.name), tensor) for tensor in given)
    for section in sections:
        rate = _rate(given) if isinstance(section.apply.optimizer, HandWritten) else None
        if rate is not None:
            del found[trace_name("state", rate.op.name)]
            found[section.prefix + LEARNING_RATE] = rate
    return found


def as_fed(given: Mapping[str, Tensor], feed_dict: Any) -> Tensors:
    """Returns dict of trace name to float64 number: what a script fed as a Python number, which TensorFlow rounds.

    Args:
      given: dict of trace name to tensor.
      feed_dict: the script's own feeds.
    """
    by_name = {getattr(key, "name", key): value for key, value in (feed_dict or {}).items() if _is_hashable(key)}
    numbers = ((key, by_name.get(tensor.name)) for key, tensor in given.items())
    # np.float64 is a float too; an np.float32 is rounded already, and the tensor itself has it.
    return {key: np.array(value, np.float64) for key, value in numbers if isinstance(value, float)}


def _sources(writers: Iterable[Operation], known: AbstractSet[str], fed: AbstractSet[str]) -> List[Tensor]:
    """The tensors in which data enters on the way to the updates, in the order of making; not behind what is known."""
    found, seen, pending = [], set(), list(writers)
    while pending:
        op = pending.pop()
        if op in seen:
            continue
        seen.add(op)
        for tensor in op.inputs:
            if tensor.name in known:
                continue
            if is_source(tensor.op) or is_fed(tensor.op, fed):
                found.append(tensor)
            else:
                pending.append(tensor.op)
    # In the order of making, which is the same in every run of a script; that of a set of objects is not.
    return sorted(set(found), key=lambda tensor: (tensor.op._id, tensor.value_index))


def _is_recordable(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype not in (tf.string, tf.resource, tf.variant) and tensor.graph.is_fetchable(tensor)


def _rate(given: Sequence[Tensor]) -> Tensor:
    numbers = [each for each in given if each.dtype.base_dtype.is_floating and each.shape.ndims in (0, None)]
    called = [each for each in numbers if NAME_OF_A_RATE.search(each.op.name.rpartition("/")[2])]
    # Two candidates and no name: none is called the rate, since the port would be judged with the wrong one.
    certain = numbers if len(numbers) == 1 else called
    return certain[0] if len(certain) == 1 else None


def _is_hashable(key: Any) -> bool:
    return isinstance(key, str) or tf.is_tensor(key)
