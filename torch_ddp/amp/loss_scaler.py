"""The automaton of dynamic loss scaling, with Apex's numbers."""

import torch

from torch_ddp.amp.errors import AmpError
from torch_ddp.errors import TorchDdpError

# Apex 25.04, amp/scaler.py and frontend.py; torch.amp.GradScaler took over all of it but the cap.
INITIAL_SCALE = 2.0**16
# The largest that Apex lets it grow to: a gradient of 2^-24, the least that float16 holds, is then 1. GradScaler has
# no cap, and stops at the largest float32 (measured: 1.7e38).
MAXIMUM_SCALE = 2.0**24
# Powers of 2, so that scaling and unscaling change exponents alone. Apex takes a `scale_factor`, and ignores it.
FACTOR = 2.0
# Counted in backward passes, as in Apex: 3 steps of 4 micro-batches are 12. GradScaler counts steps.
WINDOW = 2000

# Gradients are multiplied by the inverse of the scale, in float32, which ends just below 2^128.
LEAST_SCALE = 2.0**-127


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
        # Without a floor the scale can reach 0, and did in Apex and in GradScaler: `check` refuses it, and before it what
        # nothing can be unscaled by.
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

    def check(self, who: str, error: type[TorchDdpError] = AmpError) -> None:
        """Refuses a scale that gradients cannot be divided by in float32.

        Apex goes on, with gradients that are infinite or NaN at every step, until it divides by 0.

        Args:
            who: the public name that is about to scale, for the message.
            error: to raise.

        Raises:
            AmpError: or what `error` says; the scale is below 2^-127.
        """
        if self.loss_scale >= LEAST_SCALE:
            return
        why = (
            " after endless overflows. Look for a NaN in the loss or in the weights; min_loss_scale sets a floor."
            if self.dynamic
            else ". Pass a larger one, or 'dynamic'."
        )
        raise error(
            f"{who}: expected a loss scale of at least {LEAST_SCALE:.3g}, whose inverse float32 can hold, got "
            f"{self.loss_scale:.3g}{why}"
        )

    def update(self, overflow: bool) -> bool:
        """Moves the scale after a backward pass.

        Args:
            overflow: whether a gradient of this pass held an infinity or a NaN; a static scaler ignores it.

        Returns:
            True where the step must be skipped.
        """
        if overflow and self.dynamic:
            # Once for every pass with an overflow: two in one accumulation are a quarter (Apex: 65536 to 16384),
            # where GradScaler, which looks once a step, halves.
            self.loss_scale = max(self.minimum, self.loss_scale / FACTOR)
            self.unskipped = 0
            return True
        # Static scalers count too, as in Apex: the number is in its checkpoints.
        self.unskipped += 1
        if self.dynamic and self.unskipped == self.window:
            self.loss_scale = min(self.maximum, self.loss_scale * FACTOR)
            self.unskipped = 0
        return False

    def take_found(self) -> bool:
        """Returns whether an overflow was found since the last call; a static scaler does not wait for the device."""
        # bool() of a tensor waits for the device: asked of dynamic scalers alone, and once a pass.
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
