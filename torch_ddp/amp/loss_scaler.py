"""The automaton of dynamic loss scaling, with Apex's numbers."""

import torch

from torch_ddp.amp.errors import AmpError

INITIAL_SCALE = 2.0**16
MAXIMUM_SCALE = 2.0**24
FACTOR = 2.0
WINDOW = 2000


class LossScaler:
    """Holds one loss scale and moves it after every backward pass.

    The rule is that of `apex/amp/scaler.py` (tag 25.04): an overflow halves the scale and skips the step; 2000 backward
    passes in a row without one double it, up to a cap. `torch.amp.GradScaler` follows the same rule without cap and floor.

    Attributes:
        loss_scale: the factor on the loss, at least 0.
        unskipped: backward passes since the last overflow or doubling; a static scaler counts on for ever, as Apex does.
        dynamic: whether the scale moves at all.
        found: tensors of one element, above 0 for an overflow that has not been counted yet.
    """

    def __init__(
        self,
        loss_scale: float | str = "dynamic",
        minimum: float | None = None,
        maximum: float | None = MAXIMUM_SCALE,
        *,
        window: int = WINDOW,
    ) -> None:
        """Starts at 2^16, or at the cap where that is lower; a number makes it static.

        Args:
            loss_scale: "dynamic", or the scale to stay at.
            minimum: the floor of a dynamic scale; None or 0 is no floor, as in Apex.
            maximum: the cap of a dynamic scale; None is no cap.
            window: backward passes without an overflow that double a dynamic scale; at least 1.

        Raises:
            AmpError: a static scale is not above zero, or the floor is above the cap.
        """
        self.dynamic = loss_scale == "dynamic"
        self.minimum = minimum or 0.0
        self.maximum = float("inf") if maximum is None else maximum
        self.window = window
        self.unskipped = 0
        self.found: list[torch.Tensor] = []
        if self.minimum > self.maximum:
            raise AmpError(
                f"LossScaler: expected min_loss_scale <= max_loss_scale, got {self.minimum} and {self.maximum}. "
                "Exchange them."
            )
        self.loss_scale = min(INITIAL_SCALE, self.maximum) if self.dynamic else float(loss_scale)
        if not self.loss_scale > 0:
            raise AmpError(f"LossScaler: expected a loss scale above 0, got {loss_scale}. Pass 'dynamic' or 1.0.")

    def update(self, overflow: bool) -> bool:
        """Moves the scale after a backward pass.

        Args:
            overflow: whether a gradient of this pass held an infinity or a NaN; a static scaler ignores it.

        Returns:
            True where the step must be skipped.
        """
        if overflow and self.dynamic:
            self.loss_scale = max(self.minimum, self.loss_scale / FACTOR)
            self.unskipped = 0
            return True
        self.unskipped += 1
        if self.dynamic and self.unskipped == self.window:
            self.loss_scale = min(self.maximum, self.loss_scale * FACTOR)
            self.unskipped = 0
        return False

    def take_found(self) -> bool:
        """Returns whether an overflow was found since the last call; a static scaler does not wait for the device."""
        found, self.found = self.found, []
        return self.dynamic and any(bool(one) for one in found)

    def set_state(self, loss_scale: float, unskipped: int) -> None:
        """Sets the scale and the count of clean passes, as a checkpoint holds them.

        Args:
            loss_scale: at least 0.
            unskipped: at least 0.
        """
        self.loss_scale = loss_scale
        self.unskipped = unskipped
