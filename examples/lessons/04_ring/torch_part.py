"""All-reduce by hand: round a ring, and by way of rank 0."""

import hashlib

import torch
import torch.distributed as dist
from ranks import on_ranks


def ring_all_reduce(tensor, rank, size, count=None, look=lambda *seen: None):
    """Sums `tensor` over ranks 0 to ``size - 1`` in place, cut into `count` chunks, by default one for each rank."""
    chunks = torch.tensor_split(tensor, count or size)  # views; uneven where the count does not divide
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(2 * (size - 1)):
        reducing = step < size - 1
        turn = step if reducing else step - size  # the second half begins with the chunk that is finished here
        outgoing = chunks[(rank - turn) % size :: size]  # one chunk, where there are as many as ranks
        sending = [dist.isend(chunk, right) for chunk in outgoing]
        for chunk in chunks[(rank - turn - 1) % size :: size]:
            arrived = torch.empty_like(chunk)
            dist.recv(arrived, left)
            chunk.copy_(chunk + arrived if reducing else arrived)
        for each in sending:
            each.wait()
        look((rank - turn) % size, [chunk.nbytes for chunk in outgoing])


def star_all_reduce(tensor, rank, size):
    """Sums by way of rank 0; returns how many bytes this rank sent and received."""
    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return 2 * tensor.nbytes
    arrived = torch.empty_like(tensor)
    for other in range(1, size):
        dist.recv(arrived, other)
        tensor += arrived
    for other in range(1, size):
        dist.send(tensor, other)
    return 2 * (size - 1) * tensor.nbytes


def compare(rank, size, elements, odd):
    group = dist.new_group(range(size))
    if rank.rank >= size:
        return None
    values = torch.rand(elements, generator=torch.Generator().manual_seed(rank.rank))
    ring, star, theirs = values.clone(), values.clone(), values.clone()
    sent = sum(map(sum, bytes_of_steps(ring, rank.rank, size)))
    through = star_all_reduce(star, rank.rank, size)
    dist.all_reduce(theirs, group=group)
    uneven = torch.arange(1, odd + 1) * (rank.rank + 1)
    ring_all_reduce(uneven, rank.rank, size)
    return {
        "sent": sent,
        "through_root": through,
        "apart": ((ring - theirs).abs() / theirs).max().item(),
        "digest": hashlib.sha256(ring.numpy().tobytes()).hexdigest(),
        "odd": uneven.tolist(),
    }


def bytes_of_steps(tensor, rank, size, count=None):
    """Sums `tensor`; returns for each step the bytes of every chunk that this rank sent."""
    seen = []
    ring_all_reduce(tensor, rank, size, count, lambda chunk, sizes: seen.append(sizes))
    return seen


def with_chunks(rank, elements, count):
    """Returns what this rank sent with so many chunks, step by step, and whether the sum came out."""
    tensor = torch.full((elements,), rank.rank + 1.0)
    steps = bytes_of_steps(tensor, rank.rank, rank.world_size, count)
    return {"steps": steps, "sum": torch.unique(tensor).tolist()}


def story(rank, few):
    """Returns after each step which chunk was sent and what each chunk holds: a 1 in the decimal place of each rank."""
    tensor = torch.full((few,), 10**rank.rank)
    seen = []

    def look(chunk, sizes):
        seen.append({"sent": chunk, "holds": [part[0].item() for part in torch.tensor_split(tensor, rank.world_size)]})

    ring_all_reduce(tensor, rank.rank, rank.world_size, look=look)
    return seen


def everything(rank, sizes, counts, elements, few, odd):
    return {
        "runs": {size: compare(rank, size, elements, odd) for size in sizes},
        "ways": [with_chunks(rank, elements, count) for count in counts],
        "story": story(rank, few),
    }


def measure(sizes, counts, elements, few, odd):
    ranks = on_ranks(everything, max(sizes), sizes, counts, elements, few, odd)
    runs = {size: [rank["runs"][size] for rank in ranks[:size]] for size in sizes}
    ways = [[rank["ways"][at] for rank in ranks] for at in range(len(counts))]
    steps = [
        {
            "sent": [rank["story"][step]["sent"] for rank in ranks],
            "holds": [rank["story"][step]["holds"] for rank in ranks],
        }
        for step in range(len(ranks[0]["story"]))
    ]
    return {"runs": runs, "ways": ways, "story": steps}
