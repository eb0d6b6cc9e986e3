"""Stands for a reader of video clips: noise of the shapes that the trainer feeds."""

import numpy as np

DRAW = np.random.RandomState(0)


def read_clip_and_label(filename, batch_size, start_pos=-1, num_frames_per_clip=16, crop_size=112, shuffle=False):
    clips = DRAW.randn(batch_size, num_frames_per_clip, crop_size, crop_size, 3).astype(np.float32)
    return clips, DRAW.randint(0, 101, batch_size), 0, [], batch_size
