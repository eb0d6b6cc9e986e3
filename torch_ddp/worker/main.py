"""Plays the torch side of a case: imports torch once, forks the ranks from there, and passes requests on to them.

This process runs no op of its own, so that its forks start from a torch that is imported and otherwise untouched.
"""

import contextlib
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from parity.worker.parent import die_with_parent
from parity.worker.protocol import (
    FOLDER_VARIABLE,
    PROTOCOL_VERSION,
    Channel,
    SideError,
    claim_standard_streams,
    serve,
)
from torch_ddp.process_group import Rank, import_what_ddp_imports, keep_to_this_machine, process_group
from torch_ddp.worker.rank import RankServer

# Seconds that a rank waits for the others in one collective, in place of gloo's own 30 minutes.
COLLECTIVE_TIMEOUT = 120.0
# Seconds for the word of the rank that failed first to arrive behind that of one that lost it.
SETTLE_SECONDS = 0.3
CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)  # the rank's own doing


class Ranks:
    """Forks `world_size` ranks of one process group and asks them all the same; closing ends them.

    Args:
      world_size: number of ranks.
      backend: "gloo" or "nccl".
      threads: of each rank's ops.
    """

    def __init__(self, world_size: int, backend: str, threads: int = 1) -> None:
        self.world_size = world_size
        self.backend = backend
        self.threads = threads
        # For the file by which ranks meet: a port of the machine could be taken, and needs a network.
        self._folder = tempfile.mkdtemp(prefix="ranks-", dir=os.environ.get(FOLDER_VARIABLE))
        self._pids: list[int] = []
        self._channels: list[Channel] = []
        self._files: list[Any] = []
        import_what_ddp_imports()  # once, not in every rank
        for rank in range(world_size):
            self._fork(rank)

    def ask(self, message: dict[str, Any], progress: Any) -> Any:
        """Sends a request to every rank and returns rank 0's answer when all have answered.

        Raises:
          SideError: a rank raised, or died; the others are ended too.
        """
        for channel in self._channels:
            with contextlib.suppress(BrokenPipeError):
                channel.send(message)
        answers: dict[int, Any] = {}
        failures: dict[int, dict[str, Any]] = {}
        # All at once and in no order: whichever rank fails is heard, while the others wait for it in a collective.
        selector = selectors.DefaultSelector()
        for rank, (reader, _) in enumerate(self._files):
            selector.register(reader, selectors.EVENT_READ, rank)
        try:
            while len(answers) < self.world_size and not failures:
                for key, _ in selector.select():
                    self._take(key.data, answers, failures, progress)
            if failures:
                # A rank that fails pulls the others down with it: what they say then is no news.
                for key, _ in selector.select(SETTLE_SECONDS):
                    if key.data not in failures:
                        self._take(key.data, answers, failures, progress)
        finally:
            selector.close()
        if failures:
            self.close()
            described = failures[min(failures, key=lambda rank: (_blame(failures[rank]), rank))]
            raise SideError(described["message"], described)
        return answers[0]

    def close(self) -> None:
        """Ends all ranks and waits for them."""
        for reader, writer in self._files:
            for file in (reader, writer):
                with contextlib.suppress(OSError):
                    file.close()
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                # SIGKILL: a rank that waits in a collective runs no Python, and no handler of a milder signal.
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids, self._files, self._channels = [], [], []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, rank: int, answers: dict[int, Any], failures: dict[int, dict[str, Any]], progress: Any) -> None:
        reply = self._channels[rank].receive()
        if reply is None:
            message = self._obituary(rank)
            failures[rank] = {
                "type": "SideError",
                "message": message,
                "traceback": "",
                "plain": True,
                "died": True,
                "rank": rank,
            }
        elif "error" in reply:
            failures[rank] = {**reply["error"], "rank": rank}
        elif "result" in reply:
            answers[rank] = reply["result"]
        # Of one rank alone: all make the same steps.
        elif rank == 0:
            progress(*reply["progress"])

    def _fork(self, rank: int) -> None:
        request_reader, request_writer = os.pipe()
        reply_reader, reply_writer = os.pipe()
        # Forked and not started: torch takes seconds to import, and once is enough for all ranks.
        pid = os.fork()
        if pid == 0:
            for reader, writer in self._files:
                reader.close()
                writer.close()
            os.close(request_writer)
            os.close(reply_reader)
            self._be_rank(rank, os.fdopen(request_reader, "rb"), os.fdopen(reply_writer, "wb"))
        os.close(request_reader)
        os.close(reply_writer)
        # Without a buffer: select() sees what is in the pipe, and not what a buffer took out of it already.
        files = (os.fdopen(reply_reader, "rb", buffering=0), os.fdopen(request_writer, "wb"))
        self._pids.append(pid)
        self._files.append(files)
        self._channels.append(Channel(*files))

    def _be_rank(self, rank: int, reader: Any, writer: Any) -> None:
        status = 1
        try:
            # A parent that is killed cannot end its ranks, which would wait in a collective for good.
            die_with_parent()
            channel = Channel(reader, writer)
            keep_to_this_machine()
            meeting = (Path(self._folder) / "meeting").as_uri()
            who = Rank(rank, rank, self.world_size)
            # A rank that ends without destroying its group may abort at exit, in threads of gloo's.
            with process_group(who, self.backend, meeting, COLLECTIVE_TIMEOUT):
                serve(channel, RankServer(who, self.backend, self.threads).handlers())
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            # No exit handlers: they are the parent's, and gloo's threads may abort the process in them.
            os._exit(status)

    def _obituary(self, rank: int) -> str:
        pid, status = self._pids[rank], 0
        # 5 seconds: its pipe closes before the process is gone, which dumps its core first, say.
        for _ in range(50):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                break
            time.sleep(0.1)
        else:
            return f"expected rank {rank} to answer, got a closed channel. Look above for why, and run again."
        if os.WIFSIGNALED(status):
            killer = signal.Signals(os.WTERMSIG(status))
            how = f"it was killed by {killer.name}"
            cure = (
                "Look above for why" if killer in CRASHES else "Look for memory limits or whoever ends processes here"
            )
        else:
            how = f"it ended with status {os.WEXITSTATUS(status)}"
            cure = "Look above for why"
        return f"expected rank {rank} of {self.world_size} to answer, but {how}. {cure}, and run again."


