"""Runs a script that restores a checkpoint so that it writes one instead, of its first values: FILE ARGUMENTS..."""

import runpy
import sys

import tensorflow.compat.v1 as tf


def save_instead(saver, session, path):
    session.run(tf.global_variables_initializer())
    saver.save(session, path)


tf.set_random_seed(1)
tf.train.Saver.restore = save_instead
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
