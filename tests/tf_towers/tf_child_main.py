"""Runs TensorFlow programs that tests send; Python 3.7 and 3.10+, TensorFlow 1.15 and 2.x.

A program is the source of a function, and of those that it calls, at their own lines of the test's file. It sees `tf`,
`np`, `tf_towers` and `small`, builds in a fresh default graph and returns a dict of arrays and JSON values.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(os.path.dirname(FOLDER)), FOLDER]

import numpy as np  # noqa: E402
import small  # noqa: E402
import tensorflow as real  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

import tf_towers  # noqa: E402
from parity.trace import TensorFile, write_tensors  # noqa: E402
from parity.worker.protocol import claim_standard_streams, serve  # noqa: E402


def call(arguments, progress):
    """Runs one program: `file`, `sources` (pairs of line and text), `name`, `plain`, `inputs`, `outputs`."""
    names = {"tf": tf, "np": np, "tf_towers": tf_towers, "small": small, "TF2": real.__version__[0] == "2"}
    for line, text in arguments["sources"]:
        exec(compile("\n" * (line - 1) + text, arguments["file"], "exec"), names)
    arrays = TensorFile(arguments["inputs"])
    inputs = dict(arguments["plain"], **{name: np.array(arrays.read(name)) for name in arrays.names()})
    with tf.Graph().as_default():
        returned = names[arguments["name"]](**inputs) or {}
    tensors = {name: value for name, value in returned.items() if isinstance(value, (np.ndarray, np.generic))}
    write_tensors(arguments["outputs"], tensors)
    return {name: value for name, value in returned.items() if name not in tensors}


if __name__ == "__main__":
    channel = claim_standard_streams()
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    serve(channel, {"call": call})
