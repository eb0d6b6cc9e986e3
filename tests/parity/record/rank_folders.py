"""Folders as the ranks of a program leave them, of made arrays."""

import hashlib
import json

import numpy as np

from parity.record.merge import read_ranks
from parity.trace import TraceWriter, quantity_of

SECTION = "section/optimizer/"
RANDOM = np.random.default_rng(0)


def gradients(ranks=2, names=("weight", "bias"), seed=0):
    """Each rank's own gradients."""
    random = np.random.default_rng(seed)
    return [{name: random.normal(size=(3, 2)).astype(np.float32) for name in names} for _ in range(ranks)]


def mean(local):
    return {name: np.mean([each[name] for each in local], axis=0, dtype=np.float32) for name in local[0]}


def tensors_of(rank, local, combined, given=None, clipped=None, feed=None, rate=0.1, var=0.0):
    """What one rank records of a step, without section."""
    found = {f"tower_grad/{rank}/{name}": value for name, value in local.items()}
    found.update((f"grad/{name}", value) for name, value in combined.items())
    found.update((f"clip/{name}", value) for name, value in (given or {}).items())
    found.update((f"tower_clip/{rank}/{name}", value) for name, value in (clipped or {}).items())
    found[f"feed/{rank}/x"] = np.full((4, 2), rank, np.float32) + np.arange(2) if feed is None else feed
    found[f"loss/{rank}"] = np.array(1.0, np.float32)
    found["state/learning_rate"] = np.array(rate)
    found["var/weight"] = np.full(3, var, np.float32)
    return found


def in_section(tensors):
    return {name if name.startswith("var") else SECTION + name: value for name, value in tensors.items()}


def described(rank, ranks, **facts):
    own = {
        "optimizer": {"name": "torch.optim.sgd.SGD"},
        "parameters": ["bias", "weight"],
        "of_no_model": 0,
        "models": {"": "Net"},
    }
    return {
        "rank": rank,
        "world_size": ranks,
        "pid": 1,
        "began": float(rank),
        "wrappers": [],
        "schedules": [],
        "collectives": {},
        "passes": {},
        "autocast": [],
        "precision": "float32",
        "sections": {"optimizer": own},
        "closed": True,
        **facts,
    }


def leave_ranks(folder, steps, facts=({}, {})):
    """Writes the folders of ranks: `steps` is a list over steps of lists over ranks of tensors; returns them as read."""
    ranks = len(facts)
    for rank in range(ranks):
        path = folder / f"rank-{rank:03d}-{100 + rank}"
        writer = TraceWriter(path, {"package": "torch_ddp.record"}, {}, {"weight": {"shape": [3], "dtype": "float32"}})
        writer.init({"var/weight": np.zeros(3, np.float32)})
        numbers = []
        for number, tensors in enumerate(steps):
            if tensors[rank] is None:
                continue
            digests = {
                name: hashlib.sha256(np.ascontiguousarray(value)).hexdigest()
                for name, value in tensors[rank].items()
                if quantity_of(name) in ("var", "slot", "stat")
            }
            (path / f"digests-{number:06d}.json").write_text(json.dumps(digests))
            writer.step(number, in_section(tensors[rank]))
            numbers.append(number)
        own = described(rank, ranks, step_numbers=numbers, **facts[rank])
        (path / "facts.json").write_text(json.dumps(own))
    return read_ranks(str(folder))