def _blame(described: dict[str, Any]) -> int:
    """Returns 0 for a rank that died, 1 for one whose own code failed, 2 for one that lost the others."""
    if described.get("died"):
        return 0
    text = described["message"]
    lost = described["type"].startswith("Dist") or any(word in text for word in ("gloo", "NCCL", "closed by peer"))
    return 2 if lost else 1


class Side:
    """Serves the requests of one comparison after the other."""

    def __init__(self) -> None:
        self._ranks: Ranks | None = None

    def handlers(self) -> dict[str, Any]:
        """Returns the table of requests."""
        return {
            "hello": self.hello,
            "prepare": self.prepare,
            "run": self.run,
            "forward": self.forward,
            "train": self.train,
        }

    def hello(self, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        """Answers with the version."""
        return {"framework": "torch " + torch.__version__, "protocol": PROTOCOL_VERSION}

    def prepare(self, arguments: dict[str, Any], progress: Any) -> Any:
        """Has every rank build the port; forks new ranks where their number, backend or threads change."""
        case = arguments["case"]
        asked = (case["ranks"], case["backend"], case.get("threads", 1))
        if self._ranks and (self._ranks.world_size, self._ranks.backend, self._ranks.threads) != asked:
            self.close()
        if self._ranks is None:
            self._ranks = Ranks(*asked)
        return self._ask({"request": "prepare", **arguments}, progress)

    def run(self, arguments: dict[str, Any], progress: Any) -> Any:
        """Has every rank run the same steps; rank 0 leaves the trace."""
        return self._ask({"request": "run", **arguments}, progress)

    def forward(self, arguments: dict[str, Any], progress: Any) -> Any:
        """Has every rank make the same step; one of them leaves its forward pass."""
        return self._ask({"request": "forward", **arguments}, progress)

    def train(self, arguments: dict[str, Any], progress: Any) -> Any:
        """Has every rank run the same program's training; rank 0 leaves the trace."""
        return self._ask({"request": "train", **arguments}, progress)

    def close(self) -> None:
        """Ends the ranks."""
        if self._ranks:
            self._ranks.close()
        self._ranks = None

    def _ask(self, message: dict[str, Any], progress: Any) -> Any:
        if self._ranks is None:
            raise SideError("expected 'prepare' before 'run'. Prepare the case again.")
        try:
            return self._ranks.ask(message, progress)
        except SideError:
            self._ranks = None
            raise


def main() -> None:
    """Serves requests on the standard streams until they end."""
    channel = claim_standard_streams()
    side = Side()
    try:
        serve(channel, side.handlers())
    finally:
        side.close()


if __name__ == "__main__":
    main()
