"""Runs TensorFlow programs sent over stdin, one JSON line each; Python 3.7 and 3.10+, TensorFlow 1.15 and 2.x.

A program is the source of one function ``f(tf, np, session, **inputs)`` that builds a graph and returns a dict of
arrays; ``session()`` opens a single-threaded session on it, with TensorFlow's graph optimizer unless told otherwise,
and initialises its variables.
"""

import json
import os
import sys
import traceback

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", TF_USE_LEGACY_KERAS="1")
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what TensorFlow prints must not mix with the replies

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


def session(optimized=True):
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = not optimized
    opened = tf.Session(config=config)
    opened.run(tf.global_variables_initializer())
    return opened


def run(request):
    with np.load(request["inputs"], allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    names = {}
    exec(compile(request["source"], "<program>", "exec"), names)
    with tf.Graph().as_default():
        outputs = names[request["name"]](tf, np, session, **dict(arrays, **request["plain"]))
    np.savez(request["outputs"], **{name: np.asarray(value) for name, value in outputs.items()})


for line in sys.stdin:
    reply = {}
    try:
        run(json.loads(line))
    except Exception:  # the parent raises it
        reply["error"] = traceback.format_exc()
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
