"""Multiplies what a tower returns as its loss: for ports that scale theirs on purpose."""

import functools


def with_loss_factor(tower, factor, losses=()):
    """Returns a tower whose loss is `factor` times as large; its outputs stay as they are, unless they are losses too.

    Args:
      tower: ``tower(**inputs)`` returns a scalar loss, or the loss and a dict of outputs.
      factor: a number; multiplied in the loss's own dtype.
      losses: names of the outputs that further optimizers minimise.
    """

    @functools.wraps(tower)
    def scaled(**inputs):
        returned = tower(**inputs)
        if isinstance(returned, tuple):
            loss, outputs = returned
            scaled_too = {name: tensor * factor for name, tensor in outputs.items() if name in losses}
            return loss * factor, dict(outputs, **scaled_too)
        return returned * factor

    return scaled
