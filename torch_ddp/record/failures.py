"""Has the parent of a launched program know at once of what goes wrong in a rank."""

import faulthandler
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from parity.trace import write_json
from parity.worker.program_request import ProgramRequest
from parity.worker.protocol import describe_error
from torch_ddp.record.stand_in import StandIn

REFUSED_FILE = "refused-{}.json"

F = TypeVar("F", bound=Callable[..., Any])


def telling(method: F) -> F:
    """Has the parent know at once of whatever a method raises: the other ranks would wait for this one until it gives up."""

    @functools.wraps(method)
    def reporting(self: StandIn, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:
            leave_error(self.request, error)
            raise

    return reporting  # type: ignore[return-value]


def leave_error(request: ProgramRequest, error: BaseException) -> None:
    """Leaves an error for the parent, unless this process has left one that it follows from."""
    path = os.path.join(request.ranks, REFUSED_FILE.format(os.getpid()))
    # The first is the cause: a hook that raises ends the process by the same exception, or by one that follows from it.
    if not os.path.exists(path):
        write_json(path, describe_error(error))


def report_to_parent(request: ProgramRequest) -> None:
    """Has the parent know of an exception that ends this process, and print where it is when it gets SIGUSR1.

    What a launcher prints of an exception may be its own end alone.
    """
    # In C, without waiting for the interpreter: a rank that waits in a collective never comes back to Python.
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    before = sys.excepthook

    def leave(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        # KeyboardInterrupt and the SystemExit of `ending` are no failures.
        if issubclass(kind, Exception):
            leave_error(request, error)
        before(kind, error, traceback)

    sys.excepthook = leave
