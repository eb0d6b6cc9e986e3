"""What a graph that is ready to train consists of."""

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.graph.inference import Inference
from tf_towers.graph.input_pipeline import Source
from tf_towers.graph.options import Plan
from tf_towers.graph.tower import Tower
from tf_towers.graph.update.optimizer import slot_variables
from tf_towers.tf_types import Feeds, Graph, Operation, Optimizer, Pairs, Tensor, Variable


class Training(NamedTuple):
    """A graph ready to train.

    Fields:
      graph: the `tf.Graph`.
      inputs: dict of input name to the placeholder of the whole batch, or to the list of the towers' placeholders.
      towers: list of `Tower`, micro-batches one by one.
      combined: list of ``(gradient, variable)``, without loss scale, before clipping.
      optimizer: the `tf.train.Optimizer`.
      global_step: int64 variable, counts updates.
      train_op: runs one update after everything that a step records has been computed.
      weights, statistics: dicts of variable name to variable: trainable, and not.
      slots: dict of ``(slot, variable name)`` to variable.
      counters: dict of name to variable: global step, the optimizer's own scalars, e.g. "beta1_power", and the loss scale.
      saved: every variable above, once, with averages and copies.
      plan: the `Plan`.
      feeds: function of a batch, dict of input name to array, that returns what `tf.Session.run` is fed.
      rate: the learning rate, a float32 scalar, or None.
      tower_clipped: a list over `towers` of lists of ``(gradient, variable)``; empty unless clipped there.
      clipped: list of ``(gradient, variable)``; empty unless clipped after combining.
      averages: dict of variable name to its moving average.
      copies: dict of the name of a variable above to the list of its copies on the other towers' devices.
      broadcast: op that gives the copies the values of the first, or None.
      finite: bool scalar, whether this step updates the weights, or None where it always does.
      known: dict of facts that only building tells.
      parts: `Parts`.
      source: what towers read from that read by themselves, a `Source`; None where they are fed.
      inference: the model in inference mode, an `Inference`, or None where the tower function takes no mode.
    """

    graph: Graph
    inputs: Dict[str, Any]
    towers: List[Tower]
    combined: Pairs
    optimizer: Optimizer
    global_step: Variable
    train_op: Operation
    weights: Dict[str, Variable]
    statistics: Dict[str, Variable]
    slots: Dict[Tuple[str, str], Variable]
    counters: Dict[str, Variable]
    saved: List[Variable]
    plan: Plan
    feeds: Callable[[Mapping[str, Any]], Feeds]
    rate: Tensor
    tower_clipped: List[Pairs]
    clipped: Pairs
    averages: Dict[str, Variable]
    copies: Dict[str, List[Variable]]
    broadcast: Operation
    finite: Tensor
    known: Dict[str, Any]
    parts: "Parts"
    source: Optional[Source]
    inference: Optional[Inference]


class Parts(NamedTuple):
    """What belongs to the optimizers beside the first; all empty where there is one.

    Fields:
      variables: dict of variable name to the name of its part.
      counters: dict of a counter's variable name to ``(part, name)``, e.g. ``("head", "beta1_power")``.
      rates: dict of part to its learning rate, a float32 scalar, or None.
    """

    variables: Dict[str, str]
    counters: Dict[str, Tuple[str, str]]
    rates: Dict[str, Tensor]


def collect(
    optimizer: Optimizer,
    weights: List[Variable],
    of_towers: Sequence[Variable],
    copied: Dict[str, List[Variable]],
    counted: Mapping[str, Variable],
    averages: Dict[str, Variable],
) -> Dict[str, Any]:
    """Sorts the variables of a graph by what they are for.

    Args:
      optimizer: the `tf.train.Optimizer` that has been applied.
      weights: list of the trainable variables, the first copy of each. What hand-made optimizers keep is often trainable
        too, by mistake, and belongs to the counters.
      of_towers: every variable that was there before the optimizer.
      copied: dict of variable name to the list of its copies; the slots' copies are added.
      counted: dict of name to variable of the counters that are known.
      averages: dict of variable name to average.

    Returns:
      Dict of the fields `weights`, `statistics`, `slots`, `counters`, `saved`, `averages` and `copies`.
    """
    slots = slot_variables(optimizer, weights)
    for (slot, name), variable in slots.items():
        # Each copy of a replicated weight has slots of its own, which have to begin as the first one's do.
        others = [slot_variables(optimizer, [copy]) for copy in copied.get(name, [])]
        if others:
            copied[variable.op.name] = [other[slot, copy.op.name] for other, copy in zip(others, copied[name])]
    copies = [copy for group in copied.values() for copy in group]
    sorted_out = weights + list(slots.values()) + list(averages.values()) + copies + list(counted.values())
    # What was there before the optimizer is the model's: moving statistics; what came after is the optimizer's own.
    rest = [variable for variable in tf.global_variables() if not _among(variable, sorted_out)]
    statistics = [variable for variable in rest if _among(variable, of_towers)]
    counters = {variable.op.name: variable for variable in rest if not _among(variable, of_towers)}
    counters.update(counted)
    # Recurrent state between steps is local in rafaljozefowicz/lm: a Saver leaves it out, a step depends on it.
    counters.update((f"local/{variable.op.name}", variable) for variable in tf.local_variables())
    saved = list(slots.values()) + list(counters.values()) + weights + list(averages.values()) + statistics + copies
    return {
        "weights": {variable.op.name: variable for variable in weights},
        "statistics": {variable.op.name: variable for variable in statistics},
        "slots": slots,
        "counters": counters,
        "averages": averages,
        "saved": saved,
        "copies": copied,
    }


def broadcast(variables: Sequence[Variable], copies: Mapping[str, Sequence[Variable]]) -> Operation:
    """Builds the op that gives every copy the value of the first, or returns None where there are no copies.

    Args:
      variables: list of the first copies.
      copies: dict of a first copy's name to the others.
    """
    pairs = [(variable, copy) for variable in variables for copy in copies.get(variable.op.name, [])]
    # After initialising, for every copy draws its own random values.
    return tf.group(*[tf.assign(copy, variable) for variable, copy in pairs]) if pairs else None


def copies_of(replicas: Sequence[Tower]) -> Dict[str, List[Variable]]:
    """Returns dict of variable name to the list of its copies in other towers than the first."""
    copied: Dict[str, List[Variable]] = {}
    for replica in replicas:
        for name, copy in replica.copies.items():
            group = copied.setdefault(name, [])
            if not _among(copy, group):
                group.append(copy)
    return copied


def _among(variable: Variable, others: Iterable[Variable]) -> bool:
    # By identity: where TensorFlow 2's behaviour is on, == compares the variables' values.
    return any(variable is other for other in others)
