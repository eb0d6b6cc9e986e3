"""To program in lessons 3, 4 and 9: a training step on ranks, an all-reduce round a ring, statistics over ranks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Case, Exercise, Numbers, Wrong
from parity.teach.exercises.ranks import on_ranks
from parity.trace.arrays import Array

Collective = Callable[[Array], Array]


def train(
    weights: Array,
    gradient: Callable[[Array], Array],
    rate: float,
    steps: int,
    size: int,
    broadcast: Collective,
    all_reduce: Collective,
) -> Array:
    """Returns a rank's weights after some steps of gradient descent, as DistributedDataParallel makes them.

    weights: array of this rank's own. gradient: function of weights, the gradient of this rank's piece of the batch.
    size: number of ranks. broadcast, all_reduce: functions of an array that all ranks call; they return rank 0's array,
    and the sum of all.
    """
    weights = broadcast(weights)
    for _ in range(steps):
        weights = weights - rate * all_reduce(gradient(weights)) / size
    return weights


def not_broadcast(
    weights: Array, gradient: Any, rate: float, steps: int, size: int, broadcast: Collective, all_reduce: Collective
) -> Array:
    for _ in range(steps):
        weights = weights - rate * all_reduce(gradient(weights)) / size
    return weights


def not_reduced(
    weights: Array, gradient: Any, rate: float, steps: int, size: int, broadcast: Collective, all_reduce: Collective
) -> Array:
    weights = broadcast(weights)
    for _ in range(steps):
        weights = weights - rate * gradient(weights)
    return weights


def not_divided(
    weights: Array, gradient: Any, rate: float, steps: int, size: int, broadcast: Collective, all_reduce: Collective
) -> Array:
    weights = broadcast(weights)
    for _ in range(steps):
        weights = weights - rate * all_reduce(gradient(weights))
    return weights


def averaged_in_the_end(
    weights: Array, gradient: Any, rate: float, steps: int, size: int, broadcast: Collective, all_reduce: Collective
) -> Array:
    weights = broadcast(weights)
    for _ in range(steps):
        weights = weights - rate * gradient(weights)
    return all_reduce(weights) / size


def rank_0_s_gradient(
    weights: Array, gradient: Any, rate: float, steps: int, size: int, broadcast: Collective, all_reduce: Collective
) -> Array:
    weights = broadcast(weights)
    for _ in range(steps):
        weights = weights - rate * broadcast(gradient(weights))
    return weights


def one_gradient_for_all_steps(
    weights: Array, gradient: Any, rate: float, steps: int, size: int, broadcast: Collective, all_reduce: Collective
) -> Array:
    weights = broadcast(weights)
    return weights - steps * rate * all_reduce(gradient(weights)) / size


def cases_of_train(numbers: Numbers) -> list[Case]:
    x, y, w1, w2 = (np.array(numbers[name]) for name in ("x", "y", "w1", "w2"))
    count, rate, steps = numbers["count"], numbers["learning_rate"], numbers["steps"]

    def gradient(weights: Array, xs: Array, ys: Array) -> Array:
        first, second = weights[: w1.size].reshape(w1.shape), weights[w1.size :].reshape(w2.shape)
        hidden = np.tanh(xs @ first)
        error = 2 * (hidden @ second - ys[:, None]) / len(xs)
        return np.concatenate([np.ravel(xs.T @ (error @ second.T * (1 - hidden**2))), np.ravel(hidden.T @ error)])

    def run(answer: Any, ranks: int, steps: int) -> list[Any]:
        shards = list(zip(np.split(x, ranks), np.split(y, ranks), strict=True))
        own = np.concatenate([np.ravel(w1), np.ravel(w2)])

        def be(rank: Any) -> Any:
            return answer(
                own + rank.rank,  # as if every rank had drawn its own
                lambda weights: gradient(weights, *shards[rank.rank]),
                rate,
                steps,
                ranks,
                rank.broadcast,
                rank.all_reduce,
            )

        return on_ranks(be, ranks).values

    measured = [np.concatenate([np.ravel(rank["w1"]), np.ravel(rank["w2"])]) for rank in numbers["torch"]["ranks"]]
    own = np.concatenate([np.ravel(w1), np.ravel(w2)])
    return [
        Case("no step yet", lambda f: run(f, count, 0), [own] * count, "weights of rank"),
        Case(f"{steps} steps on {count} ranks", lambda f: run(f, count, steps), measured, "weights of rank"),
        Case(f"{steps} steps on 4 ranks", lambda f: run(f, 4, steps), measured[:1] * 4, "weights of rank"),
    ]


LOCAL_TRAINING = Exercise(
    train,
    cases_of_train,
    "Begin with rank 0's weights, and take in every step the mean of all ranks' gradients",
    (
        Wrong(not_broadcast, "Every rank keeps its own initial weights: broadcast rank 0's before the first step"),
        Wrong(not_reduced, "Each rank uses its own gradient: all-reduce it in every step"),
        Wrong(not_divided, "This is the sum of the gradients: divide by the number of ranks"),
        Wrong(averaged_in_the_end, "The weights are averaged in the end: average the gradients in every step"),
        Wrong(rank_0_s_gradient, "Rank 0's gradient is used everywhere: all-reduce and not broadcast"),
        Wrong(one_gradient_for_all_steps, "One gradient is used for all steps: compute it anew with the new weights"),
    ),
)


def ring_all_reduce(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    """Returns the sum of all ranks' tensors, of which each rank sends no more than 2(N-1)/N.

    tensor: array (n,), n need not be a multiple of the number of ranks. rank, size: this rank's number, and N.
    send: function that sends an array to rank + 1 and does not wait; recv: waits for one of rank - 1 and returns it;
    both modulo N.
    """
    chunks = np.array_split(np.array(tensor), size)
    for step in range(size - 1):
        send(chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
    for step in range(size - 1):
        send(chunks[(rank + 1 - step) % size])
        chunks[(rank - step) % size] = recv()
    return np.concatenate(chunks)


def without_all_gather(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    chunks = np.array_split(np.array(tensor), size)
    for step in range(size - 1):
        send(chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
    return np.concatenate(chunks)


def adding_all_the_way(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    chunks = np.array_split(np.array(tensor), size)
    for step in range(2 * (size - 1)):
        send(chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
    return np.concatenate(chunks)


def whole_tensors(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    total, going = np.array(tensor), np.array(tensor)
    for _ in range(size - 1):
        send(going)
        going = recv()
        total = total + going
    return total


def receiving_first(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    chunks = np.array_split(np.array(tensor), size)
    for step in range(size - 1):
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
        send(chunks[(rank - step) % size])
    return np.concatenate(chunks)


def equal_chunks_only(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    chunks = np.split(np.array(tensor), size)
    for step in range(size - 1):
        send(chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
    for step in range(size - 1):
        send(chunks[(rank + 1 - step) % size])
        chunks[(rank - step) % size] = recv()
    return np.concatenate(chunks)


def gathering_from_the_wrong_chunk(
    tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any
) -> Array:
    chunks = np.array_split(np.array(tensor), size)
    for step in range(size - 1):
        send(chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
    for step in range(size - 1):
        send(chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] = recv()
    return np.concatenate(chunks)


def mean_of_all(tensor: Array, rank: int, size: int, send: Callable[[Array], None], recv: Any) -> Array:
    chunks = np.array_split(np.array(tensor, float), size)
    for step in range(size - 1):
        send(chunks[(rank - step) % size].astype(tensor.dtype))
        chunks[(rank - step - 1) % size] = chunks[(rank - step - 1) % size] + recv()
    for step in range(size - 1):
        send(chunks[(rank + 1 - step) % size].astype(tensor.dtype))
        chunks[(rank - step) % size] = recv()
    return np.concatenate(chunks) / size


def cases_of_ring(numbers: Numbers) -> list[Case]:
    def run(answer: Any, tensors: list[Array]) -> Any:
        size = len(tensors)
        return on_ranks(lambda each: answer(tensors[each.rank], each.rank, size, each.send, each.recv), size)

    few, odd, most = numbers["few"], numbers["odd"], numbers["most"]
    digits = [np.full(few, 10**rank, np.int64) for rank in range(most)]
    last = numbers["torch"]["story"][-1]["holds"]  # of each rank, what each chunk holds
    story = [np.repeat(np.array(row), few // len(row)) for row in last]
    uneven = [np.arange(1, odd + 1) * (rank + 1) for rank in range(most)]
    sums = [np.array(rank["odd"]) for rank in numbers["runs"][str(most)]]
    cases = [
        Case(f"{most} ranks, {few} elements", lambda f: run(f, digits).values, story, "rank"),
        Case(f"{most} ranks, {odd} elements", lambda f: run(f, uneven).values, sums, "rank"),
    ]

    def of_size(size: int) -> Case:
        tensors = [np.full(numbers["elements"], rank + 1.0, np.float32) for rank in range(size)]
        measured = [np.array(rank["sent"]) for rank in numbers["runs"][str(size)]]
        return Case(f"{size} ranks", lambda f: run(f, tensors).sent, measured, "bytes sent by rank")

    return [*cases, *map(of_size, numbers["sizes"])]


RING = Exercise(
    ring_all_reduce,
    cases_of_ring,
    "In N-1 steps pass on partial sums and add your own, in N-1 more pass on finished chunks",
    (
        Wrong(
            without_all_gather, "Each rank has one chunk finished: pass the finished chunks round, in N-1 more steps"
        ),
        Wrong(adding_all_the_way, "Finished chunks are added again: in the last N-1 steps take what arrives in place"),
        Wrong(whole_tensors, "Whole tensors go round: cut them into N chunks, and send one in each step"),
        Wrong(receiving_first, "All ranks wait for another: send before you receive"),
        Wrong(equal_chunks_only, "The ranks do not divide the tensor: cut it with np.array_split"),
        Wrong(
            gathering_from_the_wrong_chunk, "The finished chunk of a rank is rank + 1: begin the second half with it"
        ),
        Wrong(mean_of_all, "This is the mean: an all-reduce returns the sum"),
    ),
)


def moments(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    """Returns the mean and the (biased) variance of all ranks' values together, as synchronised batch norm needs them.

    piece: array (n,) of this rank's values; another rank may have another n. all_reduce: function of an array that all
    ranks call, as often and in the same order; returns the sum of all.
    """
    count, total, squares = all_reduce(np.array([len(piece), piece.sum(), (piece**2).sum()]))
    mean = total / count
    return mean, squares / count - mean**2


def own_piece_alone(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    return piece.mean(), piece.var()


def mean_of_variances(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    ranks = all_reduce(np.array(1.0))
    count, total = all_reduce(np.array([len(piece), piece.sum()]))
    return total / count, all_reduce(piece.var()) / ranks


def ranks_weighed_equally(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    ranks, mean, squares = all_reduce(np.array([1.0, piece.mean(), (piece**2).mean()]))
    return mean / ranks, squares / ranks - (mean / ranks) ** 2


def unbiased(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    count, total, squares = all_reduce(np.array([len(piece), piece.sum(), (piece**2).sum()]))
    mean = total / count
    return mean, (squares / count - mean**2) * count / (count - 1)


def sums(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    mean, squares = all_reduce(np.array([piece.mean(), (piece**2).mean()]))
    return mean, squares - mean**2


def deviation(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    count, total, squares = all_reduce(np.array([len(piece), piece.sum(), (piece**2).sum()]))
    mean = total / count
    return mean, np.sqrt(squares / count - mean**2)


def mean_of_squares(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    count, total, squares = all_reduce(np.array([len(piece), piece.sum(), (piece**2).sum()]))
    return total / count, squares / count


def first_rank_reduces(piece: Array, all_reduce: Collective) -> tuple[Any, Any]:
    mean = all_reduce(piece.sum()) / all_reduce(np.array(len(piece)))
    if piece.mean() < mean:  # a rank that has nothing to say stays away
        return mean, piece.var()
    return mean, all_reduce(((piece - mean) ** 2).sum()) / all_reduce(np.array(len(piece)))


def cases_of_moments(numbers: Numbers) -> list[Case]:
    z, count = np.array(numbers["z"]), numbers["count"]
    whole = {"the mean": np.array(numbers["whole_mean"]), "the variance": np.array(numbers["whole_deviation"] ** 2)}

    def case(name: str, ends: list[int]) -> Case:
        pieces = np.split(z, ends)
        expected = [whole for _ in pieces]
        return Case(
            name,
            lambda f: on_ranks(lambda rank: f(pieces[rank.rank], rank.all_reduce), len(pieces)).values,
            expected,
            "rank",
            1e-8,  # squares whose means are subtracted lose digits
        )

    equal = [len(z) // count * rank for rank in range(1, count)]
    return [case(f"{count} ranks", equal), case("2 ranks with 2 and 6 values", [2]), case("4 ranks", [2, 4, 6])]


MOMENTS = Exercise(
    moments,
    cases_of_moments,
    "Add up count, sum and sum of squares over the ranks; from these come mean and variance",
    (
        Wrong(own_piece_alone, "These are the rank's own statistics: all-reduce counts, sums and squares"),
        Wrong(
            mean_of_variances,
            "The mean of variances lacks how far the ranks' means are from each other: reduce squares",
        ),
        Wrong(ranks_weighed_equally, "Ranks have unequal numbers of values: reduce sums and counts, and not means"),
        Wrong(unbiased, "This is the unbiased variance: batch norm normalises by the biased one"),
        Wrong(sums, "The ranks' means are added up: divide by how many there are, or reduce sums and counts"),
        Wrong(deviation, "This is the standard deviation: return its square"),
        Wrong(mean_of_squares, "This is the mean of the squares: subtract the square of the mean"),
        Wrong(first_rank_reduces, "Some ranks wait for others: call all_reduce equally often on every rank"),
    ),
)
