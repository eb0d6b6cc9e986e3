"""Stands for a reader of small images: noise."""

import numpy as np


def load(batch_size, data_dir=None):
    draw = np.random.RandomState(0)

    def epoch():
        for _ in range(20):
            yield (draw.randint(0, 256, (batch_size, 3, 64, 64)).astype("int32"),)

    return epoch, epoch
