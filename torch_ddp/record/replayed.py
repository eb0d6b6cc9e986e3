"""Has a program train on what was recorded of another: its state before each step, its batches, its draws."""

import contextlib
import functools
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from parity.trace import (
    TensorFile,
    Trace,
    batch_input,
    perturb,
    perturbations_of,
    write_forward,
    write_json,
)
from parity.worker.program_request import ProgramRequest
from torch_ddp.momenta import round_momenta
from torch_ddp.record.facts import rank_and_world_size
from torch_ddp.record.failures import report_to_parent, telling
from torch_ddp.record.recorded_batches import RecordedBatches
from torch_ddp.record.recorded_draws import INPUT, RecordedDraws, draws_in_order
from torch_ddp.record.sections import Section
from torch_ddp.record.stand_in import StandIn
from torch_ddp.record.trained import Trained
from torch_ddp.record.widen import Widened, widen_module, widen_program
from torch_ddp.step.forward_watch import ForwardWatch
from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.learning_rate import take_recorded_rate
from torch_ddp.step.optimizer import round_hyper_parameters
from torch_ddp.step.trace_names import own_values

SEEN_FILE = "seen-{}.json"
CAST_DTYPES = ("float32", "float64")
TENSOR_MAKERS = ("from_numpy", "as_tensor", "tensor")  # of torch: how programs without loaders make batches of arrays

State = dict[str, np.ndarray]


