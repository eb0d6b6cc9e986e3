"""Runs the example trainer inside ranks that live on: functions for `HeldRanks.run`, without a start of their own."""

import argparse
import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from torch_ddp import Checkpoints, Rank, amp

FOLDER = Path(__file__).parents[3] / "examples" / "train_ddp"


@contextlib.contextmanager
def trainer() -> Iterator[ModuleType]:
    """Gives the module `train`, and leaves no setting of it behind for other tests."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("train")
    finally:
        sys.path.remove(str(FOLDER))
        amp.deactivate()
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


def parsed(train: ModuleType, *words: Any) -> argparse.Namespace:
    options = train.make_parser("").parse_args([str(word) for word in words])
    train.check_options(options)
    return options


@contextlib.contextmanager
def checkpoints_of(train: ModuleType, forgets: str = "") -> Iterator[list[Checkpoints]]:
    """Gives the list of checkpoints that the trainer makes in the block, which hold all that it trains.

    Args:
      train: the module.
      forgets: beginning of the names of parts that they do not hold.
    """
    listed: list[Checkpoints] = []

    def noted(folder: Path, rank: Rank, parts: dict[str, Any], *others: Any, **named: Any) -> Checkpoints:
        held = {name: part for name, part in parts.items() if not (forgets and name.startswith(forgets))}
        listed.append(Checkpoints(folder, rank, held, *others, **named))
        return listed[-1]

    train.Checkpoints = noted
    try:
        yield listed
    finally:
        train.Checkpoints = Checkpoints


def trained(rank: Rank, words: list[Any], own_folder: bool = False, forgets: str = "") -> dict[str, list]:
    """Trains, and returns this rank's weights.

    Args:
      rank: this process.
      words: the command line; the last is the folder.
      own_folder: gives each rank a folder of its own in that one, named after its number.
      forgets: beginning of the names of parts that this trainer's checkpoints do not hold.
    """
    if own_folder:
        words = [*words[:-1], Path(words[-1]) / str(rank.rank)]
    with trainer() as train, checkpoints_of(train, forgets) as listed:
        train.train(rank, parsed(train, *words))
    return {name: value.tolist() for name, value in listed[0]._parts["model"].named_parameters()}


def statistics_after_an_update(rank: Rank, words: list[Any]) -> dict[str, list]:
    """Makes one update, and returns this rank's moving statistics, before any rank takes another's."""
    with trainer() as train, checkpoints_of(train) as listed:
        measure = train.measure
        train.measure = lambda task, model, rank, device: {task.best: 0.0}
        try:
            train.train(rank, parsed(train, "--steps", 1, *words))
        finally:
            train.measure = measure
    return {name: value.tolist() for name, value in listed[0]._parts["model"].named_buffers() if "running" in name}
