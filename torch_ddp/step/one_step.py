"""One update from a rank's shard: what makes it, and the way that the tool makes it."""

import contextlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from parity.trace import SKIPPED
from torch_ddp.errors import TorchDdpError
from torch_ddp.shard import Shard
from torch_ddp.step.backward import Backward, Part
from torch_ddp.step.gradient_exchange import GradientObserver
from torch_ddp.step.trace_names import named_gradients
from torch_ddp.step.training_state import TrainingState


class Recorded(NamedTuple):
    """What one rank saw of a step.

    Fields:
      parts: its micro-batches, in order.
      combined: dict of trace name to array: what the ranks have in common, the combined gradients above all.
    """

    parts: list[Part]
    combined: dict[str, np.ndarray]


class Step(Protocol):
    """Makes one update from this rank's shard.

    Attributes:
      combination: who combines the ranks' gradients: "port" or "tool".
      unobserved: quantities that these steps do not show.
    """

    combination: str
    unobserved: set[str]

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in."""

    def give(self, outputs: Mapping[str, Mapping[str, Tensor]], cut: bool) -> None:
        """Has the next steps go on from given outputs, dict of a part's name to them by name; see `Stepper.give`."""

    def make(self, own: Shard, rank: int) -> Recorded:
        """Makes the update, counts it in the training state, and returns what was seen of it."""


class ObservedGradients:
    """Records the gradients that an optimizer of the port's own works with: it may clip them first, or scale some of them.

    What counts is what its hooks leave; where these leave everything as it was, what its step does in place.

    Args:
      observer: of the optimizer.
      quantity: under which a trace has them: "clip", or "grad" where the other side clips nothing, so that whatever is done
        to the gradients is part of how they are combined.
    """

    def __init__(self, observer: GradientObserver, quantity: Literal["grad", "clip"]) -> None:
        self._observer = observer
        self._quantity = quantity

    def forget(self) -> None:
        """Forgets the updates before, at the beginning of a step."""
        self._observer.forget()

    def into(self, combined: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns what a step recorded, by trace name, with these gradients in the place of those of their quantity."""
        hooked = named_gradients("grad", self._observer.given or {})
        changed = any(not np.array_equal(value, combined.get(name, value)) for name, value in hooked.items())
        # Nothing changed before the step: what the step left in .grad is then what it worked with, clipped in place.
        given = hooked if changed else named_gradients("grad", self._observer.present())
        renamed = {name.replace("grad", self._quantity, 1): value for name, value in given.items()}
        others = {name: value for name, value in combined.items() if not name.startswith(f"{self._quantity}/")}
        return {**others, **renamed}


class ToolStep:
    """Calls the port's loss, and does everything from `zero_grad` to the optimizer's step itself.

    Args:
      backward: computes and combines the gradients.
      state: what the step moves.
      observed: what the optimizer makes of the gradients first, where it is the port's own.

    Raises:
      TorchDdpError: mixed precision where gradients are combined by hand.
    """

    def __init__(self, backward: Backward, state: TrainingState, observed: ObservedGradients | None = None) -> None:
        if state.mixed and backward.by_hand:
            raise TorchDdpError(
                "mixed precision: expected gradients that DDP's buckets combine, got sparse ones, clipping on each rank or "
                "gradients that some ranks lack. Leave level 4 out."
            )
        self._backward = backward
        self._state = state
        self._observed = observed
        self.combination = "port" if backward.own_wrapper else "tool"
        # A wrapper of the port's clips in its own hook, where nobody sees each rank's result.
        self.unobserved: set[str] = {"tower_clip"} if backward.own_wrapper and state.update.clips_ranks else set()

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in."""
        return self._state.mixed.running() if self._state.mixed else contextlib.nullcontext()

    def give(self, outputs: Mapping[str, Mapping[str, Tensor]], cut: bool) -> None:
        """Has the next steps go on from given outputs, see `Stepper.give`."""
        self._backward.given, self._backward.cut = outputs, cut

    def make(self, own: Shard, rank: int) -> Recorded:
        """Makes the update and returns what was seen of it."""
        state, update, mixed = self._state, self._state.update, self._state.mixed
        for optimizer in state.optimizers():
            # None, so that a parameter which the loss does not reach has no gradient rather than one of zero.
            optimizer.zero_grad(set_to_none=True)
        if self._observed:
            self._observed.forget()
        # On leaving, gradients are unscaled and the scale moves, once for all micro-batches: Apex decides there whether
        # to skip.
        with mixed.scaled() if mixed else contextlib.nullcontext() as scale:
            parts = self._backward.run(own, rank, scale)
        # Gradients are final from here on but for clipping, which so sees what TensorFlow's optimizers clip:
        # combined, unscaled.
        counts = update.settle(self._backward.by_hand)
        gradients = {name: value.grad for name, value in state.trained.named_parameters() if value.grad is not None}
        combined = named_gradients("grad", gradients)
        combined.update(named_gradients("clip", update.clip()))
        if update.scale.dynamic:
            combined[SKIPPED] = np.array(not counts)
        # Here and not earlier: a schedule gives the rate of the update that follows as many as were made.
        state.set_rates()
        if counts:
            for optimizer in state.optimizers():
                optimizer.step()
            state.count_update()
        # Averages move and the scale is tried also where the step was skipped, as tf_towers' graph has them.
        update.move_averages(state.global_step)
        update.scale.move(counts)
        if mixed:
            combined[SKIPPED] = np.array(mixed.skipped())
        return Recorded(parts, self._observed.into(combined) if self._observed else combined)
