"""Follows the training steps of one rank: what is called when, and what is kept of it."""

import contextlib
import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from parity.worker.program_request import ProgramRequest
from torch_ddp.record.averages import Averages
from torch_ddp.record.batches import Batches, Call
from torch_ddp.record.ending import leave
from torch_ddp.record.facts import Epoch, Observed, facts_of_rank, rank_and_world_size, variables_of
from torch_ddp.record.layers import Layers
from torch_ddp.record.rank_trace import RankTrace
from torch_ddp.record.scaling import LossScales
from torch_ddp.record.sections import Section, calling_frame, name_uniquely, wrappers_of
from torch_ddp.record.stand_in import StandIn
from torch_ddp.record.steps import Step, Update, copy_of, state_of


class Recorder:
    """What one process of a program does, seen from the calls that `start` has patched.

    Args:
      request: that the program runs under.
      stand_in: what stands in for its own numbers.

    Attributes:
      sections: list of `Section`, one for each optimizer, in the order in which they were made.
      seen: number of training steps that have ended, skipped ones among them.
      observed: `Observed`, what was seen beside the steps.
      scales: `LossScales`.
      trace: `RankTrace`, from the first recorded step on.
    """

    def __init__(self, request: ProgramRequest, stand_in: StandIn) -> None:
        self.request, self.stand_in = request, stand_in
        self.sections: list[Section] = []
        self.seen = 0
        self.trace: RankTrace | None = None
        self.observed = Observed()
        self.scales = LossScales()
        self._averages = Averages()
        self._batches = Batches()
        self._layers = Layers()
        self._step: Step | None = None
        self._ended: Step | None = None  # the last one, until it is written
        self._updates: dict[int, Update] = {}
        self._within = contextlib.ExitStack()
        self._hooked: dict[int, Any] = {}
        self._families: dict[int, Any] = {}
        self._calls = 0  # of hooked modules that have begun and not ended
        self._named = 0  # sections that have their names
        self._enough = False

    # What the patched calls report.

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """Takes a new optimizer."""
        if any(each.optimizer is optimizer for each in self.sections):
            return
        section = Section(optimizer, len(self.sections))
        self.sections.append(section)
        section.find_models(calling_frame())
        # Hooks, not a wrapped `step`: torch calls them within the step of each class, also where a schedule or amp
        # has put a function of its own in the optimizer's `step`.
        section.hooks = [
            optimizer.register_step_pre_hook(self._before_update),
            optimizer.register_step_post_hook(self._after_update),
        ]
        self._hook_models()
        self.stand_in.optimizer_made(section)

    def module_made(self, module: nn.Module) -> None:
        """Takes a new wrapper around a module."""
        self.observed.wrapper_made(module)
        self._hook_models()
        self.stand_in.module_made(module)

    def batch(self, loader: Any, batch: Any, epoch: Epoch | None = None) -> Any:
        """Takes what a loader yields in an epoch; returns what the program gets for it."""
        # What stands in may load a state, under the names that a recording has.
        self._name_sections()
        replaced = self.stand_in.replace_batch(loader, batch)
        # What stands in is what is recorded: the model is called with it.
        self._batches.add(epoch, replaced)
        return replaced

    @contextlib.contextmanager
    def backward(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Is entered for each call of backward that no other one has made."""
        # Mostly a forward pass has begun the step; not where a model is called by its `forward`, or compiled.
        self._begin()
        step = self._step
        if step is None or not self._recording():
            yield
            return
        current = step.current()
        current.scale = self.scales.of(tensors)
        if not current.inputs:
            current.inputs = self._batches.take({})
        self.observed.before_backward(current, self._families.values())
        self._layers.stop()
        # In each pass: parameters may be unfrozen, or given to the optimizer, while training is under way.
        for section in self.sections:
            self._hook_parameters(section)
        yield
        current.loss = self.scales.unscaled(tensors)
        # With a loss scale they are scaled still: dividing by it, behind this, would look like a clipping by hand.
        if current.scale == 1.0:
            step.take_reduced([value for section in self.sections for value in section.weights().values()])

    def clipping(self, parameters: Sequence[Tensor], after: bool) -> None:
        """Is called before, and after, gradients are clipped by a function of torch's."""
        if self._step is not None and self._recording():
            kept = self._step.clipped if after else self._step.unclipped
            for each in parameters:
                if each.grad is not None and id(each) not in kept:
                    kept[id(each)] = copy_of(each.grad)

    def updates_of(self, optimizer: Optimizer) -> int:
        """Returns how many steps of an optimizer have been seen."""
        section = self._section(optimizer)
        return section.updates if section is not None else 0

    def optimizer_with(self, stash: Any) -> Optimizer | None:
        """Returns the optimizer that torch_ddp.amp keeps this beside."""
        own = (each.optimizer for each in self.sections)
        return next((each for each in own if getattr(each, "_amp_stash", None) is stash), None)

    def is_between_passes(self) -> bool:
        """Whether a recorded step has had a backward pass and no update yet: when gradients are combined by hand."""
        return self._step is not None and self._recording() and any(each.loss is not None for each in self._step.passes)

    def skipped(self, optimizer: Optimizer | None) -> None:
        """Takes a step of an optimizer that a loss scale has left out."""
        section, step = self._section(optimizer), self._step
        if optimizer is None or section is None or step is None:
            return
        if self._recording() and self.trace is not None:
            step.add(step.before_update(section, self.scales.state(optimizer, skipped=True)), self._rank)
            step.tensors.update(state_of(self.sections, [section]))
        self._end_step(section, step)

    # Forward passes.

    def _hook_models(self) -> None:
        for section in self.sections:
            section.find_models(calling_frame())
            for model in section.models.values():
                for module in [model, *wrappers_of(model)]:
                    # An id is used again once its module is gone, so the module itself decides whether it has its
                    # hooks.
                    known = self._families.get(id(module))
                    if known is None or known[0]() is not module:
                        before = module.register_forward_pre_hook(_Hook(self._enter, module), with_kwargs=True)
                        # Also where forward raises, or every later call would count as one within it.
                        after = module.register_forward_hook(_Hook(self._leave, module), always_call=True)
                        self._families[id(module)] = weakref.ref(module), before, after

    def _enter(self, module: nn.Module, arguments: Any, named: Any) -> Any:
        self._calls += 1
        # Both wrapper and bare model have hooks, and only the outermost call is the program's: what a wrapper hands on
        # may be scattered, cast or moved. Without gradients it is an evaluation and begins no step.
        if self._calls > 1 or not torch.is_grad_enabled():
            return None
        self._begin()
        step = self._step
        if step is None:
            return None
        call = Call(module, arguments, named)
        given = self.stand_in.replace_inputs(step.number, call.given)
        replaced = call.giving(given) if given is not call.given else None
        if self._recording():
            self.observed.before_forward(module, self._families.values())
            inputs = Call(module, *replaced).tensors() if replaced else call.tensors()
            current = step.current()
            current.inputs = {**current.inputs, **self._batches.take(inputs)}
        return replaced

    def _leave(self, module: nn.Module, arguments: Any, output: Any) -> None:
        # Never below 0: a module may get its hooks, or a process be forked, while the module's forward is under way.
        self._calls = max(self._calls - 1, 0)

    # Steps.

    def _begin(self) -> None:
        if self._step is not None:
            return
        # The step before is over now: its averages have moved, and all optimizers that belong to it have stepped.
        self._write()
        if self._enough:
            self._leave_program()
        if self._is_over():
            return
        self._step = Step(self.seen)
        for section in self.sections:
            # Behind all hooks of the program's own, which may clip or reduce.
            section.move_hooks_back()
        self._name_sections()
        # In this order: the state that is loaded is what `_open` then writes as the one before the first step.
        self._within.enter_context(self.stand_in.around_step(self.seen))
        self.stand_in.before_forward(self.seen, self.sections)
        if self._recording() and self.trace is None:
            self._open()

    def _recording(self) -> bool:
        return self._step is not None and self._step.number >= self.request.skip

    def _is_over(self) -> bool:
        wanted = self.request.steps
        return wanted is not None and self.seen >= self.request.skip + wanted

    @property
    def _rank(self) -> int:
        return int(self.trace.facts["rank"]) if self.trace is not None else 0

    def _name_sections(self) -> None:
        # Not with each step: looking for names goes through all modules, and all variables of the program.
        if self._named == len(self.sections):
            return
        self._named = len(self.sections)
        for section in self.sections:
            section.find_models(calling_frame())
            # Only now: when an optimizer's constructor ends, the program's variable does not hold it yet.
            section.find_name(calling_frame())
        self._hook_models()
        name_uniquely(self.sections, calling_frame())

    def _open(self) -> None:
        rank, world_size = rank_and_world_size()
        facts = facts_of_rank(self.sections, self.observed)
        self.trace = RankTrace(self.request.ranks, rank, world_size, facts, variables_of(self.sections))
        self.trace.init(state_of(self.sections, self.sections))
        self._averages.begin(self.sections)
        if not rank:
            self._layers.start(self.trace.folder, self.sections, self._families.values())

    def _hook_parameters(self, section: Section) -> None:
        # The tensor's own hook: autograd calls it before AccumulateGrad adds the gradient to `grad`, and DDP's reducer
        # hangs behind AccumulateGrad. So it gets what this pass alone has given on this rank. A half weight has it, not
        # its master, which no backward pass reaches. The parameter is held, so that its id stays its own.
        for parameter in section.weights().values():
            if id(parameter) not in self._hooked and parameter.requires_grad and parameter.is_leaf:
                hook = _GradientHook(self, id(parameter))
                self._hooked[id(parameter)] = parameter, parameter.register_hook(hook)  # type: ignore[no-untyped-call]

    def gradient(self, key: int, gradient: Tensor) -> None:
        """Takes the gradient of a parameter in a backward pass, before any rank heard of it."""
        if self._step is not None and self._recording():
            # A copy, for `grad` may take over this very tensor, which accumulation, reduction and clipping then change.
            self._step.current().gradients[key] = copy_of(gradient)

    def _before_update(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        section, step = self._section(optimizer), self._step or self._ended
        # No step at all: an optimizer that steps before any forward or backward pass.
        if section is None or step is None:
            return
        # A class whose step calls that of its base comes here twice: what the innermost begins with is what counts.
        section.nested += 1
        if section.nested == 1:
            self.stand_in.before_update(section, step.number)
        if step.number >= self.request.skip and self.trace is not None:
            self._updates[id(optimizer)] = step.before_update(section, self.scales.state(optimizer))

    def _after_update(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        # Behind another optimizer's step, with no pass between the two: both belong to the same training step.
        section, step = self._section(optimizer), self._step or self._ended
        if section is None or step is None:
            return
        section.nested -= 1
        if section.nested:
            return
        section.updates += 1
        update = self._updates.pop(id(optimizer), None)
        if update is not None and self.trace is not None:
            step.add(update, self._rank)
            step.tensors.update(state_of(self.sections, [section]))
        # What it holds by the weights' names is gone before averages are looked for by these.
        del update
        self._end_step(section, step)

    def _end_step(self, section: Section, step: Step) -> None:
        # Not for the second of two optimizers behind one pass: the first has ended the step, which then has both.
        if self._step is not None:
            self.seen += 1
            self._ended, self._step = step, None
        self._layers.stop()
        # Behind the recording of weights and slots: what stands in may load others. Its context is the last thing to be
        # left.
        self.stand_in.after_update(section, step.number)
        self._within.close()
        if self._is_over():
            self._enough = True
            # Averages move behind the update, and another optimizer may step: then the next pass ends the program.
            if len(self.sections) == 1 and not self._averages.possible:
                self._write()
                self._leave_program()

    def _write(self) -> None:
        """Writes the last step, now that nothing moves any more that belongs to it."""
        step, self._ended = self._ended, None
        if step is None or self.trace is None or not step.tensors:
            return
        step.tensors.update(self._averages.read(step.tensors))
        self.trace.facts.update(self.observed.facts())
        self.trace.step(step.number - self.request.skip, step.tensors)

    def _section(self, optimizer: Optimizer | None) -> Section | None:
        return next((each for each in self.sections if each.optimizer is optimizer), None)

    def _leave_program(self) -> None:
        if self.trace is not None:
            self.trace.close(enough=True)
            leave(self.request.ranks, self.trace.facts["world_size"])

    def forked(self) -> None:
        """Begins anew in a process that was forked: it may be a rank of its own, or load data for one."""
        # Hooks and patches stay, for a fork has the modules and optimizers too. A DataLoader's worker trains nothing
        # and so opens no trace; a rank that is forked opens one of its own, under its own process id.
        self.trace, self._step, self._ended, self.seen, self._calls = None, None, None, 0, 0
        self._enough = False

    def close(self) -> None:
        """Says that this rank has come to its end."""
        if self.trace is not None and self.trace.pid == os.getpid() and not self.trace.facts.get("closed"):
            self._write()
            self.trace.facts.update(self.observed.facts())
            self.trace.close(enough=self._enough)


class _Hook:
    """A hook of one module, which stays that module's: copies of the module have it too, and it does nothing there."""

    def __init__(self, function: Any, module: nn.Module) -> None:
        self._function, self._module = function, id(module)

    def __call__(self, module: nn.Module, *arguments: Any) -> Any:
        # Traced by torch.compile it is nothing: what it would read is not there then.
        if not torch.compiler.is_compiling() and id(module) == self._module:
            return self._function(module, *arguments)
        return None

    def __deepcopy__(self, memo: Any) -> "_Hook":
        return self

    def __reduce__(self) -> Any:
        return _no_hook, ()


def _no_hook() -> Any:
    # A whole model that is saved while it is recorded has no recorder where it is loaded.
    return lambda *arguments: None


class _GradientHook:
    def __init__(self, recorder: Recorder, key: int) -> None:
        self._recorder, self._key = recorder, key

    def __call__(self, gradient: Tensor) -> None:
        self._recorder.gradient(self._key, gradient)
