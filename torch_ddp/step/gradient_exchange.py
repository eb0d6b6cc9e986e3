"""Watches what becomes of gradients, whoever makes it of them: DDP, a hook of the port's, its step, its optimizer."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer


class OpenWrapper(DistributedDataParallel):
    """A wrapper whose model's own attributes are read as if it were the model: a loss may call a part of it by itself.

    DDP itself has none of them, and shares nothing of what is not computed by its forward.
    """

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the wrapper, or of the model that it wraps."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


class Sharing:
    """Knows which gradients DDP would share, without having it share them.

    DDP shares those of the parameters that it was given, but for what its module excepts by
    `_ddp_params_and_buffers_to_ignore`, and only where the forward pass went through it outside of `no_sync`.

    Args:
      model: wrapped.

    Attributes:
      armed: whether a forward pass since the last `disarmed` began would have had the backward pass share.
      called: whether there was any.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        ignored = set(getattr(model, "parameters_to_ignore", ()))
        trained = (name for name, parameter in model.module.named_parameters() if parameter.requires_grad)
        self._names = [name for name in trained if name not in ignored]
        self.armed = self.called = False
        # Nothing says how the parts of a model are to be wrapped that a loss calls by themselves: all are shared, but where
        # the loss calls the whole, which says whether it would be.
        self._is_open = isinstance(model, OpenWrapper)
        self._disarms = False
        self._asked = True
        model.register_forward_pre_hook(self._before)
        # Also where the forward pass raises: a flag of DDP's that stays changed would be the next step's.
        model.register_forward_hook(self._after, always_call=True)

    @contextlib.contextmanager
    def disarmed(self) -> Iterator[None]:
        """Has the backward passes within leave their gradients on their rank."""
        self._disarms = True
        try:
            yield
        finally:
            self._disarms = False

    def names(self) -> list[str]:
        """Returns the parameters that all ranks would share since `armed` was last set to False; a collective."""
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, self._names if self.armed or (self._is_open and not self.called) else [])
        # What one rank would not share, no rank can: DDP would hang, and the tool leaves it alone.
        agreed: set[str] = set.intersection(*map(set, every))
        return [name for name in self._names if name in agreed]

    def _before(self, model: DistributedDataParallel, inputs: Any) -> None:
        # In a hook before forward: no_sync has set the flag by now, and DDP reads it in its forward, after this.
        self._asked, self.called = model.require_backward_grad_sync, True
        self.armed = self.armed or (torch.is_grad_enabled() and self._asked)
        if self._disarms:
            model.require_backward_grad_sync = False

    def _after(self, model: DistributedDataParallel, inputs: Any, output: Any) -> None:
        if self._disarms:
            model.require_backward_grad_sync = self._asked


class GradientWatch:
    """Keeps what becomes of the gradients in a step that the port makes: each rank's own, the exchanged ones.

    Args:
      parameters: dict of name to parameter, as the model has them.

    Attributes:
      local: dict of name to this rank's gradient, as accumulated by its last backward pass, before any exchange.
      reduced: dict of name to the gradient as the last backward pass left it, DDP's exchange included.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = {name: value for name, value in parameters.items() if value.requires_grad}
        self.local: dict[str, Tensor] = {}
        self.reduced: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            # No reference to self: DDP holds such hooks where the garbage collector does not look.
            keep = functools.partial(_keep, self.local, name)
            parameter.register_post_accumulate_grad_hook(keep)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watches one step from its beginning."""
        # Cleared, not replaced: the hooks hold this very dict.
        self.local.clear()
        self.reduced.clear()
        # Tensor.backward calls it by this name. It returns after the callbacks of the engine, and so after DDP's
        # all-reduces.
        backward = torch.autograd.backward
        torch.autograd.backward = self._then_read(backward)
        try:
            yield
        finally:
            torch.autograd.backward = backward

    def present(self) -> dict[str, Tensor]:
        """Returns copies of the gradients as they are now."""
        return _copies_of_gradients(self._parameters.items())

    def _then_read(self, backward: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(backward)
        def watched(*arguments: Any, **options: Any) -> None:
            backward(*arguments, **options)
            self.reduced = self.present()

        return watched


class GradientObserver:
    """Keeps the gradients and the learning rate that an optimizer's `step` begins with, after the hooks registered before.

    Args:
      model: names the parameters; in mixed precision the one that shows the masters.
      optimizer: which updates.

    Attributes:
      given: dict of parameter name to a copy of its gradient in the last update since `forget`; None where there was none.
      rate: learning rate of the first group in that update, or None.
      updates: how many have ended since `forget`.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self._model = model
        self._hooks = [
            optimizer.register_step_pre_hook(self._before_update),
            optimizer.register_step_post_hook(self._after_update),
        ]
        self.forget()

    def forget(self) -> None:
        """Forgets the updates before, at the beginning of a step."""
        self.given: dict[str, Tensor] | None = None
        self.rate: float | None = None
        self.updates = 0

    def present(self) -> dict[str, Tensor]:
        """Returns copies of the gradients as they are now, by parameter name."""
        return _copies_of_gradients(self._model.named_parameters())

    def close(self) -> None:
        """Stops observing."""
        for hook in self._hooks:
            hook.remove()

    def _before_update(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        # Before the update: a scheduler that the port steps right after it has moved it by then.
        self.rate = float(optimizer.param_groups[0]["lr"])
        self.given = self.present()

    def _after_update(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        self.updates += 1


def _copies_of_gradients(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    return {name: value.grad.detach().clone() for name, value in parameters if value.grad is not None}


def _keep(local: dict[str, Tensor], name: str, parameter: Tensor) -> None:
    if parameter.grad is not None:
        local[name] = parameter.grad.detach().clone()


@contextlib.contextmanager
def cast_before_wrapping(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Moves every model that is wrapped within to a device and dtype first: DDP makes its buckets of what it is given."""
    plain = DistributedDataParallel.__init__

    @functools.wraps(plain)
    def wrap(self: DistributedDataParallel, module: nn.Module, *arguments: Any, **options: Any) -> None:
        plain(self, module.to(device, dtype), *arguments, **options)

    DistributedDataParallel.__init__ = wrap  # type: ignore[method-assign]
    try:
        yield
    finally:
        DistributedDataParallel.__init__ = plain  # type: ignore[method-assign]
