"""Decides in which run the values of a step are computed, so that the script's own run stays what it is.

Whatever is fetched beside the train op is kept by TensorFlow's graph rewriting (grappler), which then adds in another
order: the weights after some steps differ in their last bits. So losses and gradients are computed in a run of their own.
"""

import collections

import tensorflow.compat.v1 as tf

from tf_towers.record.ancestry import ancestors
from tf_towers.record.inputs import OF_A_RUN, PLACEHOLDERS, READS, VARIABLES, WRITING

BEFORE = "before"
AFTER = "after"
INSIDE = "inside"
NOT_COMPUTED = frozenset(["Assert", "NoOp"])

Observed = collections.namedtuple("Observed", ["mode", "fetches", "inside", "drawn", "read"])
Observed.__doc__ = """How the values of a step are computed.

Fields:
  mode: "before" the script's own run, in a run with the same feeds; "after" it, in a run that is fed with the weights
    from before it and with what queues, iterators and random ops gave in it; or "inside" it, with more fetches, where
    neither can be.
  fetches: dict of trace name to tensor, of that run.
  inside: list of the tensors that are fetched in the script's own run: the outputs of `drawn` ops.
  drawn: list of the ops whose outputs differ from run to run.
  read: dict of trace name of a variable to the tensors to feed its value into, for "after".
"""


def observe(wanted, own, variables):
    """Chooses the mode.

    Args:
      wanted: dict of trace name to tensor.
      own: set of ops that the script's own run needs.
      variables: the `Variables` of the graph.

    Returns:
      ``(observed, left_out)``: an `Observed`, and a dict of trace name to the reason why it is not recorded.
    """
    drawn = _drawn(wanted)
    if not drawn:
        return Observed(BEFORE, wanted, [], [], {}), {}
    if any(op.type.startswith(WRITING) for op in drawn):
        return _inside(wanted, own)  # another run would update once more
    outputs = [out for op in drawn for out in op.outputs if out.consumers()]
    pure = ancestors([tensor.op for tensor in wanted.values()], set(drawn)) - set(drawn)
    read = _reads(pure, variables)
    if read is not None and all(_is_array(out) for out in outputs) and set(drawn) <= own:
        return Observed(AFTER, wanted, outputs, drawn, read), {}
    return _inside(wanted, own)


def fetched_inside(observed):
    """Returns what is to be fetched in the script's own run; empty where that run is left as it is."""
    return observed.fetches if observed.mode == INSIDE else observed.inside


def compute(run, observed, state, found, feed_dict):
    """Computes the values of a step.

    Args:
      run: function of fetches and feeds, TensorFlow's own `Session.run`.
      observed: how.
      state: dict of trace name to array, the variables before the step.
      found: what `fetched_inside` gave in the script's own run.
      feed_dict: the script's own feeds.

    Returns:
      Dict of trace name to array.
    """
    if observed.mode == INSIDE:
        return found
    feeds = dict(feed_dict or {})
    if observed.mode == AFTER:
        feeds.update(zip(observed.inside, found))
        for key, tensors in observed.read.items():
            feeds.update((tensor, state[key]) for tensor in tensors)
    return run(observed.fetches, feeds)


def _inside(wanted, own):
    fetches, left_out = collections.OrderedDict(), {}
    for key, tensor in wanted.items():
        disturbing = sorted(op.name for op in ancestors([tensor.op]) - own if _differs(op))
        if disturbing:
            left_out[key] = f"computing it would also run {disturbing[0]}, which the script's own run does not"
        else:
            fetches[key] = tensor
    return Observed(INSIDE, fetches, [], [], {}), left_out


def _drawn(wanted):
    """The ops nearest to the wanted tensors that give something else each time they run."""
    found, seen, pending = set(), set(), [tensor.op for tensor in wanted.values()]
    while pending:
        op = pending.pop()
        if op in seen:
            continue
        seen.add(op)
        if _differs(op):
            found.add(op)
        else:
            pending += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return sorted(found, key=lambda op: op.name)


def _differs(op):
    if op.type.startswith(WRITING):
        return True  # reference variables are written by ops that TensorFlow does not call stateful
    if op.type in VARIABLES | READS | PLACEHOLDERS | NOT_COMPUTED or op.type.startswith(OF_A_RUN):
        return False
    return bool(op.op_def is not None and op.op_def.is_stateful)


def _is_array(tensor):
    dtype = tensor.dtype.base_dtype
    return dtype not in (tf.string, tf.resource, tf.variant) and tensor.graph.is_fetchable(tensor)


def _reads(ops, variables):
    """Returns where to feed each variable's value, or None where one of them cannot be fed."""
    read = {}
    for op in ops:
        if op.type in ("Variable", "VariableV2", "AutoReloadVariable"):
            key, tensor = variables.owners.get(op.name), op.outputs[0]
        elif op.type == "ReadVariableOp":
            key, tensor = variables.owners.get(op.inputs[0].op.name), op.outputs[0]
        elif op.type in READS:
            return None  # a gather from the variable itself has no tensor of the whole variable
        else:
            continue
        if key is None or not tensor.graph.is_feedable(tensor):
            return None
        read.setdefault(key, []).append(tensor)
    return read
