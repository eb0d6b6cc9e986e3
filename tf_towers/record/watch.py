"""Reads what random ops inside loops and branches draw, in the script's own run, with TensorFlow's own debugger.

A tensor inside a loop cannot be fetched. The debugger (tfdbg) copies a tensor to a file each time it is computed, before
anything that reads it runs. It comes after all rewriting of the graph, so that what the run computes stays the same to the
last bit, and it is asked for by the options of a run: no op is added to the script's graph.
"""

import os
import shutil
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.util import event_pb2
from tensorflow.python.framework import tensor_util

COPY = "DebugIdentity"
DRAWN_INSIDE = "drawn inside a loop"  # what every reason for a draw that is not recorded begins with
OF_SEVERAL_SHAPES = f"{DRAWN_INSIDE}, in another shape from time to time"
NOT_OURS = f"{DRAWN_INSIDE} or a branch, and the script debugs its run itself, or runs it in another process"
WITHOUT_DEBUGGER = f"{DRAWN_INSIDE} or a branch, and TensorFlow's debugger does not work here"
IN_A_FUNCTION = f"{DRAWN_INSIDE}, a branch or a call that is kept as a function of the graph"


class Watch(object):
    """Watches draws in the runs of a session.

    Its folder stays the same from run to run: TensorFlow builds a graph anew for each that it is told.
    """

    def __init__(self):
        self._folder = None
        self._works = None

    def close(self):
        """Removes what it left on disk."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def works(self):
        """Tells whether this TensorFlow has its debugger; tried once, with a graph and a session of its own."""
        if self._works is None:
            self._works = self._tried()
        return self._works

    def options(self, tensors, options=None):
        """Returns the options of a run that watches, beside what a script asks for itself.

        Args:
          tensors: list of the tensors to watch.
          options: the script's own `RunOptions`, or None.
        """
        watching = tf.RunOptions()
        if options is not None:
            watching.CopyFrom(options)
        for tensor in tensors:
            asked = watching.debug_options.debug_tensor_watch_opts.add()
            asked.node_name, asked.output_slot = tensor.op.name, tensor.value_index
            asked.debug_ops.append(COPY)
            asked.debug_urls.append("file://" + self._empty())
        return watching

    def drawn(self, tensors):
        """Returns dict of tensor name to the list of the arrays that the last run computed, one for each time, in order."""
        found = {}
        for folder, _, files in os.walk(self._folder):
            for file in files:
                name, mark, time = file.rpartition(f"_{COPY}_")
                if mark:
                    # The first part of the path is the device's.
                    below = os.path.relpath(os.path.join(folder, name), self._folder).split(os.sep)[1:]
                    found.setdefault("/".join(below), []).append((_number(time), os.path.join(folder, file)))
        return {
            tensor.name: [_read(path) for _, path in sorted(found.get(tensor.name.replace(":", "_"), []))]
            for tensor in tensors
        }

    def stacked(self, watched):
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

    def _empty(self):
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="tf_towers_draws_")
        for each in os.listdir(self._folder):
            shutil.rmtree(os.path.join(self._folder, each), ignore_errors=True)
        return self._folder

    def _tried(self):
        graph = tf.Graph()
        with graph.as_default():
            one = tf.identity(tf.placeholder(tf.float32, [], "given"), "one")
        config = tf.ConfigProto(device_count={"GPU": 0})
        try:
            with tf.Session(graph=graph, config=config) as session:
                session.run(one, {"given:0": 1.0}, options=self.options([one]))
        except (tf.errors.OpError, OSError):
            return False
        return len(self.drawn([one])[one.name]) == 1


def can_be_watched(session, options):
    """Tells whether a run with these `RunOptions` is of this process, and not debugged by the script itself."""
    debugged = options is not None and bool(options.debug_options.debug_tensor_watch_opts)
    return not debugged and not session.sess_str


def _number(time):
    digits, _, again = time.partition("-")
    return int(digits), int(again or 0)


def _read(path):
    event = event_pb2.Event()
    with open(path, "rb") as file:
        event.ParseFromString(file.read())
    return np.asarray(tensor_util.MakeNdarray(event.summary.value[0].tensor))
