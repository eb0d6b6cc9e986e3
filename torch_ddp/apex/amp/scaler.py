"""Apex's class of loss scalers, and views of it on those of a session."""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from torch_ddp.amp.loss_scaler import INITIAL_SCALE, MAXIMUM_SCALE, WINDOW
from torch_ddp.amp.loss_scaler import LossScaler as Automaton
from torch_ddp.apex.amp_C import multi_tensor_axpby, multi_tensor_scale

__all__ = ["LossScaler"]


class LossScaler:
    """Holds a loss scale, unscales gradients by it, and moves it.

    Args:
        loss_scale: "dynamic", or the scale to stay at.
        init_scale: of a dynamic scale, capped by `max_loss_scale`.
        scale_factor: no effect, as in Apex, which always doubles and halves.
        scale_window: updates without an overflow that double a dynamic scale.
        min_loss_scale: the floor of a dynamic scale; None is none.
        max_loss_scale: its cap.

    Attributes:
        dynamic: whether the scale moves.

    Raises:
        AmpError: a static scale is not above 0, or the floor is above the cap.

    Counterpart: apex.amp.scaler.LossScaler
    """

    has_fused_kernel = True

    def __init__(
        self,
        loss_scale: float | str,
        init_scale: float = INITIAL_SCALE,
        scale_factor: float = 2.0,
        scale_window: int = WINDOW,
        min_loss_scale: float | None = None,
        max_loss_scale: float = MAXIMUM_SCALE,
    ) -> None:
        automaton = Automaton(loss_scale, min_loss_scale, max_loss_scale, window=scale_window)
        if automaton.dynamic:
            automaton.loss_scale = min(max_loss_scale, init_scale)
        self._show(automaton)

    def _show(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._overflow_buf = torch.zeros(1, dtype=torch.int)
        self._has_overflow = False

    @property
    def dynamic(self) -> bool:
        """Whether the scale moves."""
        return self._automaton.dynamic

    def loss_scale(self) -> float:
        """Returns the factor on the loss."""
        return self._automaton.loss_scale

    # Private in Apex, and set by tests and scripts all the same.
    @property
    def _loss_scale(self) -> float:
        return self._automaton.loss_scale

    @_loss_scale.setter
    def _loss_scale(self, value: float) -> None:
        self._automaton.set_state(value, self._automaton.unskipped)

    @property
    def _unskipped(self) -> int:
        return self._automaton.unskipped

    @_unskipped.setter
    def _unskipped(self, value: int) -> None:
        self._automaton.set_state(self._automaton.loss_scale, value)

    @property
    def _min_loss_scale(self) -> float:
        return self._automaton.minimum

    @_min_loss_scale.setter
    def _min_loss_scale(self, value: float | None) -> None:
        self._automaton.minimum = value or 0.0

    @property
    def _max_loss_scale(self) -> float:
        return self._automaton.maximum

    @_max_loss_scale.setter
    def _max_loss_scale(self, value: float) -> None:
        self._automaton.maximum = value

    @property
    def _scale_seq_len(self) -> int:
        return self._automaton.window

    @_scale_seq_len.setter
    def _scale_seq_len(self, value: int) -> None:
        self._automaton.window = value

    def unscale(
        self,
        model_grads: Iterable[Tensor | None],
        master_grads: Iterable[Tensor | None],
        unused_scale: float | None = None,
        models_are_masters: bool = False,
        scale_override: float | None = None,
    ) -> None:
        """Writes gradients divided by the scale to the masters', and notes an overflow for `update_scale`.

        Args:
            model_grads: scaled gradients; None is passed over.
            master_grads: where they go, in the same order.
            unused_scale: no effect, as in Apex.
            models_are_masters: whether a static scale of 1 leaves nothing to do.
            scale_override: to divide by in place of the scale.
        """
        scale = self.loss_scale() if scale_override is None else scale_override
        if self._has_overflow or (scale == 1.0 and models_are_masters and not self.dynamic):
            return
        pairs = [
            (grad, master)
            for grad, master in zip(model_grads, master_grads, strict=True)
            if grad is not None and master is not None
        ]
        sources, targets = [grad for grad, _ in pairs], [master for _, master in pairs]
        self._buffer_on(sources)
        multi_tensor_scale(0, self._overflow_buf, [sources, targets], 1.0 / scale)

    def unscale_with_stashed(
        self,
        model_grads: Iterable[Tensor],
        stashed_master_grads: Iterable[Tensor],
        master_grads: Iterable[Tensor],
        scale_override: tuple[float, float, float] | None = None,
    ) -> None:
        """Writes the gradients divided by the scale, plus those of earlier passes, to the masters'.

        Args:
            model_grads: scaled gradients, which alone are checked.
            stashed_master_grads: of earlier passes.
            master_grads: where the sums go.
            scale_override: the scales of the gradients, of the earlier ones, and of the sums.
        """
        if self._has_overflow:
            return
        of_grads, of_stashed, out = (self.loss_scale(), 1.0, 1.0) if scale_override is None else scale_override
        lists = [list(model_grads), list(stashed_master_grads), list(master_grads)]
        self._buffer_on(lists[0])
        multi_tensor_axpby(0, self._overflow_buf, lists, out / of_grads, out / of_stashed, 0)

    def _buffer_on(self, grads: list[Tensor]) -> None:
        if grads and grads[0].device != self._overflow_buf.device:
            self._overflow_buf = self._overflow_buf.to(grads[0].device)

    def clear_overflow_state(self) -> None:
        """Forgets an overflow."""
        self._has_overflow = False
        self._overflow_buf.zero_()

    def update_scale(self) -> bool:
        """Moves the scale after a step, and returns whether that step must be skipped."""
        if self.dynamic and not self._has_overflow:
            self._has_overflow = bool(self._overflow_buf.item())
        return self._automaton.update(self._has_overflow)


_views: WeakKeyDictionary[Automaton, LossScaler] = WeakKeyDictionary()


def view_of(automaton: Automaton) -> LossScaler:
    """Returns the scaler of Apex's class that shows and moves one of a session, the same one each time.

    Args:
        automaton: of the session.
    """
    if automaton not in _views:
        view = LossScaler.__new__(LossScaler)
        view._show(automaton)
        _views[automaton] = view
    return _views[automaton]
