"""In which order the ranks' numbers are added up, chunk by chunk, found by trying all orders."""

import itertools

import torch
import torch.distributed as dist

PER_RANK = 64  # numbers of a chunk: so many that no wrong order gives all of them by chance


def orders(rank):
    """Returns an order that gives the bits of each chunk of an all-reduce, and whether reduce-scatter gives the same."""
    size = rank.world_size
    every = torch.randn(size, PER_RANK * size, generator=torch.Generator().manual_seed(5))
    chunks = every.chunk(size, dim=1)
    total, share = every[rank.rank].clone(), torch.empty(PER_RANK)
    dist.all_reduce(total)
    reduce_scatter(share, every[rank.rank].clone())
    sums = total.chunk(size)
    # Orders that differ in their first two ranks give the same bits: those that go round the ring are tried first.
    tried = sorted(itertools.permutations(range(size)), key=lambda order: len(strides(order)))
    found = [
        next((list(order) for order in tried if torch.equal(added(part, order), got)), [])
        for part, got in zip(chunks, sums, strict=True)
    ]
    return {"chunks": found, "equal": torch.equal(share, sums[rank.rank])}


def strides(order):
    return {(after - before) % len(order) for before, after in itertools.pairwise(order)}


def reduce_scatter(share, whole):
    # torch 2.13 has given it another name; FSDP2 calls it by that one.
    getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(share, whole)


def added(part, order):
    result = part[order[0]]
    for rank in order[1:]:
        result = result + part[rank]
    return result
