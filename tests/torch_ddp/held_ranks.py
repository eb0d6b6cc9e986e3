"""Ranks that live through many tests, since each costs an import of torch: functions are sent to all of them."""

import multiprocessing
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from support.device import put_tensors_there

from torch_ddp.process_group import Rank, process_group

ANSWER_WITHIN = 120.0
COLLECTIVE_WITHIN = 60.0


class HeldRanks:
    """Starts `world_size` ranks of one gloo group; `run` has all of them call a function and returns what each returned."""

    def __init__(self, world_size: int) -> None:
        # A server that has imported torch, and what the first optimizer imports, is forked for each rank.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch._dynamo"])
        self._folder = tempfile.TemporaryDirectory()
        meeting = (Path(self._folder.name) / "meeting").as_uri()
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(world_size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(Rank(rank, rank, world_size), meeting, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function, *arguments) -> list:
        """Returns ``function(rank, *arguments)`` of every rank; raises if one raised or does not answer."""
        for pipe in self._pipes:
            pipe.send((function, arguments))
        answers = []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(ANSWER_WITHIN):
                raise AssertionError(f"rank {rank} did not answer within {ANSWER_WITHIN} s")
            answers.append(pipe.recv())
        failed = [f"rank {rank}:\n{text}" for rank, (ok, text) in enumerate(answers) if not ok]
        if failed:
            raise AssertionError("\n".join(failed))
        return [value for _, value in answers]

    def close(self) -> None:
        """Ends the ranks."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(20)
            if process.is_alive():
                process.kill()
            process.join()
        self._folder.cleanup()


def _serve(rank: Rank, meeting: str, pipe: Connection) -> None:
    put_tensors_there()
    with process_group(rank, "gloo", meeting, COLLECTIVE_WITHIN):
        while True:
            try:
                function, arguments = pipe.recv()
            except EOFError:
                return
            try:
                pipe.send((True, function(rank, *arguments)))
            except Exception:
                pipe.send((False, traceback.format_exc()))
