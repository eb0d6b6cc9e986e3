"""Makes sessions whose arithmetic can be repeated."""

import tensorflow.compat.v1 as tf


def session(graph, towers, threads=1):
    """Makes a session with a virtual CPU for the variables and one for each tower.

    Args:
      graph: the graph to run.
      towers: number of towers.
      threads: of each of TensorFlow's two pools; 1 makes runs repeatable and is recorded as a fact.
    """
    config = tf.ConfigProto(
        device_count={"CPU": towers + 1},
        inter_op_parallelism_threads=threads,
        intra_op_parallelism_threads=threads,
        allow_soft_placement=True,
    )
    return tf.Session(graph=graph, config=config)
