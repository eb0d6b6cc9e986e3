"""Builds the towers in turn, in one graph, as if they were built one after another."""

import tensorflow.compat.v1 as tf

from tf_towers.in_turn import in_turn
from tf_towers.views import Views


def build_together(build, towers):
    """Builds all towers in turn, each in a thread of its own: they meet wherever they exchange tensors.

    Devices, name scopes, variable scopes and control dependencies belong to a thread in TensorFlow 1, or are made to here;
    each tower starts with those of the caller.

    Args:
      build: function of a tower's index, and of a function that returns what this tower has put into a collection.
      towers: their number.

    Source: tensorflow/python/distribute/mirrored_strategy.py (1.15), which runs its replicas' threads one at a time.
    """
    graph, scope, views = tf.get_default_graph(), tf.get_variable_scope(), Views(towers)
    graph.switch_to_thread_local()

    def started(index):
        def run():
            with graph.as_default(), tf.variable_scope(scope, auxiliary_name_scope=False):
                build(index, lambda key: views.own(index, key))

        return run

    in_turn([started(index) for index in range(towers)], views.of)


def own_from_here():
    """Returns a function of a collection's key that returns what has been put into it since."""
    graph = tf.get_default_graph()
    known = {key: len(graph.get_collection(key)) for key in graph.get_all_collection_keys()}
    return lambda key: graph.get_collection(key)[known.get(key, 0) :]