class Replayed(StandIn):
    """Gives a program recorded numbers in place of its own.

    Its arguments are those of a run of `torch_ddp.worker.rank.RankServer`: `feeds`, `start`, `follow`, `steps`,
    `recorded_counters`, `partly`, `perturbations`, `random_seed`; beside them `first`, the number of the recorded step that
    is the program's first; `precision`; `rounded`, whether hyper-parameters are rounded to float32, with `moved_statistics`
    as of `round_momenta`; `sections`, dict of an optimizer's name to that which the recording has for it; `fed` as of
    `RecordedBatches`; `rates`, dict of step to recorded learning rate, taken where the program's own is off by float32's
    rounding only; `forward`, where the forward pass of a rank is wanted: its `tower`, with the number of a micro-batch
    behind a point, `gradients`, and `out`.

    Args:
      request: that the program runs under.
    """

    def __init__(self, request: ProgramRequest) -> None:
        super().__init__(request)
        self._asked = request.arguments
        self._steps = [number - self._asked["first"] for number in self._asked["steps"]]
        self._perturbations = perturbations_of(self._asked.get("perturbations") or ())
        self._widened: Widened | None = widen_program() if self._asked["precision"] == "float64" else None
        self._batches: RecordedBatches | None = None
        self._sections: list[Section] = []
        self._state: Trained | None = None
        self._own: State = {}
        self._draws_left: list[str] = []
        self._watch: ForwardWatch | None = None
        self._watching = contextlib.ExitStack()
        self._paused = False
        self._within_step, self._ended, self._entered = False, 0, -1
        self._drawing = contextlib.ExitStack()
        self._patch()

    def module_made(self, module: nn.Module) -> None:
        """Widens what a wrapper holds, where that is asked for."""
        if self._widened is not None:
            widen_module(module)

    def optimizer_made(self, section: Section) -> None:
        """Remembers the optimizer."""
        self._sections.append(section)

    @telling
    def replace_batch(self, loader: Any, batch: Any) -> Any:
        """Returns a training batch with the recorded numbers in it."""
        if not self._trains():
            return batch
        replaced = self._recorded().in_place_of(batch)
        # Behind the replacement: what cannot be matched is to be said before any state is loaded.
        self._enter_with_batch()
        return replaced

    @telling
    def before_forward(self, number: int, sections: Sequence[Section]) -> None:
        """Loads the recorded state before a step, and begins to watch its forward pass where that is wanted."""
        self._within_step = True
        self._enter_step(number, sections)
        if number not in self._steps:
            return
        wanted = self._asked.get("forward")
        if wanted:
            part = int(wanted["tower"].partition(".")[2] or 0)
            self._watch = ForwardWatch(self._trained(sections).model, part, bool(wanted["gradients"]))
            # Behind the loading, which is no part of the pass.
            self._watching.enter_context(self._watch.watching())

    @telling
    def replace_inputs(self, number: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what a model is called with, with what was recorded and no loader or array has brought."""
        if not self._trains():
            return given
        # What stands in is made of arrays itself.
        paused, self._paused = self._paused, True
        try:
            return self._recorded().in_place_of_inputs(number, given)
        finally:
            self._paused = paused

    def _enter_step(self, number: int, sections: Sequence[Section]) -> None:
        """Loads the recorded state before a step, and has random functions give its recorded draws from here on."""
        # Once in a step, by whichever comes first: the batch, or the forward pass.
        if self._entered == number:
            return
        self._entered = number
        state = self._trained(sections)
        if number not in self._steps:
            return
        # The first step that is wanted, not the program's first: steps before it train on numbers of the program's own.
        if number == self._steps[0]:
            self._load_start(state)
        self._load_followed(state, number + self._asked["first"])
        draws = self._draws(number)
        if draws:
            self._drawing.enter_context(RecordedDraws(draws_in_order(draws), self._draws_left))

    def _enter_with_batch(self) -> None:
        # As soon as the step's batch is there: a loss may use weights, or draw, before it calls the model. Where a loader is
        # read ahead the step before goes on.
        if self._sections and not self._within_step and all(section.models for section in self._sections):
            self._enter_step(self._ended, self._sections)

    def _load_start(self, state: Trained) -> None:
        asked = self._asked
        start = _all(Trace(asked["start"]).init())
        # What was not recorded begins as the program itself made it, whatever skipped steps have done to it since.
        kept = {name: value for name, value in self._own.items() if name not in start}
        # Perturbed once only: in lockstep the state that is loaded next is perturbed, and overwrites this one.
        followed = bool(asked.get("follow"))
        state.load({**kept, **(start if followed else perturb(start, self._perturbations, 0, asked["precision"]))})
        if asked.get("random_seed") is not None:
            _seed(1000 * asked["random_seed"] + rank_and_world_size()[0])

    def _load_followed(self, state: Trained, number: int) -> None:
        follow = Trace(self._asked["follow"]) if self._asked.get("follow") else None
        if follow is None or number not in follow.step_numbers:
            return
        followed = perturb(_all(follow.step(number)), self._perturbations, number, self._asked["precision"])
        # A recording that holds a part of the state leaves the rest as the program moved it; else the weights and
        # statistics that it lacks begin anew.
        held = state.read() if self._asked.get("partly") else self._own
        kept = {name: value for name, value in held.items() if name not in followed}
        state.load({**kept, **followed}, bool(self._asked.get("recorded_counters")))

    def before_update(self, section: Section, number: int) -> None:
        """Takes the recorded learning rate where the program's own is that but for rounding."""
        rate = (self._asked.get("rates") or {}).get(str(number + self._asked["first"]))
        if rate is not None:
            take_recorded_rate(section.optimizer, rate)

    @telling
    def after_update(self, section: Section, number: int) -> None:
        """Checks that the step took its whole shard, and leaves what is known of this rank."""
        self._within_step, self._ended = False, number + 1
        if number not in self._steps:
            return
        self._leave_forward(number)
        self._drawing.close()
        batches = self._recorded()
        batches.check(number)
        # With every step, for behind the last one the recorder ends the process before anything else could be called.
        seen = {
            "places": {name: place.path for name, place in batches.places.items()},
            "notes": batches.notes,
            "draws_left": self._draws_left[:1],
            "narrow": self._widened.narrow if self._widened else {},
        }
        write_json(os.path.join(self.request.ranks, SEEN_FILE.format(os.getpid())), seen)

    def _leave_forward(self, number: int) -> None:
        wanted, watch = self._asked.get("forward"), self._watch
        if not wanted or watch is None:
            return
        self._watching.close()
        # All ranks watched, so that what their steps cost is the same; one leaves what it saw.
        if rank_and_world_size()[0] == int(wanted["tower"].partition(".")[0]):
            write_forward(wanted["out"], number + self._asked["first"], wanted["tower"], watch.passed)

    def _patch(self) -> None:
        """Patches this process: what stands in has no call of its own for it."""
        report_to_parent(self.request)
        self._watch_makers()
        self._watch_loaders()

    def _trained(self, sections: Sequence[Section]) -> Trained:
        if self._state is None:
            # Under the recording's names, before anything is recorded under the program's own.
            for section in sections:
                section.name = (self._asked.get("sections") or {}).get(section.name, section.name)
            state = Trained(sections)
            # In this order: an optimizer makes its slots in the dtype that its parameters have when it does.
            if self._widened is not None:
                widen_module(state.model)
            if self._asked["rounded"]:
                round_momenta(state.model, self._asked.get("moved_statistics"))
            for section in state.sections:
                if self._asked["rounded"]:
                    round_hyper_parameters(section.optimizer)
                # What is not loaded begins as the program makes it, the first step of its optimizer included.
                if _has_slots(self._asked):
                    make_lazy_state(section.optimizer)
            self._state, self._own = state, own_values(state.model)
        return self._state

    def _recorded(self) -> RecordedBatches:
        if self._batches is None:
            # Made when first asked for: until the process group is there, a rank does not know which shard is its own.
            like = self._shard(self._steps[0]) or {}
            self._batches = RecordedBatches(
                self._shard, like, self._batch, rank_and_world_size()[1], self._asked.get("fed") or {}
            )
        return self._batches

    def _shard(self, step: int) -> State | None:
        return self._without_draws(step, whole=False)

    def _batch(self, step: int) -> State | None:
        return self._without_draws(step, whole=True)

    def _without_draws(self, step: int, whole: bool) -> State | None:
        if step not in self._steps:
            return None
        return {name: value for name, value in self._inputs(step, whole).items() if not INPUT.fullmatch(name)}

    def _draws(self, step: int) -> dict[str, Tensor]:
        return {name: torch.from_numpy(value) for name, value in self._inputs(step).items() if INPUT.fullmatch(name)}

    def _inputs(self, step: int, whole: bool = False) -> State:
        """This rank's piece of what is fed in a step, draws among it; or that of all ranks."""
        number, precision = step + self._asked["first"], self._asked["precision"]
        # The whole batch, before it is cut: the draws depend on shapes, and all ranks and the other side are to have
        # the same.
        batch = perturb(_all(Trace(self._asked["feeds"]).step(number)), self._perturbations, number, precision)
        rank, ranks = rank_and_world_size() if not whole else (0, 1)
        shard = {}
        for text, value in batch.items():
            size = len(value) // ranks
            # Towers in a row along the first axis, of equal sizes: what is recorded with others is refused before.
            piece = value[rank * size : (rank + 1) * size]
            shard[batch_input(text)] = piece.astype(precision) if piece.dtype.name in CAST_DTYPES else np.array(piece)
        return shard

    def _trains(self) -> bool:
        # Batches of an evaluation are the program's own.
        # By the modules' own mode: of a loader nothing says what it is for. While there is no optimizer, all([]) holds.
        models = [model for section in self._sections for model in section.models.values()]
        return torch.is_grad_enabled() and all(model.training for model in models)

    def _watch_makers(self) -> None:
        for name in TENSOR_MAKERS:
            setattr(torch, name, self._watched(getattr(torch, name)))

    def _watched(self, make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(make)
        def made(data: Any, *arguments: Any, **named: Any) -> Tensor:
            tensor = make(data, *arguments, **named)
            # What a loader makes of arrays is replaced when it yields; what is made of tensors is no batch's beginning.
            if self._paused or isinstance(data, Tensor) or not tensor.ndim or not self._sections or not self._trains():
                return tensor
            # What is given in its place is itself made by functions that are watched.
            self._paused = True
            try:
                return self._replace_array(tensor)
            finally:
                self._paused = False

        return made

    def _watch_loaders(self) -> None:
        # Samplers shuffle within: no recorded draw is theirs, and what loaders make of arrays is replaced when they yield.
        for owner, name in ((DataLoader, "__iter__"), (_BaseDataLoaderIter, "__next__")):
            setattr(owner, name, self._untouched(getattr(owner, name)))
        begin = DataLoader.__iter__

        @functools.wraps(begin)
        def begun(loader: Any) -> Any:
            self.restart_batches()
            return begin(loader)

        DataLoader.__iter__ = begun  # type: ignore[method-assign]

    def restart_batches(self) -> None:
        """Has a loader that is begun between two steps yield the next step's batches, whatever was read before."""
        if self._trains() and not self._within_step:
            self._recorded().restart(self._ended)

    def _untouched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*arguments: Any) -> Any:
            paused, self._paused = self._paused, True
            try:
                # Widening and recorded draws are switched off too: what a loader does is the program's reading of its
                # files.
                with torch._C.DisableTorchFunction():
                    return method(*arguments)
            finally:
                self._paused = paused

        return called

    @telling
    def _replace_array(self, tensor: Tensor) -> Tensor:
        replaced = self._recorded().in_place_of_array(tensor)
        if replaced is not tensor:
            self._enter_with_batch()
        return replaced


def _has_slots(asked: Mapping[str, Any]) -> bool:
    traces = [Trace(asked["start"]).init()]
    if asked.get("follow"):
        follow = Trace(asked["follow"])
        traces += [follow.step(number) for number in follow.step_numbers[:1]]
    return any(file.names("slot") for file in traces)


def _all(file: TensorFile) -> State:
    return {name: file.read(name) for name in file.names()}


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)
