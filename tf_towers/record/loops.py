"""Keeps the iterations of a loop that draws in order, so that it is known which iteration a draw belongs to."""

import functools
import weakref

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import ops as framework_ops
from tensorflow.python.ops import control_flow_ops, gradients_util

from tf_towers.record.inputs import RANDOM

ENTERING = frozenset(["Enter", "RefEnter"])


def loop_of(op):
    """Returns the name of the innermost loop or branch that an op is in, "" where it is in none."""
    context = op._get_control_flow_context()
    return context.name if context is not None else ""


def keep_iterations_in_order(patches):
    """Makes every loop that draws run one iteration at a time, from when it is built.

    TensorFlow starts up to ten iterations at once. Which of them a random op draws for first is then left to the threads:
    two runs of a seeded script differ (measured on 1.15 and 2.21, in the first steps). One at a time gives the draws out in
    the order of the iterations, as any run may do. It is an attribute of ops that are there: none is added, and what an
    iteration computes from its draws stays the same.

    Args:
      patches: the `Patches` to put it into.
    """
    drawing = weakref.WeakKeyDictionary()
    make = functools.partial(_built_in_order, drawing=drawing)
    patches.wrap(control_flow_ops.WhileContext, "BuildLoop", make)
    # Gradients bring more values into a loop, and the first that enters it decides.
    patches.wrap(gradients_util, "_GradientsHelper", make)


def _built_in_order(original, drawing):
    @functools.wraps(original)
    def build(*arguments, **named):
        graph = framework_ops.get_default_graph()
        known = len(graph.get_operations())
        built = original(*arguments, **named)
        _one_at_a_time(graph.get_operations()[known:], drawing.setdefault(graph, set()))
        return built

    return build


def _one_at_a_time(made, drawing):
    """Changes the ops that enter a loop with draws in it; no session has run them yet."""
    drawing.update(name for op in made if op.type in RANDOM for name in _contexts_of(op))
    for op in made:
        if op.type in ENTERING and op.get_attr("frame_name").decode("utf-8") in drawing:
            op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))


def _contexts_of(op):
    context = op._get_control_flow_context()
    while context is not None:
        yield context.name
        context = context.outer_context
