"""What a rank did in one training step, while it is made."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parity.trace import GLOBAL_STEP, LEARNING_RATE, section_prefix, trace_name
from torch_ddp.record.scaling import unscaled_gradient
from torch_ddp.record.sections import Section
from torch_ddp.step.optimizer import COUNTERS, named_counters, slots_of
from torch_ddp.step.trace_names import array, named_gradients

Arrays = dict[str, np.ndarray]


class Pass:
    """One backward pass, and the forward passes before it.

    Attributes:
      inputs: dict of name to array, of its batch or of what the model was called with.
      loss: array [], without loss scale; None until backward has been called.
      gradients: dict of a parameter's id to its gradient of this pass alone, before any rank heard of it.
      scale: what the loss was multiplied by before it was differentiated.
    """

    def __init__(self) -> None:
        self.inputs: Arrays = {}
        self.loss: np.ndarray | None = None
        self.gradients: dict[int, Tensor] = {}
        self.scale = 1.0


class Update(NamedTuple):
    """One optimizer's part of a training step.

    Fields:
      section: of the optimizer.
      combined: dict of name to gradient before the first clipping.
      clipped: dict of name to gradient after the first clipping; empty where there was none.
      given: dict of name to gradient that its step began with.
      counters: dict of trace name without section to array.
    """

    section: Section
    combined: Mapping[str, Tensor]
    clipped: Mapping[str, Tensor]
    given: Mapping[str, Tensor]
    counters: Arrays


class Step:
    """One training step.

    Args:
      number: from 0, of the program's steps.

    Attributes:
      passes: list of `Pass`; of the last one the backward pass may not have been called yet.
      reduced: dict of a parameter's id to its gradient behind the last backward pass, DDP's reduction included.
      unclipped, clipped: dict of a parameter's id to its gradient before and after the first clipping call.
      tensors: dict of trace name to array, what is recorded of it so far.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.passes: list[Pass] = []
        self.unclipped: dict[int, Tensor] = {}
        self.clipped: dict[int, Tensor] = {}
        self.reduced: dict[int, Tensor] = {}
        self.tensors: Arrays = {}

    def current(self) -> Pass:
        """Returns the pass whose backward pass is to come, or is under way."""
        # Several forward passes before one backward pass are one pass, as of a model that is called twice; `loss` ends
        # it.
        if not self.passes or self.passes[-1].loss is not None:
            self.passes.append(Pass())
        return self.passes[-1]

    def take_reduced(self, parameters: Iterable[Tensor]) -> None:
        """Takes the gradients that a backward pass has left: what changes them later may be a clipping by hand."""
        self.reduced.update((id(each), copy_of(each.grad)) for each in parameters if each.grad is not None)

    def before_update(self, section: Section, scales: Arrays) -> Update:
        """Returns what an optimizer's step begins with; `scales` is the state of a loss scale."""
        trained = section.trained()
        given = {
            name: copy_of(unscaled_gradient(section.optimizer, value.grad))
            for name, value in trained.items()
            if value.grad is not None
        }
        # By ids: clipping is called with tensors, in any order and of any model. Those of other optimizers stay out.
        names = {id(value): name for name, value in trained.items()}
        before = {names[key]: value for key, value in self.unclipped.items() if key in names}
        if not before:
            reduced = {names[key]: value for key, value in self.reduced.items() if key in names}
            # A gradient that appears only later was made by hand, and so may all others have been.
            changed = set(given) <= set(reduced) and not (set(reduced) == set(given) and _equal(reduced, given))
            before = reduced if changed else {}
        after = {names[key]: value for key, value in self.clipped.items() if key in names}
        counters = {**counters_of(section), **scales}
        return Update(section, {**given, **before} if before else given, after, given, counters)

    def add(self, update: Update, rank: int) -> None:
        """Adds an optimizer's update to what is recorded of the step."""
        section = update.section
        names = {id(value): name for name, value in section.weights().items()}
        found: Arrays = {}
        # A forward pass behind the last backward pass has no loss yet, and is no micro-batch of this step.
        ended = [each for each in self.passes if each.loss is not None]
        for number, each in enumerate(ended):
            tower = str(rank) if len(ended) == 1 else f"{rank}.{number}"
            own = {names[key]: _divided(value, each.scale) for key, value in each.gradients.items() if key in names}
            found.update((trace_name("feed", name, tower=tower), value) for name, value in each.inputs.items())
            found[trace_name("loss", tower=tower)] = np.asarray(each.loss)
            found.update(named_gradients("tower_grad", own, tower))
        found.update(named_gradients("grad", update.combined))
        # The very same dict where nothing was clipped: see `before_update`.
        if update.combined is not update.given:
            # What a rank clips is its own until the numbers of all ranks say that it was combined before: the merge does.
            found.update(named_gradients("tower_clip", update.clipped, str(rank)))
            found.update(named_gradients("clip", update.given))
        prefix = section_prefix(section.name)
        self.tensors.update((prefix + name, value) for name, value in {**found, **update.counters}.items())


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    # Not of sparse ones, which have no such function: they count as unchanged.
    return all(value.is_sparse or torch.equal(value, other[name]) for name, value in one.items())


def _divided(gradient: Tensor, scale: float) -> Tensor:
    # In float32 where it is half: without its scale it may be smaller than half precision can say.
    wide = gradient.float() if gradient.dtype in (torch.float16, torch.bfloat16) else gradient
    return wide / scale if scale != 1.0 else wide


def counters_of(section: Section) -> Arrays:
    """Returns the counters that an optimizer's step begins with, by trace name."""
    counters = {GLOBAL_STEP: np.array(made(section), np.int64)}
    for name, value in named_counters(section.optimizer).items():
        # As `TrainingState.read` has them: float32 what TensorFlow keeps as variables, float64 the optimizer's own
        # number.
        counters[LEARNING_RATE if name not in COUNTERS else trace_name("state", name)] = np.array(
            value, np.float32 if name in COUNTERS else np.float64
        )
    return counters


def made(section: Section) -> int:
    """Returns how many steps an optimizer has made; one that counts itself knows of those before a checkpoint too."""
    for state in section.optimizer.state.values():
        count = state.get("step") if isinstance(state, dict) else None
        if isinstance(count, Tensor | int):
            return int(count)
    return section.updates


def state_of(sections: list[Section], optimizers: list[Section]) -> Arrays:
    """Returns weights and statistics of all models, and the slots of some optimizers as far as they are there."""
    state: Arrays = {}
    for section in sections:
        # Of all models, whoever stepped: batch norms move in forward passes, of a model that this step does not train
        # too.
        state.update((trace_name("stat", name), array(value)) for name, value in section.named_statistics().items())
        state.update((trace_name("var", name), array(value)) for name, value in section.named_parameters().items())
    for section in optimizers:
        for name, value in section.trained().items():
            for slot, held in slots_of(section.optimizer, value).items():
                state[trace_name("slot", name, slot=slot, section=section.name)] = array(held)
    return state


def copy_of(gradient: Tensor) -> Tensor:
    """Returns a copy that nothing changes."""
    with torch.no_grad():
        return gradient.detach().clone()
