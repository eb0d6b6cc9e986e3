"""Ranks for the lessons: as `torch_ddp.spawn`, but forked, which is fast, and with what every rank returned."""

import multiprocessing
import tempfile
import traceback
from pathlib import Path

from torch_ddp import Rank, process_group

WITHIN = 60.0  # seconds


def on_ranks(function, world_size, *arguments):
    """Calls ``function(rank, *arguments)`` in `world_size` processes of one gloo group; returns their answers by rank."""
    context = multiprocessing.get_context("fork")
    pipes, processes = [], []
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        try:
            for number in range(world_size):
                ours, theirs = context.Pipe(duplex=False)
                rank = Rank(number, number, world_size)
                process = context.Process(
                    target=_be_rank, args=(rank, meeting, theirs, function, arguments), daemon=True
                )
                process.start()
                theirs.close()
                pipes.append(ours)
                processes.append(process)
            return _answers(pipes)
        finally:
            for process in processes:
                process.join(5)
                process.kill()
                process.join()


def _answers(pipes):
    answers, failures = [], []
    for number, pipe in enumerate(pipes):
        if not pipe.poll(WITHIN):
            raise TimeoutError(f"rank {number}: expected an answer within {WITHIN:g} s, got none. Look where it waits.")
        good, answer = pipe.recv()
        (answers if good else failures).append(answer)
    if failures:
        raise RuntimeError("\n".join(failures))
    return answers


def _be_rank(rank, meeting, pipe, function, arguments):
    try:
        with process_group(rank, "gloo", meeting, WITHIN):
            answer = function(rank, *arguments)
        pipe.send((True, answer))
    except Exception:
        pipe.send((False, f"rank {rank.rank}:\n{traceback.format_exc()}"))
