"""Has a child process end with its parent; it imports nothing that a legacy interpreter may lack (Python 3.6 and up)."""

import ctypes
import os
import signal
import threading
import time
from typing import Optional

WATCH_SECONDS = 0.5  # between two looks for the parent, where the kernel does not tell of its end


def die_with_parent(parent: Optional[int] = None) -> None:
    """Has this process killed when its parent ends, however that ends.

    Args:
      parent: its process id, where it is known from elsewhere: it may be gone already; by default whose child this is.
    """
    parent = os.getppid() if parent is None else parent
    try:
        # PR_SET_PDEATHSIG of prctl(2). The parent is the thread that started this process, and not its process: whoever
        # starts one has to be a thread that lives as long.
        set_parent_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, int(signal.SIGKILL))
        # It may have ended before, and nothing is told of that.
        if os.getppid() != parent:
            os._exit(1)
    except (AttributeError, TypeError, OSError):  # no Linux
        threading.Thread(target=_watch_parent, args=[parent], daemon=True).start()


def _watch_parent(parent: int) -> None:
    # A process whose parent ends gets another one.
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)
