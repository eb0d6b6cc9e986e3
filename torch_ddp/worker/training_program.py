"""Runs the `train` of a program on recorded batches, and keeps the weights, slots and statistics after each update."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from parity.trace import GLOBAL_STEP, Trace, TraceWriter, batch_input, quantity_of
from parity.worker.protocol import SideError
from parity.worker.user_code import UserCode
from torch_ddp.facts import describe_variables
from torch_ddp.gather import ranks_agree
from torch_ddp.process_group import Rank
from torch_ddp.shard import shard
from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.optimizer import round_hyper_parameters, round_momenta
from torch_ddp.step.training_state import TrainingState
from torch_ddp.worker.replay_random import with_recorded_draws
from torch_ddp.worker.user_schedule import step_without_updates, take_recorded_rate

LEFT_BY_AN_UPDATE = ("var", "slot", "stat")
UNOBSERVED = ("loss", "grad", "clip", "ema", "metric", "eval")  # a program shows its own affairs to nobody


class TrainingProgram:
    """A program as `parity port` writes it, on one rank: `Model()`, `parts_of(model)`, `train(batches, parts, step, save)`.

    Nothing of the program is replaced but where its numbers come from: batches, first weights and draws are recorded ones.

    Args:
      code: loads it.
      rank: which one; its process group is up.
      device: where it trains.
      module: name of the program's module.
    """

    def __init__(self, code: UserCode, rank: Rank, device: torch.device, module: str) -> None:
        self._rank, self._device = rank, device
        self._model, self._parts_of, self._train = (
            code.load(f"{module}:{name}") for name in ("Model", "parts_of", "train")
        )

    def run(self, arguments: dict[str, Any], progress: Any) -> None:
        """Trains, and leaves a trace on rank 0.

        Arguments: `start`, trace whose init holds the state before the first step; `feeds`, whose step k holds the batch of
        step k; `steps`; `precision`; `draws`, whether recorded ones come with the batches; `rounded`, whether
        hyper-parameters are rounded to float32; `rates`, the recorded learning rate of each step; `out`.

        Raises:
          SideError: it makes more or fewer updates than it is given batches.
        """
        dtype = getattr(torch, arguments["precision"])
        torch.manual_seed(0)  # the same on all ranks: what a model draws when it is made is loaded over
        model = self._model().to(self._device, dtype)
        parts = self._parts_of(model)
        make_lazy_state(parts["optimizer"])
        if arguments["rounded"]:
            round_hyper_parameters(parts["optimizer"])
            round_momenta(model)
        begun = _updates(Trace(arguments["start"]).init())
        if "schedule" in parts:
            step_without_updates(parts["schedule"], begun)
            _take_rates(parts["optimizer"], arguments["rates"])
        state = TrainingState(model, parts["optimizer"])
        # What the script has and the recording lacks, as statistics that race, begins as the program makes it.
        own = {text: value for text, value in state.read().items() if quantity_of(text) == "stat"}
        state.load({**own, **_all(Trace(arguments["start"]).init())})
        writer = self._writer(arguments, state)
        steps, agree = arguments["steps"], [True]
        made: list[int] = []

        def save(step: int) -> None:
            made.append(step)
            left = {text: value for text, value in state.read().items() if quantity_of(text) in LEFT_BY_AN_UPDATE}
            # Statistics are each rank's own until DDP sends rank 0's, before the next forward pass.
            common = {text: value for text, value in left.items() if quantity_of(text) != "stat"}
            agree.append(ranks_agree(common, self._rank, self._device))
            if writer and len(made) <= len(steps):
                writer.step(steps[len(made) - 1], left)
            progress(len(made), len(steps))

        self._with_draws(arguments["draws"])(self._batches(arguments, dtype), parts, begun, save)
        if len(made) != len(steps):
            raise SideError(
                f"train: expected {len(steps)} updates for as many batches, each followed by save(step), got {len(made)}. "
                "Make one for each batch."
            )
        if writer:
            writer.close(ranks_agree=all(agree))

    def _batches(self, arguments: dict[str, Any], dtype: torch.dtype) -> Iterator[dict[str, Tensor]]:
        feeds = Trace(arguments["feeds"])
        for number in arguments["steps"]:
            whole = {batch_input(text): self._tensor(value, dtype) for text, value in _all(feeds.step(number)).items()}
            yield shard(whole, self._rank.rank, self._rank.world_size)

    def _tensor(self, value: np.ndarray, dtype: torch.dtype) -> Tensor:
        tensor = torch.from_numpy(np.array(value)).to(self._device)
        return tensor.to(dtype) if tensor.dtype in (torch.float32, torch.float64) else tensor

    def _with_draws(self, draws: bool) -> Callable[..., Any]:
        """The program's `train`, whose loss takes recorded draws out of its batch and draws these."""
        if not draws:
            return self._train

        @functools.wraps(self._train)
        def train(*given: Any) -> Any:
            own: dict[str, Any] = self._train.__globals__
            kept = own["loss"]
            own["loss"] = with_recorded_draws(kept)
            try:
                return self._train(*given)
            finally:
                own["loss"] = kept

        return train

    def _writer(self, arguments: dict[str, Any], state: TrainingState) -> TraceWriter | None:
        if self._rank.rank:
            return None
        producer = {"package": "torch_ddp", "framework": "torch " + torch.__version__}
        facts = {"side": "torch_ddp", "precision": arguments["precision"], "unobserved": list(UNOBSERVED)}
        writer = TraceWriter(arguments["out"], producer, facts, describe_variables(state.trained))
        writer.init({text: value for text, value in state.read().items() if quantity_of(text) in LEFT_BY_AN_UPDATE})
        return writer


def _take_rates(optimizer: Optimizer, rates: list[float]) -> None:
    """Has an optimizer take recorded rates where those of the program's own schedule differ by float32's rounding only."""
    left = iter(rates)

    def before(optimizer: Optimizer, arguments: Any, named: Any) -> None:
        recorded = next(left, None)
        # What is left is no matter of the schedule, and far above what is allowed in float64.
        if recorded is not None:
            take_recorded_rate(optimizer, recorded)

    optimizer.register_step_pre_hook(before)


def _all(file: Any) -> dict[str, np.ndarray]:
    return {text: file.read(text) for text in file.names()}


def _updates(start: Any) -> int:
    """Number of updates before the first step, 0 where that is not recorded."""
    return int(start.read(GLOBAL_STEP)) if GLOBAL_STEP in start else 0
