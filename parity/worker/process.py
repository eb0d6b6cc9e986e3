"""One side of a comparison as a child process that answers requests."""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, BinaryIO, cast

from parity.worker.failures import SideFailed, failure, last_lines, last_words, task_of, telling_stacks
from parity.worker.protocol import PROTOCOL_VERSION, Channel, fault_of_reply

Progress = Callable[[int, int], None]
FOLLOWING = ("initialize", "run", "forward", "train")  # requests that need what an earlier one made
LOG_LINES = 15  # with what is said around them an error stays within the 40 lines that a message may have
STACK_LINES = 40
STACK_SECONDS = 0.3  # for one process to print its stacks, before the next one prints into the same log
CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)  # the process's own doing
GRACE_SECONDS = 0.2  # an idle child ends by itself when its requests end; one in the middle of a step is not waited for
POLL_SECONDS = 0.5  # after so long a wait hears that it is to end, or that another side has failed


def fail_together(*sides: "SideProcess") -> None:
    """Lets the first failure of any of these sides end what the others are asked, now and later, with that failure.

    For a single run, which is lost with any of them: nobody should wait for a long answer to hear of an early failure.
    """
    for side in sides:
        side.companions = [other for other in sides if other is not side]


class SideProcess:
    """Starts a side, passes it requests one after the other, and ends it with everything that it started.

    Args:
      side: "tf", "torch" or "data"; used in messages.
      command: the program and its arguments.
      environment: the child's whole environment.
      log: file that takes everything the child prints.
      silence: seconds without an answer or a sign of progress after which the child is ended.
      greets: whether its answer to "hello" has to name our version of the protocol before it is asked anything else.

    Raises:
      SideFailed: the program cannot be started.
    """

    def __init__(
        self,
        side: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        silence: float,
        greets: bool = False,
    ) -> None:
        self.side = side
        self._log = log
        self._silence = silence
        self._to_greet = greets
        # Who sets these: the worker thread `_failures`, `_broken` and `_abandoned` of its own side, the threads of the
        # companions `_lost`, whoever asks `_closing`. Each is a single assignment or append, and is read anew at every
        # turn.
        self._closing = threading.Event()
        self._failures: list[SideFailed] = []
        self._broken: SideFailed | None = None
        self._lost: SideFailed | None = None
        self._abandoned = False
        self._unread = ""  # the request whose answer nobody has read, for a companion had failed
        self.companions: list[SideProcess] = []
        self._asked: list[Future[Any]] = []
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,  # a file and no pipe: nobody has to read it for the child to go on
                    env=dict(environment),
                    bufsize=0,  # what a buffer had read already, a selector would wait for
                    start_new_session=True,  # a group of its own: ranks and data loaders are ended with it; ^C is ours
                )
            except OSError as error:
                raise SideFailed(
                    side,
                    f"expected to start the interpreter {command[0]}, got: {error.strerror}. "
                    "Name one that runs, e.g. with --tf-python.",
                ) from error
        self._requests = cast("BinaryIO", self._process.stdin)
        self._replies = cast("BinaryIO", self._process.stdout)
        self._channel = Channel(self._replies, self._requests)
        # One thread: requests are sent and answered in the order in which they were asked, one at a time.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=side)

    @property
    def pid(self) -> int:
        """The process id of the child, which is also that of its process group."""
        return self._process.pid

    @property
    def lost(self) -> bool:
        """Whether the side has failed, and answers nothing any more."""
        return self._lost is not None

    def ask(self, request: str, on_progress: Progress | None = None, **arguments: Any) -> "Future[Any]":
        """Sends a request; the future gives the side's answer, or raises `SideFailed`."""
        # How many failures were known when this was asked: what was asked before one follows from it, what comes later
        # was asked by somebody who has heard of it.
        answer = self._worker.submit(self._ask_unless_failed, len(self._failures), request, arguments, on_progress)
        self._asked = [other for other in self._asked if not other.done()] + [answer]
        return answer

    def outlive_failure(self) -> None:
        """Has this side serve again though one that it fails together with has failed.

        For whoever has heard of that failure and goes on without what was asked, as with an experiment that a port does not
        take. A side that was in the middle of an answer stays lost: nobody has read that.
        """
        if not self._abandoned:
            self._lost = None

    def catch_up(self) -> None:
        """Has this side serve again even from the middle of an answer, which is waited for, and dropped.

        For whoever has heard of a companion's failure and begins anew; nothing else may be asked of it meanwhile.
        """
        request, self._unread = self._unread, ""
        if request:
            self._abandoned, self._lost = False, None
            with contextlib.suppress(SideFailed):  # what is wrong with it then shows when it is asked anew
                self._reply(request, None)
        self.outlive_failure()

    def settle(self) -> None:
        """Drops what it has been asked and has not begun, and waits for what it is about.

        For whoever gives up before every answer is there: afterwards nothing is written any more, and whatever still goes
        wrong has gone wrong before the side is asked anew.
        """
        for answer in self._asked:
            answer.cancel()
        wait(self._asked)

    def hang_up(self) -> None:
        """Has the child end by itself, and does not wait for it; for whoever closes several."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._requests.close()

    def close(self) -> None:
        """Ends the child and every process of its group, and waits for them."""
        if self._replies.closed:  # the last thing that is done here
            return
        # Who ends whom: the child ends when its requests do. SIGKILL to its group is for a child that does not, and for
        # what it has started and left; they are reaped by init, the child by nobody but this process.
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()
        # Only now: a pipe that is closed while the worker waits for it never wakes it.
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._replies.close()

    def _ask_unless_failed(
        self, failures: int, request: str, arguments: dict[str, Any], on_progress: Progress | None
    ) -> Any:
        # What a side says after it has failed follows from that, until it is asked to begin anew.
        if self._lost:
            raise self._lost
        if len(self._failures) > failures:
            raise self._failures[-1]
        if self._broken and request in FOLLOWING:
            raise self._broken
        try:
            answer = self._ask(request, arguments, on_progress)
            if request not in FOLLOWING:
                self._broken = None
            return answer
        except SideFailed as error:
            self._broken = error
            self._failures.append(error)
            for other in self.companions:
                other._lost = other._lost or error
            raise

    def _ask(self, request: str, arguments: dict[str, Any], on_progress: Progress | None) -> Any:
        if self._to_greet:
            self._greet(request)
        self._send(request, arguments)
        return self._reply(request, on_progress)

    def _greet(self, request: str) -> None:
        # With the first request and not at the start: importing a framework takes seconds, which sides spend side by
        # side. What goes wrong then is reported of what the side was asked.
        self._send("hello", {})
        greeting = self._reply(request, None)
        version = greeting.get("protocol", 1) if isinstance(greeting, dict) else greeting
        if version != PROTOCOL_VERSION:
            raise SideFailed(
                self.side,
                f"expected version {PROTOCOL_VERSION} of the protocol, got {version}: parity and its worker are of "
                "different versions. Install one version of tower-parity in both interpreters.",
            )
        self._to_greet = False

    def _send(self, request: str, arguments: dict[str, Any]) -> None:
        # A child that has ended may still have left an answer that says why.
        with contextlib.suppress(OSError, ValueError):
            self._channel.send({"request": request, **arguments})

    def _reply(self, request: str, on_progress: Progress | None) -> Any:
        while True:
            self._wait_for_reply(request)
            reply = self._receive()
            if reply is None:
                raise self._dead(request)
            fault = fault_of_reply(reply)
            if fault:
                raise SideFailed(
                    self.side,
                    f"expected {fault} in answer to {request!r}, got {str(reply)[:80]!r}. Install parity anew.",
                )
            if "result" in reply:
                return reply["result"]
            if "error" in reply:
                raise failure(self.side, request, reply["error"], last_words(self._log, LOG_LINES))
            if on_progress:
                on_progress(*reply["progress"])

    def _wait_for_reply(self, request: str) -> None:
        # Anew for each line: a run may take hours, but no step of it longer than `silence` seconds.
        deadline = time.monotonic() + self._silence
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while not selector.select(min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
                if self._lost:
                    # An answer will come that nobody reads: the channel is of no use any more, but for `catch_up`.
                    self._abandoned, self._unread = True, request
                    raise self._lost
                if self._closing.is_set():
                    raise SideFailed(self.side, f"expected {task_of(request)}, but it was ended. Run again.")
                if time.monotonic() >= deadline:
                    raise self._silent(request)

    def _receive(self) -> Any:
        try:
            return self._channel.receive()
        except (OSError, ValueError):
            return None  # a line cut short: its writer ended in the middle of it

    def _silent(self, request: str) -> SideFailed:
        start = self._log.stat().st_size
        for pid in self._members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGUSR1)  # has it print where it is; one at a time, for they share the log
            time.sleep(STACK_SECONDS)
        # The child is stuck in a collective or a loop: it will not answer what comes next either.
        self._signal(signal.SIGKILL)
        stacks = telling_stacks(last_lines(self._log, 1000, start))
        printed = "\n".join(stacks.splitlines()[:STACK_LINES]) or last_lines(self._log, LOG_LINES)
        # It was this process that ended it: what is asked later fails by this reason, and not by the signal.
        self._abandoned = True
        self._lost = SideFailed(
            self.side,
            f"expected a heartbeat within {self._silence:g} s of {request!r}, got none; it was ended. "
            "Look above for where it hung, or allow more with --timeout.",
            printed=printed,
            hung=True,
        )
        return self._lost

    def _dead(self, request: str) -> SideFailed:
        # Its channel ends a moment before the process does; 5 s, for writing a core file takes its time.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        status = self._process.returncode
        if status is None:
            how = "closed its channel"
        elif status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        printed = last_words(self._log, LOG_LINES)
        cure = "Look above for why" if printed else "It printed nothing; try its interpreter manually"
        if status and status < 0 and -status not in CRASHES:
            cure = "Look for memory limits or whoever ends processes here"
        self._abandoned = True  # there is nobody left to ask
        self._lost = SideFailed(
            self.side,
            f"expected {task_of(request)}, but its process {how}. {cure}, and run again.",
            printed=printed,
        )
        return self._lost

    def _members(self) -> list[int]:
        """Returns the process ids of the side's group; its leader alone where there is no /proc to look in."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # The name in brackets may hold blanks and brackets itself; behind the last one: state, parent, group.
                state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
                if int(group) == self.pid and state != "Z":
                    found.append(int(stat.parent.name))
        return sorted(found) or [self.pid]

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
