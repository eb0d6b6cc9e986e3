"""All-reduce by hand: round a ring, and by way of rank 0."""

import hashlib

import torch
import torch.distributed as dist
from ranks import on_ranks


def ring_all_reduce(tensor, rank, size, look=lambda *seen: None):
    """Sums `tensor` over ranks 0 to ``size - 1`` in place; returns how many bytes this rank sent."""
    chunks = torch.tensor_split(tensor, size)  # views; uneven where `size` does not divide
    right, left, sent = (rank + 1) % size, (rank - 1) % size, 0
    for step in range(2 * (size - 1)):
        reducing = step < size - 1
        turn = step if reducing else step - size  # the second half begins with the chunk that is finished here
        outgoing, incoming = chunks[(rank - turn) % size], chunks[(rank - turn - 1) % size]
        arrived = torch.empty_like(incoming)
        sending = dist.isend(outgoing, right)
        dist.recv(arrived, left)
        sending.wait()
        sent += outgoing.nbytes
        incoming.copy_(incoming + arrived if reducing else arrived)
        look(step, (rank - turn) % size)
    return sent


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
    sent = ring_all_reduce(ring, rank.rank, size)
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


def story(rank, few):
    """Returns after each step which chunk was sent and what each chunk holds: a 1 in the decimal place of each rank."""
    tensor = torch.full((few,), 10**rank.rank)
    seen = []

    def look(step, chunk):
        seen.append({"sent": chunk, "holds": [part[0].item() for part in torch.tensor_split(tensor, rank.world_size)]})

    ring_all_reduce(tensor, rank.rank, rank.world_size, look)
    return seen


def everything(rank, sizes, elements, few, odd):
    return {"runs": {size: compare(rank, size, elements, odd) for size in sizes}, "story": story(rank, few)}


def measure(sizes, elements, few, odd):
    ranks = on_ranks(everything, max(sizes), sizes, elements, few, odd)
    runs = {size: [rank["runs"][size] for rank in ranks[:size]] for size in sizes}
    steps = [
        {
            "sent": [rank["story"][step]["sent"] for rank in ranks],
            "holds": [rank["story"][step]["holds"] for rank in ranks],
        }
        for step in range(len(ranks[0]["story"]))
    ]
    return {"runs": runs, "story": steps}
