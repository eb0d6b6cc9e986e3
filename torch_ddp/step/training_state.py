"""Everything that training moves, read and overwritten under the names of a trace."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from parity.trace import GLOBAL_STEP, parse_key, quantity_of, section_of, select, trace_name
from torch_ddp.errors import TorchDdpError
from torch_ddp.step.mixed_precision import Mixed, in_float32
from torch_ddp.step.optimizer import OwnNumbers, Part, named_counters, named_slots, set_counters
from torch_ddp.step.trace_names import array
from torch_ddp.step.update import Update
from torch_ddp.weights import load_weights, named_statistics


class TrainingState:
    """Holds what a step reads and moves: weights, statistics, slots, averages, learning rates, counters.

    Args:
      model: that trains.
      optimizer: over its parameters.
      update: what happens around the optimizer's step; by default nothing. In mixed precision it is made for
        `mixed.trained`.
      mixed: of this model and optimizer; None for the precision that the model has.
      parts: more optimizers, each over some of the parameters, which `optimizer` then has not.

    Attributes:
      trained: the model, with the weights that the optimizer steps: in mixed precision its masters.
      optimizer, update, mixed, parts: as given.
      global_step: number of updates that were made.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        update: Update | None = None,
        mixed: Mixed | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        self.trained = mixed.trained if mixed else model
        self.optimizer = optimizer
        self.update = update or Update(self.trained, optimizer)
        self.mixed = mixed
        self.parts = tuple(parts)
        self.global_step = 0
        self._numbers = OwnNumbers(self.optimizers())

    def optimizers(self) -> list[Optimizer]:
        """Returns the optimizer and those of the parts."""
        return [self.optimizer, *(part.optimizer for part in self.parts)]

    def slots_of_parts(self) -> set[str]:
        """Returns the names of the slots that optimizers beside the first keep."""
        return {parse_key(key).slot for part in self.parts for key, _ in part.slots()}

    def count_update(self) -> None:
        """Counts an update that was made."""
        self.global_step += 1
        self._numbers.count()

    def set_rates(self) -> None:
        """Sets the learning rates of the update that comes next."""
        self.update.set_rate(self.global_step)
        for part in self.parts:
            part.set_rate(self.global_step)

    def widened(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns arrays of a trace, in mixed precision those in half precision widened to float32."""
        return in_float32(tensors) if self.mixed else tensors

    def read(self) -> dict[str, np.ndarray]:
        """Returns dict of trace name (``var/…``, ``stat/…``, ``slot/…``, ``ema/…``, ``state/…``) to array."""
        return self.widened({**self._tensors(), **self.counters()})

    def _tensors(self) -> dict[str, np.ndarray]:
        tensors: dict[str, Tensor] = {
            trace_name("stat", name): value for name, value in named_statistics(self.trained).items()
        }
        parameters = dict(self.trained.named_parameters())
        # A frozen parameter's slots never move, and TensorFlow has none for what it does not train.
        tensors.update(
            (key, value) for key, value in self._slots().items() if parameters[parse_key(key).name].requires_grad
        )
        for part in self.parts:
            tensors.update(part.slots())
        tensors.update((trace_name("var", name), value) for name, value in parameters.items())
        tensors.update((trace_name("ema", name), value) for name, value in self.update.averages.items())
        return {name: array(value) for name, value in tensors.items()}

    def counters(self) -> dict[str, np.ndarray]:
        """Returns dict of trace name (``state/…``) to array: what `read` does, without a copy of anything large."""
        state: dict[str, np.ndarray] = {}
        # A scheduler's rate is the optimizer's only once the step count says so: what is read is what the next step
        # will use.
        self.set_rates()
        for part in self.parts:
            state.update(part.counters())
        state.update((trace_name("state", name), value) for name, value in self.update.scale.state().items())
        for name, value in named_counters(self.optimizer).items():
            # Powers of beta are float32 variables in TensorFlow, whatever the weights are; a learning rate is a
            # number of the optimizer.
            state[trace_name("state", name)] = np.array(value, np.float32 if name.endswith("_power") else np.float64)
        state[GLOBAL_STEP] = np.array(self.global_step, np.int64)
        if self.mixed:
            state.update((trace_name("state", name), value) for name, value in self.mixed.state().items())
        return state

    def load(self, state: Mapping[str, np.ndarray], counters: bool = True) -> None:
        """Overwrites weights, statistics, slots and averages, and counters if asked to: dict of trace name to array.

        Raises:
          TorchDdpError: a weight or statistic is missing or left over, a slot or average is unknown, or a shape differs.
        """
        sections = {key: value for key, value in state.items() if section_of(key)}
        slots_of_parts = {key: value for part in self.parts for key, value in part.slots()}
        overwrite(slots_of_parts, {key: value for key, value in sections.items() if quantity_of(key) != "state"})
        own = {text: value for text, value in state.items() if text not in sections}
        load_weights(self.trained, _by_name(select(own, "var", "stat")))
        slots = self._slots()
        # A parameter that nobody gave the optimizer, or that is frozen, may have no slots to load: that it does not move
        # tells.
        overwrite(slots, {text: v for text, v in select(own, "slot").items() if text in slots or self._trains(text)})
        averages = {trace_name("ema", name): value for name, value in self.update.averages.items()}
        overwrite(averages, select(own, "ema"))
        if self.mixed:
            # Loaded were the masters; what the model computes with is their rounding.
            self.mixed.follow()
        if counters:
            self._load_counters(own, sections)

    def _load_counters(self, own: Mapping[str, np.ndarray], sections: Mapping[str, np.ndarray]) -> None:
        known = _by_name(select(own, "state"))
        # A script's state may hold arrays too, which no optimizer counts with.
        set_counters(self.optimizer, {name: float(value) for name, value in known.items() if np.ndim(value) == 0})
        self.global_step = int(own.get(GLOBAL_STEP, self.global_step))
        self._numbers.go_to(self.global_step)
        self.update.scale.load(known)
        for part in self.parts:
            part.load_counters(sections)

    def _slots(self) -> dict[str, Tensor]:
        held = named_slots(self.optimizer, self.trained).items()
        return {trace_name("slot", name, slot=slot): value for (slot, name), value in held}

    def _trains(self, slot: str) -> bool:
        parameter = dict(self.trained.named_parameters()).get(parse_key(slot).name)
        members = (member for group in self.optimizer.param_groups for member in group["params"])
        return parameter is None or (parameter.requires_grad and any(member is parameter for member in members))


def _by_name(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {parse_key(text).name: value for text, value in tensors.items()}


@torch.no_grad()
def overwrite(known: Mapping[str, Tensor], given: Mapping[str, np.ndarray]) -> None:
    """Copies arrays into tensors of the same trace names.

    Raises:
      TorchDdpError: one is not known, or has another shape.
    """
    for name, value in given.items():
        if name not in known or tuple(known[name].shape) != value.shape:
            what = "an average that is kept" if quantity_of(name) == "ema" else "a slot of this optimizer"
            expected = tuple(known[name].shape) if name in known else what
            raise TorchDdpError(f"load: expected {name} to be {expected}, got shape {value.shape}.")
        known[name].copy_(torch.from_numpy(np.array(value)))
