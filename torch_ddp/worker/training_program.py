"""Runs the `train` of a program on recorded batches, and keeps the weights, slots and statistics after each update."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from parity.trace import GLOBAL_STEP, LEARNING_RATE, Trace, TraceWriter, batch_input, quantity_of, trace_name
from parity.worker.protocol import SideError
from parity.worker.user_code import UserCode
from torch_ddp import like_tf
from torch_ddp.facts import describe_variables
from torch_ddp.gather import ranks_agree
from torch_ddp.momenta import round_momenta
from torch_ddp.process_group import Rank
from torch_ddp.record.recorded_draws import with_recorded_draws
from torch_ddp.shard import shard
from torch_ddp.step.gradient_exchange import GradientObserver
from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.learning_rate import take_recorded_rate
from torch_ddp.step.optimizer import round_hyper_parameters
from torch_ddp.step.trace_names import array, named_gradients
from torch_ddp.step.training_state import TrainingState
from torch_ddp.worker.user_schedule import step_without_updates

LEFT_BY_AN_UPDATE = ("var", "slot", "stat")
UNOBSERVED = ("loss", "grad", "clip", "ema", "metric", "eval")  # what a program need not show to anybody
OF_A_RANK = ("stat", "ema")  # what ranks may hold otherwise between two updates: only rank 0's counts


class Section:
    """One optimizer of a program, beside what was recorded of it.

    Args:
      model: that it trains, bare.
      parts: of the program.
      recorded: `suffix`, what names of its functions and parts end with; `start`, trace whose init holds the state before
        its first step; `feeds`, whose step k holds the batch of step k; `steps`, in which it trains; `rounded`, whether
        hyper-parameters are rounded to float32; `rates`, the recorded learning rate of each step; `fed`, whether the
        program takes these; `draws`, whether recorded ones come with the batches; `watch`, "clip" where the script clips,
        else "grad": under which a trace has what the optimizer is given; `out`, where its trace goes.

    Attributes:
      steps: as recorded.
      feeds: as recorded, opened.
    """

    def __init__(self, model: nn.Module, parts: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
        self.steps: list[int] = recorded["steps"]
        self.feeds = Trace(recorded["feeds"])
        self._out = recorded["out"]
        self._writer: TraceWriter | None = None
        optimizer = parts[f"optimizer{recorded['suffix']}"]
        make_lazy_state(optimizer)
        if recorded["rounded"]:
            round_hyper_parameters(optimizer)
            round_momenta(model)
        self._start = _all(Trace(recorded["start"]).init())
        #: Number of updates before its first step, 0 where that is not recorded.
        self.begun = int(self._start.get(GLOBAL_STEP, 0))
        schedule = parts.get(f"schedule{recorded['suffix']}")
        if schedule is not None:
            step_without_updates(schedule, self.begun)
            _take_rates(optimizer, recorded["rates"])
        self.state = TrainingState(model, optimizer)
        self._averages = _averages_of(parts.get(f"averages{recorded['suffix']}"), model)
        # Behind all hooks of the program's: what its optimizer's step begins with.
        self._observer, self._watched = GradientObserver(model, optimizer), recorded["watch"]

    def load(self) -> None:
        """Loads what it starts from; what the script has and the recording lacks begins as the program makes it."""
        own = {text: value for text, value in self.state.read().items() if quantity_of(text) == "stat"}
        self.state.load({**own, **{text: value for text, value in self._start.items() if quantity_of(text) != "ema"}})
        _begin(self._averages, self._start)

    def left(self) -> dict[str, np.ndarray]:
        """Returns weights, their averages, slots and statistics as its update has left them."""
        left = {text: value for text, value in self.state.read().items() if quantity_of(text) in LEFT_BY_AN_UPDATE}
        return {**left, **{text: array(value) for text, value in self._averages.items()}}

    def open(self, precision: str) -> None:
        """Opens its trace, with what it starts from."""
        producer = {"package": "torch_ddp", "framework": "torch " + torch.__version__}
        shown = {self._watched, *map(quantity_of, self._averages)}
        unobserved = [quantity for quantity in UNOBSERVED if quantity not in shown]
        facts = {"side": "torch_ddp", "precision": precision, "unobserved": unobserved}
        self._writer = TraceWriter(self._out, producer, facts, describe_variables(self.state.trained))
        self._writer.init(self.left())

    def write(self, number: int, left: dict[str, np.ndarray]) -> None:
        """Writes what a step has left and what its optimizer was given, where its trace is open."""
        if self._writer:
            self._writer.step(number, {**left, **_given(self._observer, self._watched)})
        self._observer.forget()

    def close(self, ranks_agree: bool) -> None:
        """Closes its trace, where that is open."""
        if self._writer:
            self._writer.close(ranks_agree=ranks_agree)


class TrainingProgram:
    """A program as `parity port` writes it, on one rank: `Model()`, `parts_of(model)`, `train(batches, parts, step, save)`.

    Nothing of the program is replaced but where its numbers come from: batches, first weights and draws are recorded ones,
    and so are learning rates that the script feeds. Which of several optimizers makes an update is the program's own.

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
        """Trains, and leaves a trace of each section on rank 0.

        Arguments: `sections`, what was recorded of each optimizer, see `Section`; `precision`.

        Raises:
          SideError: it makes more or fewer updates than it is given batches.
        """
        dtype = getattr(torch, arguments["precision"])
        torch.manual_seed(0)  # the same on all ranks: what a model draws when it is made is loaded over
        with self._fed_as_recorded(arguments["sections"]):
            model = self._model().to(self._device, dtype)
            parts = self._parts_of(model)
            sections = [Section(model, parts, recorded) for recorded in arguments["sections"]]
            # The one that trains first comes last: the weights are what it starts from.
            for section in sorted(sections, key=lambda each: each.steps[0], reverse=True):
                section.load()
            if not self._rank.rank:
                for section in sections:
                    section.open(arguments["precision"])
            self._run(sections, parts, dtype, progress)

    def _run(self, sections: Sequence[Section], parts: Mapping[str, Any], dtype: torch.dtype, progress: Any) -> None:
        numbers = sorted({number for section in sections for number in section.steps})
        agree = [True]
        made: list[int] = []

        def save(step: int) -> None:
            made.append(step)
            for section in sections:
                if len(made) <= len(numbers) and numbers[len(made) - 1] in section.steps:
                    left = section.left()
                    # Statistics are each rank's own until DDP sends rank 0's, before the next forward pass.
                    common = {text: value for text, value in left.items() if quantity_of(text) not in OF_A_RANK}
                    agree.append(ranks_agree(common, self._rank, self._device))
                    section.write(numbers[len(made) - 1], left)
            progress(len(made), len(numbers))

        self._train(self._batches(sections, numbers, dtype), parts, sections[0].begun, save)
        if len(made) != len(numbers):
            raise SideError(
                f"train: expected {len(numbers)} updates for as many batches, each followed by save(step), got {len(made)}. "
                "Make one for each batch."
            )
        for section in sections:
            section.close(all(agree))

    def _batches(
        self, sections: Sequence[Section], numbers: Sequence[int], dtype: torch.dtype
    ) -> Iterator[dict[str, Tensor]]:
        for number in numbers:
            files = [section.feeds.step(number) for section in sections if number in section.steps]
            arrays = {text: value for file in files for text, value in _all(file).items()}
            whole = {batch_input(text): self._tensor(value, dtype) for text, value in arrays.items()}
            yield shard(whole, self._rank.rank, self._rank.world_size)

    def _tensor(self, value: np.ndarray, dtype: torch.dtype) -> Tensor:
        tensor = torch.from_numpy(np.array(value)).to(self._device)
        return tensor.to(dtype) if tensor.dtype in (torch.float32, torch.float64) else tensor

    @contextlib.contextmanager
    def _fed_as_recorded(self, sections: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Has the program's losses take recorded draws out of its batches, and its rates be those that the script feeds."""
        own: dict[str, Any] = self._train.__globals__
        replaced: dict[str, Any] = {}
        for recorded in sections:
            loss, rate = (f"{name}{recorded['suffix']}" for name in ("loss", "learning_rate"))
            if recorded["draws"]:
                replaced[loss] = with_recorded_draws(own[loss])
            if recorded["fed"]:
                replaced[rate] = _rates_by_step(recorded)
        kept = {name: own[name] for name in replaced}
        own.update(replaced)
        try:
            yield
        finally:
            own.update(kept)


def _averages_of(averages: Any, model: torch.nn.Module) -> dict[str, Tensor]:
    """Dict of trace name to the moving averages of a program's weights; none where it keeps them by another class."""
    if not isinstance(averages, like_tf.ExponentialMovingAverage):
        return {}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    pairs = zip(averages.variables, averages.averages, strict=True)
    return {trace_name("ema", names[id(variable)]): value for variable, value in pairs if id(variable) in names}


@torch.no_grad()
def _begin(averages: dict[str, Tensor], start: dict[str, np.ndarray]) -> None:
    # The program made them of the weights that its model was built with, and then got others.
    for text, value in averages.items():
        if text in start:
            value.copy_(torch.from_numpy(np.array(start[text])))


def _given(observer: GradientObserver, quantity: Literal["grad", "clip"]) -> dict[str, np.ndarray]:
    """What the optimizer's last step began with: gradients and learning rate; nothing where it made none."""
    found = named_gradients(quantity, observer.given or {})
    return found if observer.rate is None else {**found, LEARNING_RATE: np.array(observer.rate, np.float64)}


def _rates_by_step(recorded: Mapping[str, Any]) -> Callable[[int], float]:
    """The recorded rates as a function of the number of updates; before and behind them the nearest."""
    rates = recorded["rates"]
    begun = int(_all(Trace(recorded["start"]).init()).get(GLOBAL_STEP, 0))
    return lambda step: float(rates[min(max(step - begun, 0), len(rates) - 1)])


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
