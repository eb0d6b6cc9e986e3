"""Calls the loss, the step and the optimizer that a port brings, and answers what is none with one line."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from parity.worker.protocol import SideError
from parity.worker.user_code import call_as
from torch_ddp.errors import TorchDdpError


def call_loss(loss: Callable[..., Any], model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
    """Returns ``loss(model, **inputs)``.

    Raises:
      SideError: it cannot be called so. Whatever else it raises comes through.
    """
    return call_with_inputs("loss", loss, {"model": model}, inputs)


def call_optimizer(spec: str, function: Callable[..., Any], model: nn.Module) -> Optimizer:
    """Returns ``function(model)``, an optimizer.

    Args:
      spec: what the case calls the function, "module:function".
      function: the port's.
      model: the port's.

    Raises:
      SideError: it cannot be called so, or makes something else. Whatever else it raises comes through.
    """
    optimizer = call_as(f"{spec.partition(':')[2]}(model)", function, [model])
    if not isinstance(optimizer, Optimizer):
        raise SideError(
            f"case: expected {spec} to make a torch.optim.Optimizer, got {type(optimizer).__name__}. Return one."
        )
    return optimizer


def call_with_inputs(
    who: str, function: Callable[..., Any], given: Mapping[str, Any], inputs: Mapping[str, Tensor]
) -> Any:
    """Returns what a function of the port makes of one rank's shard.

    Args:
      who: what the case calls it, "loss" or "step".
      function: of `given` by position and of `inputs` by name.
      given: what it calls them, for the message, to what comes first.
      inputs: arrays of the batch by name.

    Raises:
      SideError: it cannot be called so. Whatever else it raises comes through.
    """
    written = f"{who}({', '.join([*given, *(f'{name}=...' for name in sorted(inputs))])})"
    cure = "Name its arguments as the batches name their arrays."
    return call_as(written, function, list(given.values()), dict(inputs), cure)


def loss_and_outputs(returned: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the loss, a scalar, and the dict of outputs of what a port's loss returned.

    Args:
      returned: a loss, or a loss and a dict of name to tensor.

    Raises:
      TorchDdpError: it is neither, or the loss has axes.

    Counterpart: tf_towers.graph.tower.loss_and_outputs
    """
    # Named tuples of two are taken as well, whatever their fields are called.
    loss, outputs = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
    if not isinstance(loss, Tensor):
        raise TorchDdpError(
            f"loss: expected a scalar tensor, or (loss, dict of outputs), got {type(loss).__name__}. "
            "Return the tensor itself, not its number."
        )
    # TensorFlow sums the gradients of such a loss silently, torch refuses it only in backward(): said here, with what
    # to do.
    if loss.ndim:
        raise TorchDdpError(f"loss: expected a scalar, got shape {tuple(loss.shape)}. Reduce it, e.g. with mean().")
    return loss, named_outputs("loss", outputs)


def require_gradient(loss: Tensor) -> None:
    """Refuses a loss that nothing leads back from.

    Raises:
      TorchDdpError: it has no gradient.
    """
    if not loss.requires_grad:
        raise TorchDdpError(
            "loss: expected a loss that depends on the weights, got one without a gradient. "
            "Look for detach(), no_grad(), item() or a tensor made anew between them."
        )


def named_outputs(who: str, outputs: Any) -> dict[str, Tensor]:
    """Returns a copy of the outputs beside a loss.

    Args:
      who: what the port calls the function that returned them, "loss" or "step".
      outputs: dict of name to tensor.

    Raises:
      TorchDdpError: they are not that.
    """
    # The first that is no tensor, for the message.
    wrong = next(
        (f"{name!r}: {_kind(value)}" for name, value in _items(outputs) if not isinstance(value, Tensor)), None
    )
    if not isinstance(outputs, Mapping) or wrong:
        raise TorchDdpError(
            f"{who}: expected the outputs beside the loss to be a dict of name to tensor, got {wrong or _kind(outputs)}. "
            'Return (loss, {"logits": logits}).'
        )
    return dict(outputs)


def _items(outputs: Any) -> list[tuple[Any, Any]]:
    return list(outputs.items()) if isinstance(outputs, Mapping) else []


def _kind(value: Any) -> str:
    return type(value).__name__
