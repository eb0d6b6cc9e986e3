"""Ranks that stay alive over many tests: each is sent functions of test modules and answers with arrays."""

import multiprocessing
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLLECTIVE_SECONDS = 20.0
ANSWER_SECONDS = 90.0


class RankFailure(AssertionError):
    """A rank raised; the message holds its traceback."""


class RankPool:
    """Processes joined in one process group, for as long as all of them answer."""

    def __init__(self, world_size: int, backend: str = "gloo") -> None:
        self.world_size = world_size
        self._backend = backend
        self._processes: list[Any] = []
        self._pipes: list[Any] = []

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Returns ``function(rank, *arguments)`` of every rank, tensors as arrays; starts the ranks where need be."""
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((function, arguments))
        answers = [self._answer(rank, pipe) for rank, pipe in enumerate(self._pipes)]
        failed = [f"rank {rank}:\n{text}" for rank, (text, _) in enumerate(answers) if text]
        if failed:
            self.close()  # the others may be waiting for it in a collective
            raise RankFailure("\n".join(failed))
        return [value for _, value in answers]

    def close(self) -> None:
        """Ends the ranks, by force those that do not end by themselves."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join(timeout=20)
            process.close()
        self._processes, self._pipes = [], []
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        meeting = Path(self._folder.name, "meeting").as_uri()
        for rank in range(self.world_size):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, rank, self.world_size, meeting, self._backend))
            process.daemon = True
            process.start()
            there.close()
            self._processes.append(process)
            self._pipes.append(here)

    def _answer(self, rank: int, pipe: Any) -> tuple[str, Any]:
        try:
            if pipe.poll(ANSWER_SECONDS):
                return pipe.recv()
        except EOFError:
            return "the process has ended", None
        return f"no answer after {ANSWER_SECONDS:.0f} seconds", None


def _serve(pipe: Any, rank: int, world_size: int, meeting: str, backend: str) -> None:
    import torch
    from support.device import put_tensors_there

    from torch_ddp.process_group import Rank, process_group

    torch.set_num_threads(1)
    put_tensors_there()
    with process_group(Rank(rank, rank, world_size), backend, meeting, COLLECTIVE_SECONDS) as who:
        while True:
            try:
                function, arguments = pipe.recv()
            except EOFError:
                return
            pipe.send(_called(function, who, arguments))


def _called(function: Callable[..., Any], who: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    import torch

    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return "", _plain(function(who, *arguments))
    except Exception:
        return traceback.format_exc(), None


def _plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
