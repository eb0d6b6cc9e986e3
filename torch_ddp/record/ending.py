"""Ends a rank once all that is wanted is recorded, when the others have come as far."""

import glob
import os
import sys
import threading
import time
from typing import Any

from parity.trace import read_json
from torch_ddp.record.rank_trace import FACTS_FILE

OTHERS_SECONDS = 120.0  # that a rank waits for the others to have recorded as much
UNWIND_SECONDS = 10.0  # for the program's own `finally` blocks
LEAVE_POLL_SECONDS = 0.05


class Enough(SystemExit):
    """Unwinds a program of which enough is recorded; as an exit with code 0, launchers take it for the end it is."""


def leave(ranks: str, world_size: int) -> None:
    """Ends this process with exit code 0, once every rank has recorded enough."""
    # A rank that left at once would close its connections, in which others may still wait for its part of a collective.
    end = time.monotonic() + OTHERS_SECONDS
    while closed_ranks(ranks) < world_size and time.monotonic() < end:
        time.sleep(LEAVE_POLL_SECONDS)
    # SystemExit ends a thread alone: the process would go on without it.
    if threading.current_thread() is not threading.main_thread():
        end_now()
    # Raised in the middle of a step, it runs through the program's handlers, which may wait for ranks that leave as
    # well.
    watch = threading.Timer(UNWIND_SECONDS, end_now)
    watch.daemon = True
    watch.start()
    raise Enough(0)


def end_now(*arguments: Any) -> None:
    """Ends this process at once, whatever it waits for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def closed_ranks(ranks: str) -> int:
    """Returns how many ranks have recorded enough."""
    return sum(1 for path in glob.glob(os.path.join(glob.escape(ranks), "*", FACTS_FILE)) if _is_closed(path))


def _is_closed(path: str) -> bool:
    return bool(read_json(path).get("enough"))
