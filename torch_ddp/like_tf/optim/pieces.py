"""What an optimizer's rule is applied to at once: lists of tensors, in pieces that a cache holds."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

# Elements of one piece. A rule of ten passes over five tensors reads and writes memory once where a piece stays in the
# cache; Adam takes 2.3 ns for an element so, 3.1 with pieces of 32768, whose calls cost more, and 4 with none (float32,
# one core of an EPYC). A thread is handed no less than 32768 elements by torch.
PIECE, FOR_A_THREAD = 262_144, 32_768

# Of one parameter: itself, its gradient, its slots. One shape, dtype and device.
Tensors = tuple[Tensor, ...]
# What foreach operations take: lists, and the tuples that they return.
Many = list[Tensor] | tuple[Tensor, ...]


def pieces(rows: Iterable[Tensors]) -> Iterator[list[Tensors]]:
    """Yields the rows joined to lists, and large ones cut, for rules that look at each element by itself.

    On another device than the CPU the list is whole: there a call costs more than memory does.

    Args:
        rows: the tensors of each parameter, all of one dtype and device.
    """
    limit = max(PIECE, FOR_A_THREAD * torch.get_num_threads())
    joined: list[Tensors] = []
    size = 0
    for row in rows:
        count = row[0].numel()
        if row[0].device.type != "cpu":
            joined.append(row)
        elif count > limit and all(tensor.is_contiguous() for tensor in row):
            flat = [tensor.detach().view(-1) for tensor in row]
            for start in range(0, count, limit):
                yield [tuple(tensor[start : start + limit] for tensor in flat)]
        else:
            if joined and size + count > limit:
                yield joined
                joined, size = [], 0
            joined.append(row)
            size += count
    if joined:
        yield joined


def divides_like_the_kernel(tensor: Tensor) -> bool:
    """Returns whether ``addcdiv`` rounds as a product, a quotient and a sum do, one after the other.

    On the CPU it computes ``self + value * a / b`` from the left; on CUDA the sum may be fused, and half precision is
    rounded once at the end.

    Args:
        tensor: one of those that it would be given.
    """
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
