"""Stands for a reader of scene text: noise of the shapes that the trainer feeds."""

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("geometry", "RBOX", "")


def get_batch(num_workers, input_size, batch_size):
    draw = np.random.RandomState(0)
    side = input_size // 4
    while True:
        images = draw.randint(0, 256, (batch_size, input_size, input_size, 3)).astype(np.float32)
        score = (draw.rand(batch_size, side, side, 1) < 0.3).astype(np.float32)
        edges, angle = draw.rand(batch_size, side, side, 4) * 40 + 1, draw.rand(batch_size, side, side, 1) - 0.5
        yield images, None, score, np.concatenate([edges, angle], 3).astype(np.float32), np.ones_like(score)
