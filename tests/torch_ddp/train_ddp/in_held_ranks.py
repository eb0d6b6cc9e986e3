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

from torch_ddp import Rank, amp

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
    options = train.make_parser("", train.PRECISIONS).parse_args([str(word) for word in words])
    train.check_options(options)
    return options


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
    made = []
    with trainer() as train:
        assemble = train.assemble

        def assembled(*arguments: Any) -> Any:
            training = assemble(*arguments)
            made.append(training)
            for name in [name for name in training.checkpoints._parts if forgets and name.startswith(forgets)]:
                del training.checkpoints._parts[name]
            return training

        train.assemble = assembled
        try:
            train.train(rank, parsed(train, *words))
        finally:
            train.assemble = assemble
    return {name: value.tolist() for name, value in made[0].model.module.named_parameters()}


def statistics_after_an_update(rank: Rank, words: list[Any]) -> dict[str, list]:
    """Makes one update, and returns this rank's moving statistics, before any rank takes another's."""
    with trainer() as train:
        training = train.assemble(rank, parsed(train, *words))
        training.sampler.set_epoch(0, 0)
        train.update(training.model, training.precision, [next(iter(training.loader))], "at update 1")
    return {name: value.tolist() for name, value in training.model.module.named_buffers() if "running" in name}
