"""Adds up the gradients of several micro-batches, and reduces them once."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from torch.nn.parallel import DistributedDataParallel

from torch_ddp.parallel.errors import ParallelError

MicroBatch = TypeVar("MicroBatch")


def accumulate(model: DistributedDataParallel, micro_batches: Iterable[MicroBatch]) -> Iterator[MicroBatch]:
    """Yields the micro-batches of one update; only the backward of the last one reduces the gradients.

    Forward and backward both belong into the loop's body: DDP decides in forward whether the backward that follows will
    reduce. The ranks may have different numbers of micro-batches, at least one each. Losses are not divided. Reducing at
    every micro-batch would not only cost more: what is summed over the ranks would count the first micro-batches once
    per rank and reduction.

    Args:
      model: torch's wrapper, or `torch_ddp.parallel`'s.
      micro_batches: anything, e.g. an iterator over a loader; read one ahead.

    Yields:
      Each micro-batch.

    Raises:
      ParallelError: the model is not wrapped, or there is no micro-batch, on which the other ranks would wait.
    """
    if not isinstance(model, DistributedDataParallel):
        raise ParallelError(
            f"accumulate: expected a DistributedDataParallel, got {type(model).__name__}. Wrap the model first."
        )
    return _accumulate(model, iter(micro_batches))


def _accumulate(model: DistributedDataParallel, iterator: Iterator[MicroBatch]) -> Iterator[MicroBatch]:
    try:
        current = next(iterator)
    except StopIteration:
        raise ParallelError(
            "accumulate: expected at least one micro-batch on every rank, got none. "
            "Give a rank without examples an empty one, and a loss of zero."
        ) from None
    for following in iterator:
        with model.no_sync():
            yield current
        current = following
    yield current
