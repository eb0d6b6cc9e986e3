"""Keeps the iterations of a loop that draws in order, so that it is known which iteration a draw belongs to."""

import functools

from tensorflow.python.framework import ops as framework_ops
from tensorflow.python.ops import control_flow_ops

from tf_towers.record.inputs import RANDOM


def loop_of(op):
    """Returns the name of the innermost loop or branch that an op is in, "" where it is in none."""
    context = op._get_control_flow_context()
    return context.name if context is not None else ""


def keep_iterations_in_order(patches):
    """Makes every loop that draws run one iteration at a time, from when it is built.

    TensorFlow starts up to ten iterations at once. Which of them a random op draws for first is then left to the threads:
    two runs of a seeded script differ (measured on 1.15 and 2.21, from the second step on). One at a time gives the draws out
    in the order of the iterations, as such a run may do anyway. No op is added, and what an iteration computes stays what it is.

    Args:
      patches: the `Patches` to put it into.
    """
    patches.wrap(control_flow_ops.WhileContext, "BuildLoop", _built_in_order)


def _built_in_order(original):
    @functools.wraps(original)
    def build(context, *arguments, **named):
        graph = framework_ops.get_default_graph()
        known = len(graph.get_operations())
        built = original(context, *arguments, **named)
        made = graph.get_operations()[known:]
        if any(op.type in RANDOM and _is_in(op, context) for op in made):
            _run_one_at_a_time(context, made)
        return built

    return build


def _run_one_at_a_time(context, made):
    context._parallel_iterations = 1  # its gradient adds more of these
    for op in made:
        if op.type in ("Enter", "RefEnter") and op.get_attr("frame_name").decode("utf-8") == context.name:
            op._set_attr("parallel_iterations", _one(op))


def _one(op):
    return type(op.node_def.attr["parallel_iterations"])(i=1)


def _is_in(op, context):
    inside = op._get_control_flow_context()
    while inside is not None and inside is not context:
        inside = inside.outer_context
    return inside is context
