"""To program in lesson 15: a step whose weights and slots are shared out, clipped by the norm of all shards."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parity.teach.exercises.exercise import Answer, Case, Exercise, Numbers, Wrong
from parity.teach.exercises.ranks import on_ranks
from parity.trace.arrays import Array


class Comm(NamedTuple):
    """What a rank of a sharded step may call, each on all ranks at once.

    Fields:
      size: how many ranks there are.
      reduce_scatter: takes an array [n]; returns this rank's share [n / size] of the sum over ranks.
      all_gather: takes a share [n / size]; returns the shares of all ranks, one behind the other, [n].
      all_reduce: takes an array or a number; returns the sum over ranks, whole.
    """

    size: int
    reduce_scatter: Callable[[Any], Any]
    all_gather: Callable[[Any], Any]
    all_reduce: Callable[[Any], Any]


def sharded_step(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    """Returns all weights [n] after a step, and this rank's slot [n / size] after it.

    shard: this rank's weights [n / size]. slot: its momentum. gradient: of this rank's examples, of all weights [n]; the
    step takes the mean over ranks g, scaled by min(1, 0.1 / (norm of g + 1e-6)), as torch clips. Then the slot is
    0.9 slot + g, and the weights are moved by -0.1 slot. comm has size, the number of ranks; reduce_scatter(array [n]),
    this rank's share of the sum over ranks; all_gather(share), all shares as one array [n]; and all_reduce(number), the
    sum over ranks, through which only one number has to go.
    """
    mean = comm.reduce_scatter(gradient) / comm.size
    norm = np.sqrt(comm.all_reduce(np.sum(mean**2)))
    slot = 0.9 * slot + mean * min(1.0, 0.1 / (norm + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def shares_summed(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    total = comm.reduce_scatter(gradient)
    norm = np.sqrt(comm.all_reduce(np.sum((total / comm.size) ** 2)))
    slot = 0.9 * slot + total * min(1.0, 0.1 / (norm + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def norm_of_own_share(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    mean = comm.reduce_scatter(gradient) / comm.size
    comm.all_reduce(0.0)
    slot = 0.9 * slot + mean * min(1.0, 0.1 / (np.linalg.norm(mean) + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def norms_added_up(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    mean = comm.reduce_scatter(gradient) / comm.size
    norm = comm.all_reduce(np.linalg.norm(mean))
    slot = 0.9 * slot + mean * min(1.0, 0.1 / (norm + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def norm_before_the_mean(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    clipped = gradient * min(1.0, 0.1 / (np.linalg.norm(gradient) + 1e-6))
    comm.all_reduce(0.0)
    slot = 0.9 * slot + comm.reduce_scatter(clipped) / comm.size
    return comm.all_gather(shard - 0.1 * slot), slot


def mean_of_squares(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    mean = comm.reduce_scatter(gradient) / comm.size
    norm = np.sqrt(comm.all_reduce(np.sum(mean**2)) / comm.size)
    slot = 0.9 * slot + mean * min(1.0, 0.1 / (norm + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def momentum_clipped(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    slot = 0.9 * slot + comm.reduce_scatter(gradient) / comm.size
    norm = np.sqrt(comm.all_reduce(np.sum(slot**2)))
    slot = slot * min(1.0, 0.1 / (norm + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def reduced_whole(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    mean = comm.all_reduce(gradient) / comm.size
    share = comm.reduce_scatter(gradient) / comm.size
    slot = 0.9 * slot + share * min(1.0, 0.1 / (np.linalg.norm(mean) + 1e-6))
    return comm.all_gather(shard - 0.1 * slot), slot


def never_gathered(shard: Array, slot: Array, gradient: Array, comm: Any) -> tuple[Any, Any]:
    mean = comm.reduce_scatter(gradient) / comm.size
    norm = np.sqrt(comm.all_reduce(np.sum(mean**2)))
    slot = 0.9 * slot + mean * min(1.0, 0.1 / (norm + 1e-6))
    return shard - 0.1 * slot, slot


def cases_of_sharded_step(numbers: Numbers) -> list[Case]:
    def case(name: str, weights: Array, slot: Array, gradients: Array, wanted: tuple[Array, Array]) -> Case:
        size = len(gradients)
        expected = [
            {"the weights": wanted[0], "the slot": share, "numbers in all_reduce": np.array(1)}
            for share in np.split(wanted[1], size)
        ]
        return Case(
            name, lambda f: sharded(f, np.split(weights, size), np.split(slot, size), gradients), expected, "rank"
        )

    few = np.array([1.0, -2.0, 0.5, 0.0])
    moved = np.array([0.01, 0.0, -0.02, 0.03])
    two = np.array([[0.3, 0.1, -0.2, 0.4], [-0.1, 0.3, 0.0, 0.2]])
    start, last = np.array(numbers["start"]), np.array(numbers["step"])
    return [
        case("4 weights on 2 ranks", few, moved, two, whole_step(few, moved, two.mean(0))),
        case("4 weights, nothing to clip", few, moved, two / 100, whole_step(few, moved, two.mean(0) / 100)),
        case(
            f"{len(start)} weights on {numbers['ranks']} ranks",
            start,
            np.zeros_like(start),
            np.array(numbers["gradients"]),
            (last, (start - last) / 0.1),
        ),
    ]


def whole_step(weights: Array, slot: Array, mean: Array) -> tuple[Array, Array]:
    """Returns weights and slot after a step that nobody has shared out."""
    slot = 0.9 * slot + mean * min(1.0, 0.1 / (float(np.linalg.norm(mean)) + 1e-6))
    return weights - 0.1 * slot, slot


def sharded(answer: Answer, shards: list[Array], slots: list[Array], gradients: Array) -> list[Any]:
    """Returns of each rank its weights and slot by an answer, and how many numbers it gave to all_reduce."""

    def be(rank: Any) -> Any:
        reduced = [0]

        def all_reduce(array: Any) -> Any:
            reduced[0] += np.size(array)
            return rank.all_reduce(array)

        def reduce_scatter(array: Any) -> Any:
            return np.split(rank.all_reduce(array), rank.size)[rank.rank]

        def all_gather(share: Any) -> Any:
            parts = np.zeros((rank.size, np.size(share)))
            parts[rank.rank] = share
            return rank.all_reduce(parts).ravel()

        comm = Comm(rank.size, reduce_scatter, all_gather, all_reduce)
        result = answer(shards[rank.rank], slots[rank.rank], gradients[rank.rank], comm)
        return (*result, reduced[0]) if isinstance(result, tuple) else result

    return on_ranks(be, len(gradients)).values


SHARDED_STEP = Exercise(
    sharded_step,
    cases_of_sharded_step,
    "Reduce-scatter to the mean, take the root of all shares' squares, clip, update the share, and gather the weights",
    (
        Wrong(shares_summed, "This is the sum over ranks: divide the share by their number"),
        Wrong(norm_of_own_share, "Each rank clips by its own share: add the squares up over ranks before the root"),
        Wrong(norms_added_up, "Norms are no squares: add up the squares of the shares, and take one root"),
        Wrong(norm_before_the_mean, "Each rank's gradient is clipped for itself: combine first, then clip the mean"),
        Wrong(mean_of_squares, "The squares are divided by the number of ranks: the shares are parts, add them up"),
        Wrong(momentum_clipped, "The slot is clipped: clip the gradient before it is added to the momentum"),
        Wrong(reduced_whole, "Right and wasteful: the whole gradient is reduced for its norm; send the sum of squares"),
        Wrong(never_gathered, "The rank ends with its own share: gather those of all ranks"),
    ),
)
