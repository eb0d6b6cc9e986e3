"""Decides in which run the values of a step are computed, so that the script's own run stays what it is."""

import collections
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, AbstractSet, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.util import event_pb2
from tensorflow.python.framework import tensor_util

from parity.trace.arrays import Array, Tensors
from parity.worker.protocol import FOLDER_VARIABLE
from tf_towers.graph.op_types import (
    ABOUT_VARIABLES,
    ASSERTING,
    CHECKING,
    PLACEHOLDERS,
    READS,
    REFERENCES,
    WITHIN_A_RUN,
    WRITING,
)
from tf_towers.graph.traversal import ancestors
from tf_towers.tf_types import Operation, Session, Tensor

if TYPE_CHECKING:
    from tf_towers.record.variables import Variables


# Decides in which run the values of a step are computed, so that the script's own run stays what it is. Whatever is
# fetched beside the train op is kept by TensorFlow's graph rewriting (grappler), which then adds in another order:
# the weights after some steps differ in their last bits. So losses and gradients are computed in a run of their
# own.

_FOLDER = os.environ.pop(FOLDER_VARIABLE, None)  # taken out: it is none of the script's
BEFORE = "before"
AFTER = "after"
INSIDE = "inside"


class Observed(NamedTuple):
    """How the values of a step are computed.

    Fields:
      mode: "before" the script's own run, in a run with the same feeds; "after" it, in a run that is fed with the weights
        from before it and with what queues, iterators and random ops gave in it; or "inside" it, with more fetches, where
        neither can be.
      fetches: dict of trace name to tensor, of that run.
      inside: list of the tensors that are fetched in the script's own run: the outputs of `drawn` ops.
      drawn: list of the ops whose outputs differ from run to run.
      read: dict of trace name of a variable to the tensors to feed its value into, for "after".
    """

    mode: str
    fetches: Dict[str, Tensor]
    inside: List[Tensor]
    drawn: List[Operation]
    read: Dict[str, List[Tensor]]


def observe(
    wanted: Dict[str, Tensor], own: AbstractSet[Operation], variables: "Variables"
) -> Tuple[Observed, Dict[str, str]]:
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
    # As batch-norm updates that losses wait for, or a counter that a schedule moves.
    if any(op.type.startswith(WRITING) for op in drawn):
        return _inside(wanted, own)  # another run would update once more
    # Only what is read: every tensor more that the script's run fetches is one more that grappler has to keep.
    outputs = [out for op in drawn for out in op.outputs if out.consumers()]
    # What is left between the draws and the wanted tensors gives the same in every run that gets the same values.
    pure = ancestors([tensor.op for tensor in wanted.values()], set(drawn)) - set(drawn)
    read = _reads(pure, variables)
    # A draw that the script's own run does not make must not be fetched there: it would take a batch out of a queue.
    if read is not None and all(_is_array(out) for out in outputs) and set(drawn) <= own:
        return Observed(AFTER, wanted, outputs, drawn, read), {}
    return _inside(wanted, own)


def fetched_inside(observed: Observed) -> Any:
    """Returns what is to be fetched in the script's own run; empty where that run is left as it is."""
    return observed.fetches if observed.mode == INSIDE else observed.inside


def compute(run: Callable[..., Any], observed: Observed, state: Tensors, found: Any, feed_dict: Any) -> Tensors:
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
        # In the place of the draws: this run pulls no batch and moves no random state of the session.
        feeds.update(zip(observed.inside, found))
        for key, tensors in observed.read.items():
            # Every read is fed: by now the script's run has updated the variables.
            feeds.update((tensor, state[key]) for tensor in tensors)
    return run(observed.fetches, feeds)


def _inside(wanted: Dict[str, Tensor], own: AbstractSet[Operation]) -> Tuple[Observed, Dict[str, str]]:
    # Here the script's own run fetches more: the last bits of its weights may differ.
    fetches, left_out = collections.OrderedDict(), {}
    for key, tensor in wanted.items():
        disturbing = sorted(op.name for op in ancestors([tensor.op]) - own if _differs(op))
        if disturbing:
            left_out[key] = f"computing it would also run {disturbing[0]}, which the script's own run does not"
        else:
            fetches[key] = tensor
    return Observed(INSIDE, fetches, [], [], {}), left_out


def _drawn(wanted: Dict[str, Tensor]) -> List[Operation]:
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
            # Control inputs too: what waits for a batch-norm update makes it run once more.
            pending += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return sorted(found, key=lambda op: op.name)


def _differs(op: Operation) -> bool:
    if op.type.startswith(WRITING):
        return True  # reference variables are written by ops that TensorFlow does not call stateful
    if op.type in ABOUT_VARIABLES | READS | PLACEHOLDERS | CHECKING | ASSERTING or op.type.startswith(WITHIN_A_RUN):
        return False
    return bool(op.op_def is not None and op.op_def.is_stateful)


