"""An optimizer that keeps float32 masters of half weights, and scales the loss itself."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from torch_ddp.amp.loss_scaler import INITIAL_SCALE, MAXIMUM_SCALE, WINDOW, LossScaler
from torch_ddp.amp.optimizer_state import Stash, make_masters, masters_to_weights
from torch_ddp.amp.scale_loss import add_set_aside, put_back, set_aside, unscale
from torch_ddp.fp16_utils.convert import Fp16Error


class FP16_Optimizer:
    """Steps float32 masters of a half model's weights, and rounds them into the model.

    ``loss.backward()`` becomes ``optimizer.backward(loss)``; everything else of a training loop stays. Gradients of several
    passes add up until `step` or `zero_grad`. The loss scale follows `torch_ddp.amp`: an overflow halves it, and the next
    `step` does nothing.

    Args:
        init_optimizer: over half or float32 weights; its groups then hold the masters, and its state goes to them.
        static_loss_scale: the factor on the loss, above 0.
        dynamic_loss_scale: whether the scale moves, instead.
        dynamic_loss_args: any of init_scale, scale_window, min_loss_scale and max_loss_scale; scale_factor must be 2.
        verbose: whether to print skipped steps.

    Attributes:
        optimizer: the one given.
        overflow: whether a gradient held an infinity or a NaN, in passes for the coming `step` or, before those, the last.

    Raises:
        Fp16Error: an argument of the dynamic scale is unknown.
        AmpError: a scale is not above 0.

    Counterpart: apex.fp16_utils.FP16_Optimizer
    """

    def __init__(
        self,
        init_optimizer: Optimizer,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.optimizer = init_optimizer
        self.dynamic_loss_scale = dynamic_loss_scale
        self.overflow = False
        self._begins = True  # whether the next pass is the first for its step
        self._verbose = verbose
        self._scaler = _dynamic(dynamic_loss_args or {}) if dynamic_loss_scale else LossScaler(static_loss_scale)
        self._stash = Stash(keeps_masters=True)
        make_masters(init_optimizer, self._stash)

    @property
    def loss_scale(self) -> float:
        """The factor on the loss."""
        return self._scaler.loss_scale

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self._scaler.loss_scale = value

    @property
    def state(self) -> Any:
        """The optimizer's slots, by master."""
        return self.optimizer.state

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups, which hold the masters."""
        return self.optimizer.param_groups

    def zero_grad(self, set_grads_to_None: bool = True) -> None:
        """Clears the gradients of masters and weights.

        Args:
            set_grads_to_None: whether weights have none afterwards, or zeros; masters have none.
        """
        self.optimizer.zero_grad(set_grads_to_None)
        self._drop_master_grads()
        self._stash.delayed_scale = None
        self._begins = True
        for weight, _ in self._stash.pairs:
            weight.grad = None if set_grads_to_None or weight.grad is None else torch.zeros_like(weight.grad)

    def backward(self, loss: Tensor, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """Differentiates the scaled loss.

        Args:
            loss: a scalar; scaled in float32 at least.
            update_master_grads: False leaves the gradients scaled, for `update_master_grads` to be called after more passes.
            retain_graph: as of ``loss.backward``.

        Raises:
            Fp16Error: the scale has fallen below 2^-127, or was set anew while scaled gradients wait.
        """
        scale, waiting = self._scaler.loss_scale, self._stash.delayed_scale
        self._scaler.check("FP16_Optimizer.backward", Fp16Error)
        if waiting not in (None, scale):
            raise Fp16Error(
                f"FP16_Optimizer.backward: expected the loss scale {waiting} of the gradients that wait, got {scale}. "
                "Call update_master_grads() before setting loss_scale."
            )
        if self._begins:
            self._begins = self.overflow = False
        # Gradients that wait are still scaled, by this scale, and new ones add to them in .grad. Only unscaled ones
        # are set aside.
        if waiting is None:
            with torch.no_grad():
                set_aside(self.optimizer, self._stash)
        try:
            ((loss if loss.dtype is torch.float64 else loss.float()) * scale).backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
        except BaseException:
            put_back(self._stash)
            raise
        self._stash.delayed_scale = scale
        if update_master_grads:
            self.update_master_grads()

    @torch.no_grad()
    def update_master_grads(self) -> None:
        """Unscales the gradients since the last call, adds them to the masters', and moves the loss scale."""
        if self._stash.delayed_scale is None:
            return
        self._scaler.found += unscale(self.optimizer, self._stash, self._stash.delayed_scale)
        add_set_aside(self._stash)
        self._stash.delayed_scale = None
        if self._scaler.update(self._scaler.take_found()):
            self.overflow = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Steps the masters and rounds them into the model, unless a gradient overflowed.

        Args:
            closure: calls `zero_grad` and `backward` and returns the loss, for optimizers that evaluate it themselves, as
                LBFGS does. It sees the masters rounded into the model; where it overflows, it is called again at the
                smaller scale.

        Raises:
            Fp16Error: gradients are still scaled, or a closure overflows at every loss scale.
        """
        self._refuse_scaled_gradients()
        result = None
        self._begins = True
        if self.overflow:
            if self._verbose:
                print(f"Gradient overflow.  Skipping step, reducing loss scale to {self.loss_scale}")
        else:
            result = self.optimizer.step() if closure is None else self.optimizer.step(partial(self._evaluate, closure))
            masters_to_weights(self._stash)
        self._begins = True
        self._drop_master_grads()
        return result

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Tensor | float:
        """Clips the unscaled gradients by their norm over all weights, and returns that norm, or -1 after an overflow.

        Args:
            max_norm: above 0.
            norm_type: the p of the norm.
        """
        if self.overflow:
            return -1
        return clip_grad_norm_(
            [master for group in self.param_groups for master in group["params"]], max_norm, norm_type
        )

    def inspect_master_grad_data(self) -> list[list[Tensor | None]] | None:
        """Returns the unscaled gradients by group, None for a weight without, or None altogether after an overflow."""
        if self.overflow:
            return None
        return [[master.grad for master in group["params"]] for group in self.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Returns the optimizer's state, the masters and the loss scale; tensors and numbers only.

        "fp32_from_fp16" has a list for each group, with the masters themselves, as Apex: scripts change them there.
        """
        return {
            "loss_scale": self._scaler.loss_scale,
            "unskipped": self._scaler.unskipped,
            "overflow": self.overflow,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "fp32_from_fp16": self._masters_by_group(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned, and rounds the masters into the model.

        Raises:
            Fp16Error: the masters are those of other weights.
        """
        masters = list(chain.from_iterable(self._masters_by_group()))
        saved = list(chain.from_iterable(state_dict["fp32_from_fp16"]))
        if [one.shape for one in saved] != [one.shape for one in masters]:
            raise Fp16Error(
                f"FP16_Optimizer.load_state_dict: expected masters of shapes {[tuple(one.shape) for one in masters]}, got "
                f"{[tuple(one.shape) for one in saved]}. Make the same model and optimizer first."
            )
        self._scaler.set_state(float(state_dict["loss_scale"]), int(state_dict["unskipped"]))
        self.overflow, self._begins = bool(state_dict["overflow"]), True
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
        with torch.no_grad():
            for master, one in zip(masters, saved, strict=True):
                master.copy_(one)
        masters_to_weights(self._stash)

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        masters_to_weights(self._stash)
        while True:
            scale, self._begins = self.loss_scale, True
            loss = closure()
            self._refuse_scaled_gradients()
            if not self.overflow:
                return loss
            # Below this the factor that unscales, 1 / scale, is none in float32.
            if not scale > self.loss_scale > torch.finfo(torch.float32).tiny:
                raise Fp16Error(
                    "FP16_Optimizer.step: expected finite gradients of the closure at some loss scale, got none down to "
                    f"{scale}. Look for a NaN in the loss."
                )

    def _refuse_scaled_gradients(self) -> None:
        if self._stash.delayed_scale is not None:
            raise Fp16Error(
                "FP16_Optimizer.step: expected unscaled gradients, got some of backward(update_master_grads=False). "
                "Call update_master_grads() first."
            )

    def _masters_by_group(self) -> list[list[Tensor]]:
        masters = {id(master) for _, master in self._stash.pairs}
        return [[weight for weight in group["params"] if id(weight) in masters] for group in self.param_groups]

    def _drop_master_grads(self) -> None:
        for _, master in self._stash.pairs:
            master.grad = None


def _dynamic(given: dict[str, Any]) -> LossScaler:
    known = {
        "init_scale": INITIAL_SCALE,
        "scale_factor": 2.0,
        "scale_window": WINDOW,
        "min_loss_scale": None,
        "max_loss_scale": MAXIMUM_SCALE,
    }
    unknown = sorted(set(given) - set(known))
    values = {**known, **given}
    if unknown or values["scale_factor"] != 2.0:
        raise Fp16Error(
            f"FP16_Optimizer: expected dynamic_loss_args among {list(known)}, with scale_factor 2, got {given}. "
            "Leave out the others; Apex ignores the factor."
        )
    scaler = LossScaler("dynamic", values["min_loss_scale"], values["max_loss_scale"], window=values["scale_window"])
    scaler.loss_scale = min(values["init_scale"], scaler.maximum)
    return scaler
