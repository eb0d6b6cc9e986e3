"""Multiplies what a tower returns as its loss: for ports that scale theirs on purpose."""

import functools


def with_loss_factor(tower, factor):
    """Returns a tower whose loss is `factor` times as large; its outputs stay as they are.

    Args:
      tower: ``tower(**inputs)`` returns a scalar loss, or the loss and a dict of outputs.
      factor: a number; multiplied in the loss's own dtype.
    """

    @functools.wraps(tower)
    def scaled(**inputs):
        returned = tower(**inputs)
        if isinstance(returned, tuple):
            return (returned[0] * factor,) + returned[1:]
        return returned * factor

    return scaled
