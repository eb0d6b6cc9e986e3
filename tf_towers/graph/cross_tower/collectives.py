"""Lets the towers of a synchronised build exchange tensors, and takes gradients through what they exchanged."""

from typing import Callable, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.cross_tower.scheduler import current_turn
from tf_towers.graph.update.optimizer import COPY_SCOPE
from tf_towers.tf_types import Gradient, Tensor, Variable


class Exchange(NamedTuple):
    """What one tower gave and got at one place.

    Fields:
      place: name of the place in the model.
      sent: the tensor that it gave.
      received: a list of the tensors that it got: one for each tower, of `sent`'s shape, or one that holds them all.
    """

    place: str
    sent: Tensor
    received: List[Tensor]


def over_towers(tensor: Tensor, name: str = "over_towers") -> List[Tensor]:
    """Returns what every tower gives at this place of the model: a list over the towers of tensors, on this tower's device.

    For layers that look at more than their tower's shard. Every tower has to come here, as often and in the same order.
    The gradient of a tower with respect to a variable is that of all towers' losses through this tower's computation, as
    an all-gather has it whose gradient is a reduce-scatter.

    Args:
      tensor: floats of one shape in all towers.
      name: of the place, in its variable scope.

    Raises:
      TowerError: no tower of ``build(..., batch_norm="synchronised")`` is being built.

    Source of the gradient's rule: tensorflow/python/ops/nccl_ops.py (1.15), which registers a collective for a collective's.
    Counterpart: torch.distributed.nn.functional.all_gather
    """
    return _exchanged(
        tensor, name, lambda all_sent: [tf.identity(one, f"received_{i}") for i, one in enumerate(all_sent)]
    )


def stacked_over_towers(tensor: Tensor, name: str = "over_towers") -> Tensor:
    """Returns what every tower gives at this place of the model as one tensor, ``[towers, ...]``, on this tower's device.

    As `over_towers`, with as few ops for many towers as for two: a list has an op for each pair of towers.

    Args:
      tensor: floats of one shape in all towers.
      name: of the place, in its variable scope.

    Raises:
      TowerError: no tower of ``build(..., batch_norm="synchronised")`` is being built.
    """
    return _exchanged(tensor, name, lambda all_sent: [tf.identity(tf.stack(all_sent), "received")])[0]


def running_tower() -> Optional[int]:
    """Returns the index of the tower that is being built beside others in this thread, or None."""
    turn = current_turn()
    return None if turn is None else turn.index


def exchanged_so_far() -> List[Exchange]:
    """Returns the list of the running tower's `Exchange` so far; empty where none is being built beside others."""
    turn = current_turn()
    return [] if turn is None else list(turn.exchanged)


def upstream_of(minimised: Sequence[Tensor], exchanges: Sequence[Sequence[Exchange]]) -> List[List[Tensor]]:
    """Returns the gradients of all towers' losses with respect to what each tower sent.

    Args:
      minimised: a list over the towers of scalars.
      exchanges: a list over the towers of lists of `Exchange`.

    Returns:
      A list over the towers of lists over the exchanges of tensors, None where no loss depends on what was sent.
    """
    sent = [exchange.sent for own in exchanges for exchange in own]
    if not sent:
        return [[] for _ in exchanges]
    # Of all towers' losses at once: what a tower sent is in every tower's loss.
    gradients = iter(tf.gradients(minimised, sent, colocate_gradients_with_ops=True))
    return [[next(gradients) for _ in own] for own in exchanges]


def gradients_of_tower(
    minimised: Tensor, weights: Sequence[Variable], exchanged: Sequence[Exchange], upstream: Sequence[Tensor]
) -> List[Gradient]:
    """Returns the gradients of all towers' losses through one tower's computation.

    Args:
      minimised: this tower's loss, a scalar.
      weights: variables.
      exchanged: this tower's list of `Exchange`.
      upstream: as `upstream_of` returns it for this tower.
    """
    sent = [(exchange.sent, gradient) for exchange, gradient in zip(exchanged, upstream) if gradient is not None]
    return tf.gradients(
        [minimised] + [one for one, _ in sent],
        weights,
        # None is a gradient of 1 for the loss; what was sent gets what all losses say of it.
        [None] + [gradient for _, gradient in sent],
        # What was received is constant here: its gradient came back to its sender through upstream.
        stop_gradients=[one for exchange in exchanged for one in exchange.received],
    )


def _exchanged(tensor: Tensor, name: str, receive: Callable[[List[Tensor]], List[Tensor]]) -> List[Tensor]:
    turn = current_turn()
    if turn is None:
        raise TowerError(
            "over_towers: expected to be called by a tower that is built beside the others, got no such tower. "
            'Build with batch_norm="synchronised".'
        )
    # Where its variables are: the towers share them, whatever their ops are called.
    place = "/".join(part for part in (COPY_SCOPE.sub("", tf.get_variable_scope().name), name) if part)
    with tf.name_scope(name):
        # Ops of its own on either side: gradients are taken with respect to what was sent, and stop at what was
        # received.
        sent = tf.identity(tensor, "sent")
        received = receive(turn.meet(place, sent))
    turn.exchanged.append(Exchange(place, sent, received))
    return received