def _is_array(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype not in (tf.string, tf.resource, tf.variant) and tensor.graph.is_fetchable(tensor)


def _reads(ops: AbstractSet[Operation], variables: "Variables") -> Optional[Dict[str, List[Tensor]]]:
    """Returns where to feed each variable's value, or None where one of them cannot be fed."""
    read: Dict[str, List[Tensor]] = {}
    for op in ops:
        # Of a reference variable its own output is fed, of a resource the tensor of every read.
        if op.type in REFERENCES:
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


# Reads what random ops inside loops and branches draw, in the script's own run, with TensorFlow's own debugger. A
# tensor inside a loop cannot be fetched. The debugger (tfdbg) copies a tensor to a file each time it is computed,
# before anything that reads it runs. It comes after all rewriting of the graph, so that what the run computes stays
# the same to the last bit, and it is asked for by the options of a run: no op is added to the script's graph.

COPYING_OP = "DebugIdentity"
DRAWN_INSIDE = "drawn inside a loop"  # what every reason for a draw that is not recorded begins with
OF_SEVERAL_SHAPES = f"{DRAWN_INSIDE}, in another shape from time to time"
NOT_OURS = f"{DRAWN_INSIDE} or a branch, and the script debugs its run itself, or runs it in another process"
WITHOUT_DEBUGGER = f"{DRAWN_INSIDE} or a branch, and TensorFlow's debugger does not work here"
IN_A_FUNCTION = f"{DRAWN_INSIDE}, a branch or a call that is kept as a function of the graph"


class Watch:
    """Watches draws in the runs of a session.

    Its folder stays the same from run to run: TensorFlow builds a graph anew for each that it is told.
    """

    def __init__(self) -> None:
        self._folder: Optional[str] = None
        self._works: Optional[bool] = None

    def close(self) -> None:
        """Removes what it left on disk."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def works(self) -> bool:
        """Tells whether this TensorFlow has its debugger; tried once, with a graph and a session of its own."""
        if self._works is None:
            self._works = self._tried()
        return self._works

    def options(self, tensors: Sequence[Tensor], options: Any = None) -> Any:
        """Returns the options of a run that watches, beside what a script asks for itself.

        Args:
          tensors: list of the tensors to watch.
          options: the script's own `RunOptions`, or None.
        """
        watching = tf.RunOptions()
        if options is not None:
            # A copy: scripts keep one RunOptions for all of their runs.
            watching.CopyFrom(options)
        for tensor in tensors:
            asked = watching.debug_options.debug_tensor_watch_opts.add()
            asked.node_name, asked.output_slot = tensor.op.name, tensor.value_index
            asked.debug_ops.append(COPYING_OP)
            asked.debug_urls.append("file://" + self._empty())
        return watching

    def drawn(self, tensors: Sequence[Tensor]) -> Dict[str, List[Array]]:
        """Returns dict of tensor name to the list of the arrays that the last run computed, one for each time, in order."""
        found: Dict[str, List[Tuple[Tuple[int, int], str]]] = {}
        root = self._folder or ""
        for folder, _, files in os.walk(root):
            for file in files:
                # tfdbg names its files <op>_<output>_DebugIdentity_<microseconds>; the slashes of an op's name are
                # folders.
                name, mark, time = file.rpartition(f"_{COPYING_OP}_")
                if mark:
                    # The first part of the path is the device's.
                    below = os.path.relpath(os.path.join(folder, name), root).split(os.sep)[1:]
                    found.setdefault("/".join(below), []).append((_number(time), os.path.join(folder, file)))
        return {
            tensor.name: [_read(path) for _, path in sorted(found.get(tensor.name.replace(":", "_"), []))]
            for tensor in tensors
        }

    def stacked(self, watched: Mapping[str, Tensor]) -> Tuple[Tensors, Dict[str, str]]:
        """Returns what the last run drew.

        Args:
          watched: dict of trace name to tensor.

        Returns:
          ``(draws, left_out)``: dict of trace name to array `[times, …]`, without what was not drawn at all, and dict of
          trace name to why it cannot be an array.
        """
        drawn = self.drawn(list(watched.values())) if watched else {}
        draws, left_out = {}, {}
        for key, tensor in watched.items():
            values = drawn[tensor.name]
            if len({value.shape for value in values}) == 1:
                draws[key] = np.stack(values)
            elif values:
                left_out[key] = OF_SEVERAL_SHAPES
        return draws, left_out

    def _empty(self) -> str:
        if self._folder is None:
            # In a folder of whoever started this process, who removes it also where the script is killed.
            parent = _FOLDER if _FOLDER and os.path.isdir(_FOLDER) else None
            self._folder = tempfile.mkdtemp(prefix="tf_towers_draws_", dir=parent)
        # Before every run: what is found there afterwards is of that run alone.
        for each in os.listdir(self._folder):
            shutil.rmtree(os.path.join(self._folder, each), ignore_errors=True)
        return self._folder

    def _tried(self) -> bool:
        graph = tf.Graph()
        with graph.as_default():
            one = tf.identity(tf.placeholder(tf.float32, [], "given"), "one")
        # A session that saw GPUs would take their memory before the script does.
        config = tf.ConfigProto(device_count={"GPU": 0})
        try:
            with tf.Session(graph=graph, config=config) as session:
                session.run(one, {"given:0": 1.0}, options=self.options([one]))
        except (tf.errors.OpError, OSError):
            return False
        # A run that nobody watches fails nowhere: the copy has to be there.
        return len(self.drawn([one])[one.name]) == 1


def can_be_watched(session: Session, options: Any) -> bool:
    """Tells whether a run with these `RunOptions` is of this process, and not debugged by the script itself."""
    debugged = options is not None and bool(options.debug_options.debug_tensor_watch_opts)
    # With a target the run is a server's, which may write its files on another machine.
    return not debugged and not session.sess_str


def _number(time: str) -> Tuple[int, int]:
    # Microseconds; two copies within one get "-1", "-2" behind it. As text 10 would come before 9.
    digits, _, again = time.partition("-")
    return int(digits), int(again or 0)


def _read(path: str) -> Array:
    event = event_pb2.Event()
    with open(path, "rb") as file:
        event.ParseFromString(file.read())
    return np.asarray(tensor_util.MakeNdarray(event.summary.value[0].tensor))
