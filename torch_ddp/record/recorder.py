"""Follows the training steps of one rank: what is called when, and what is kept of it."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from parity.worker.program_request import ProgramRequest
from torch_ddp.record.batches import tensors_in
from torch_ddp.record.ending import leave
from torch_ddp.record.facts import facts_of_rank, variables_of
from torch_ddp.record.rank_trace import RankTrace
from torch_ddp.record.sections import Section, calling_frame, wrappers_of
from torch_ddp.record.stand_in import StandIn
from torch_ddp.record.steps import Step, Update, copy_of, state_of
from torch_ddp.step.trace_names import array


class Recorder:
    """What one process of a program does, seen from the calls that `start` has patched.

    Args:
      request: that the program runs under.
      stand_in: what stands in for its own numbers.

    Attributes:
      sections: list of `Section`, one for each optimizer, in the order in which they were made.
      seen: number of training steps that have ended, skipped ones among them.
    """

    def __init__(self, request: ProgramRequest, stand_in: StandIn) -> None:
        self.request, self.stand_in = request, stand_in
        self.sections: list[Section] = []
        self.seen = 0
        self.trace: RankTrace | None = None
        self.wrappers: dict[str, str] = {}
        self._step: Step | None = None
        self._last: Step | None = None
        self._updates: dict[int, Update] = {}
        self._within = contextlib.ExitStack()
        self._hooked: dict[int, Any] = {}
        self._families: dict[int, Any] = {}
        self._depth = 0
        self._batches: list[Any] = []
        self._enough = False

    # What the patched calls report.

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """Takes a new optimizer."""
        if any(each.optimizer is optimizer for each in self.sections):
            return
        section = Section(optimizer, len(self.sections))
        self.sections.append(section)
        section.find_models(calling_frame())
        optimizer.register_step_pre_hook(self._before_update)
        optimizer.register_step_post_hook(self._after_update)
        self._hook_models()
        self.stand_in.optimizer_made(section)

    def module_made(self, module: nn.Module) -> None:
        """Takes a new wrapper around a module."""
        self.wrappers[type(module).__name__] = f"{type(module).__module__}.{type(module).__qualname__}"
        self._hook_models()
        self.stand_in.module_made(module)

    def batch(self, loader: Any, batch: Any) -> Any:
        """Takes what a loader yields; returns what the program gets for it."""
        replaced = self.stand_in.replace_batch(loader, batch)
        self._batches.append(replaced)
        return replaced

    @contextlib.contextmanager
    def backward(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Is entered for each call of backward that no other one has made."""
        self._begin()
        step = self._step
        if step is None or not self._recording():
            yield
            return
        current = step.current()
        if not current.inputs:
            self._take_batch(step)
        for section in self.sections:
            self._hook_parameters(section)
        yield
        with torch.no_grad():
            current.loss = array(sum(each.detach().sum() for each in tensors)) / current.scale  # type: ignore[arg-type]

    def clipping(self, parameters: Sequence[Tensor]) -> None:
        """Is called before gradients are clipped by a function of torch's."""
        if self._step is not None and self._recording():
            for each in parameters:
                if each.grad is not None and id(each) not in self._step.clipped:
                    self._step.clipped[id(each)] = copy_of(each.grad)

    # Forward passes.

    def _hook_models(self) -> None:
        for section in self.sections:
            section.find_models(calling_frame())
            for model in section.models.values():
                for module in [model, *wrappers_of(model)]:
                    if id(module) not in self._families:
                        before = module.register_forward_pre_hook(_Hook(self._enter, module), with_kwargs=True)
                        after = module.register_forward_hook(_Hook(self._leave, module), always_call=True)
                        self._families[id(module)] = module, before, after

    def _enter(self, module: nn.Module, arguments: Any, named: Any) -> None:
        self._depth += 1
        if self._depth > 1 or not torch.is_grad_enabled():
            return
        self._begin()
        step = self._step
        if step is not None and self._recording():
            self._take_batch(step, module, arguments, named)

    def _leave(self, module: nn.Module, arguments: Any, output: Any) -> None:
        self._depth -= 1

    def _take_batch(self, step: Step, module: nn.Module | None = None, arguments: Any = (), named: Any = None) -> None:
        current = step.current()
        if self._batches:
            current.inputs.update(tensors_in(self._batches[-1]))
            self._batches.clear()
        elif not current.inputs and module is not None:
            current.inputs.update(tensors_in({**dict(enumerate(arguments)), **(named or {})}))

    # Steps.

    def _begin(self) -> None:
        if self._enough:
            self._leave_program()
        if self._step is not None or self._is_over():
            return
        self._step = Step(self.seen)
        self._within.enter_context(self.stand_in.around_step(self.seen))
        self.stand_in.before_forward(self.seen, self.sections)
        if self._recording() and self.trace is None:
            self._open()

    def _recording(self) -> bool:
        return self._step is not None and self._step.number >= self.request.skip

    def _is_over(self) -> bool:
        wanted = self.request.steps
        return wanted is not None and self.trace is not None and self.trace.steps >= wanted

    def _open(self) -> None:
        rank, world_size = rank_and_world_size()
        for section in self.sections:
            section.find_models(calling_frame())
            section.find_name(calling_frame())
        _tell_apart(self.sections)
        facts = facts_of_rank(self.sections, self.wrappers)
        self.trace = RankTrace(self.request.ranks, rank, world_size, facts, variables_of(self.sections))
        self.trace.init(state_of(self.sections, self.sections))

    def _hook_parameters(self, section: Section) -> None:
        for parameter in section.parameters():
            if id(parameter) not in self._hooked and parameter.requires_grad and parameter.is_leaf:
                hook = _GradientHook(self, id(parameter))
                self._hooked[id(parameter)] = parameter, parameter.register_hook(hook)  # type: ignore[no-untyped-call]

    def gradient(self, key: int, gradient: Tensor) -> None:
        """Takes the gradient of a parameter in a backward pass, before any rank heard of it."""
        if self._step is not None and self._recording():
            self._step.current().gradients[key] = copy_of(gradient)

    def _before_update(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        section = self._section(optimizer)
        step = self._step or self._last
        if section is None or step is None:
            return
        self.stand_in.before_update(section, step.number)
        if step.number >= self.request.skip and self.trace is not None:
            self._updates[id(optimizer)] = step.before_update(section)

    def _after_update(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        section = self._section(optimizer)
        # Behind another optimizer's step, with no pass between the two: both belong to the same training step.
        step = self._step or self._last
        if section is None or step is None:
            return
        section.updates += 1
        update = self._updates.pop(id(optimizer), None)
        if update is not None and self.trace is not None:
            step.add(update, self.trace.facts["rank"])
            step.tensors.update(state_of(self.sections, [section]))
            self.trace.step(step.number - self.request.skip, step.tensors)
        if self._step is not None:
            self.seen += 1
            self._last, self._step = step, None
        self.stand_in.after_update(section, step.number)
        self._within.close()
        if self._is_over():
            self._enough = True
            # Another optimizer may step behind this one: then the next pass ends the program.
            if len(self.sections) == 1:
                self._leave_program()

    def _section(self, optimizer: Optimizer) -> Section | None:
        return next((each for each in self.sections if each.optimizer is optimizer), None)

    def _leave_program(self) -> None:
        if self.trace is not None:
            self.trace.close(enough=True)
            leave(self.request.ranks, self.trace.facts["world_size"])

    def forked(self) -> None:
        """Begins anew in a process that was forked: it may be a rank of its own, or load data for one."""
        self.trace, self._step, self._last, self.seen, self._depth = None, None, None, 0, 0
        self._enough = False

    def close(self) -> None:
        """Says that this rank has come to its end."""
        if self.trace is not None and not self.trace.facts.get("closed"):
            self.trace.close(enough=self._enough)


class _Hook:
    """A hook of one module, which stays that module's: copies of the module have it too, and it does nothing there."""

    def __init__(self, function: Any, module: nn.Module) -> None:
        self._function, self._module = function, id(module)

    def __call__(self, module: nn.Module, *arguments: Any) -> None:
        # Traced by torch.compile it is nothing: what it would read is not there then.
        if not torch.compiler.is_compiling() and id(module) == self._module:
            self._function(module, *arguments)

    def __deepcopy__(self, memo: Any) -> "_Hook":
        return self


class _GradientHook:
    def __init__(self, recorder: Recorder, key: int) -> None:
        self._recorder, self._key = recorder, key

    def __call__(self, gradient: Tensor) -> None:
        self._recorder.gradient(self._key, gradient)


def rank_and_world_size() -> tuple[int, int]:
    """Returns this rank and the number of ranks; of a program without a process group what its launcher says."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def _tell_apart(sections: Sequence[Section]) -> None:
    names: set[str] = set()
    for section in sections:
        section.name = section.name if section.name not in names else f"{section.name}_{section.order}"
        names.add(section.name)
