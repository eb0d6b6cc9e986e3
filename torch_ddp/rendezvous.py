"""Lets the ranks of one start meet in a store that still holds what the ranks of earlier starts have left there.

torchrun keeps one store over all its restarts. A rank that looks up its peer's address finds the dead one's if it comes
first, connects to nobody, or to a stranger, and hangs (pytorch issues 135712 and 167288; measured with gloo on torch
2.13: three restarts in seven). Nor can restarts be told apart by number: each machine's torchrun counts its own.
"""

import os
import time
import uuid
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store

from torch_ddp.errors import TorchDdpError

# Seconds between two looks; the store has no way to wait for one key of several.
PAUSE = 0.005


def shares_store_over_restarts() -> bool:
    """Returns whether torchrun keeps the store that ranks meet in, from one start to the next."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def fresh_store(store: Store, rank: int, world_size: int, timeout: float) -> Store:
    """Returns a part of a store that only the ranks of this start know of.

    Every other rank leaves a word that nobody has used before, and goes on when rank 0 has answered that very word. An
    answer to a dead rank's word is read by nobody.

    Args:
      store: what all ranks of this start, and earlier ones, see.
      rank: this one, 0 to ``world_size - 1``.
      world_size: number of ranks.
      timeout: seconds to wait for the others.

    Raises:
      TorchDdpError: some rank did not come in time.
    """
    token = _invite(store, world_size, timeout) if rank == 0 else _ask(store, rank, timeout)
    return PrefixStore(f"start/{token}", store)


def _ask(store: Store, rank: int, timeout: float) -> str:
    # 122 random bits: no word of an earlier start, and no answer to one, is ever this one.
    word = uuid.uuid4().hex
    store.set(f"word/{rank}", word)
    try:
        store.wait([f"answer/{word}"], timedelta(seconds=timeout))
    except dist.DistError as error:
        raise TorchDdpError(_nobody([0], timeout)) from error
    token: str = store.get(f"answer/{word}").decode()
    # Only now does rank 0 count this rank: an answer that a dead one never read is not enough.
    store.set(f"here/{token}/{rank}", word)
    return token


def _invite(store: Store, world_size: int, timeout: float) -> str:
    token = uuid.uuid4().hex
    # missing: ranks of this start that rank 0 has not seen; answered: words that have their answer, a dead rank's
    # too. Each pass answers what is new, so that a live rank's word is answered whichever words came before it.
    missing, answered = set(range(1, world_size)), set()
    deadline = time.monotonic() + timeout
    while missing:
        for rank in sorted(missing):
            if store.check([f"here/{token}/{rank}"]):
                missing.discard(rank)
            elif store.check([f"word/{rank}"]) and (word := store.get(f"word/{rank}").decode()) not in answered:
                store.set(f"answer/{word}", token)
                answered.add(word)
        if missing and time.monotonic() > deadline:
            raise TorchDdpError(_nobody(sorted(missing), timeout))
        time.sleep(PAUSE if missing else 0)
    return token


def _nobody(ranks: list[int], timeout: float) -> str:
    return (
        f"group: expected ranks {ranks} to come within {timeout:g} seconds, got no sign of them. "
        "See that they were started, or raise the time-out."
    )
