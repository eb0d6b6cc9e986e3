"""Writes what one rank did: a trace of its own, beside it the facts and digests by which the ranks are merged."""

import hashlib
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from parity.trace import TraceWriter, quantity_of, write_json

Arrays = dict[str, np.ndarray]
FACTS_FILE = "facts.json"
DIGESTS_FILE = "digests-{:06d}.json"
OF_THE_MODEL = frozenset(["var", "stat", "slot", "ema"])  # rank 0 writes them, of the others a digest is enough


class RankTrace:
    """The folder of one rank, made with its first recorded step.

    Args:
      ranks: folder of all ranks' folders.
      rank: this one.
      world_size: number of ranks.
      facts: dict of JSON values, known so far; may be changed until `close`.
      variables: as `TraceWriter` takes them.
    """

    def __init__(
        self, ranks: str, rank: int, world_size: int, facts: dict[str, Any], variables: Mapping[str, dict[str, Any]]
    ) -> None:
        # With the process's number: a program may train twice, in processes that come one after the other.
        self.folder = os.path.join(ranks, f"rank-{rank:03d}-{os.getpid()}")
        self.facts = {**facts, "rank": rank, "world_size": world_size, "pid": os.getpid(), "began": time.time()}
        self._rank, self.pid = rank, os.getpid()
        self._numbers: list[int] = []
        producer = {"package": "torch_ddp.record", "framework": "torch " + torch.__version__}
        self._writer = TraceWriter(self.folder, producer, {}, variables)
        self._saved = ""
        self.save_facts()

    @property
    def steps(self) -> int:
        """Number of steps that it holds."""
        return len(self._numbers)

    def init(self, tensors: Arrays) -> None:
        """Writes the state before the first step."""
        self._writer.init(tensors)

    def step(self, number: int, tensors: Arrays) -> None:
        """Writes a step, or writes it anew where a second optimizer has stepped in it."""
        whole = {name: value for name, value in tensors.items() if not self._rank or not _of_the_model(name)}
        digests = {name: digest(value) for name, value in tensors.items() if _of_the_model(name)}
        # Before the step's own file: who finds that finds its digests.
        write_json(os.path.join(self.folder, DIGESTS_FILE.format(number)), digests)
        self._writer.step(number, whole)
        if number not in self._numbers:
            self._numbers.append(number)
        self.save_facts()

    def save_facts(self) -> None:
        """Writes the facts where they have changed."""
        text = repr(self.facts)
        # Looked at with every step: a rank that is killed leaves what was known by then.
        if text != self._saved:
            write_json(os.path.join(self.folder, FACTS_FILE), self.facts)
            self._saved = text

    def close(self, enough: bool) -> None:
        """Says that this rank recorded to the end: its own, or because that were all steps that are wanted."""
        self.facts.update(closed=True, enough=enough, step_numbers=self._numbers)
        self.save_facts()


def digest(value: np.ndarray) -> str:
    """Returns a short digest of an array's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(value).data, digest_size=12).hexdigest()


def _of_the_model(name: str) -> bool:
    return quantity_of(name) in OF_THE_MODEL
