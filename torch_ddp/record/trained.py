"""Opens what a program trains: its optimizers, the modules that they are over as one, and all that training moves."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor, nn

from parity.trace import parse_key, section_of, select, trace_name
from torch_ddp.errors import TorchDdpError
from torch_ddp.record.sections import Section
from torch_ddp.step.optimizer import named_slots, set_counters
from torch_ddp.step.trace_names import array, own_values
from torch_ddp.step.training_state import overwrite
from torch_ddp.weights import load_weights


class Together(nn.Module):
    """The modules that a program trains as one, under the names that a recording has for them.

    Args:
      models: dict of prefix, "encoder." for one, to module.
    """

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for prefix, model in models.items():
            self._modules[prefix.rstrip(".")] = model


class Trained:
    """What the optimizers of a program train and keep, read and overwritten under the names of a trace.

    Args:
      sections: of all optimizers; of several each has its name in those of what it keeps.

    Attributes:
      sections: those of modules.
      model: the one module that is trained, or all of them in one.

    Raises:
      TorchDdpError: none trains a module.
    """

    def __init__(self, sections: Sequence[Section]) -> None:
        self.sections = [section for section in sections if section.models]
        if not self.sections:
            raise TorchDdpError(
                "replay: expected a program with an optimizer over a module's parameters, got none whose parameters are of "
                "a module. Prove such a port by its parts: `parity replay --torch --loss --step`."
            )
        models = {prefix: model for section in self.sections for prefix, model in section.models.items()}
        self.model = models[""] if list(models) == [""] else Together(models)

    def slots(self) -> dict[str, Tensor]:
        """Returns every slot by its trace name; those that an optimizer makes with its first step are made."""
        return {
            trace_name("slot", name, slot=slot, section=self._name(section)): value
            for section in self.sections
            for (slot, name), value in named_slots(section.optimizer, self.model).items()
        }

    def read(self) -> dict[str, np.ndarray]:
        """Returns copies of weights, statistics and slots by trace name."""
        return {**own_values(self.model), **{name: array(value) for name, value in self.slots().items()}}

    def load(self, state: Mapping[str, np.ndarray], counters: bool = True) -> None:
        """Overwrites weights, statistics and slots, and counters if asked to: dict of trace name to array.

        Raises:
          TorchDdpError: a weight or statistic is missing or left over, a slot is unknown, or a shape differs.
        """
        load_weights(self.model, {parse_key(text).name: value for text, value in select(state, "var", "stat").items()})
        known, trained = self.slots(), set().union(*(section.trained() for section in self.sections))
        # A parameter that nobody gave an optimizer has no slots to load: that it does not move tells.
        still = {name for name, _ in self.model.named_parameters()} - trained
        slots = select(state, "slot")
        overwrite(known, {text: v for text, v in slots.items() if text in known or parse_key(text).name not in still})
        for section in self.sections if counters else ():
            own = [text for text in select(state, "state") if section_of(text) == self._name(section)]
            # A script's state may hold arrays too, which no optimizer counts with.
            numbers = {parse_key(text).name: float(state[text]) for text in own if np.ndim(state[text]) == 0}
            set_counters(section.optimizer, numbers)

    def _name(self, section: Section) -> str:
        return section.name if len(self.sections) > 1 else ""
