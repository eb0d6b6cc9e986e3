"""Evaluates a port in inference mode after training: with its weights, and with their moving averages."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from parity.trace import evaluated
from torch_ddp.step.backward import Loss
from torch_ddp.step.user_calls import call_loss, loss_and_outputs

# Two seeds, so that outputs which differ between them are known to be drawn; which two does not matter.
SEED_BY_EVALUATION = {"eval": 0, "train": 0, "other draws": 1}


def evaluate_whole(
    model: nn.Module, loss: Loss, inputs: Mapping[str, Tensor], averages: Mapping[str, Tensor], evaluation: str = "eval"
) -> dict[str, Tensor]:
    """Calls the loss on a whole batch in evaluation mode, without gradients, as programs do after training.

    A port whose evaluation draws random numbers or moves its statistics gets the same draws every time, and its buffers
    back: what it is found out by, it must not disturb.

    Args:
      model: wrapped or not; every rank calls this with the same batch.
      loss: ``loss(model, **inputs)`` returns a scalar, or a scalar and a dict of name to tensor.
      inputs: dict of input name to tensor ``[batch, ...]``.
      averages: dict of parameter name, without DDP's "module.", to its moving average; empty where there is none.
      evaluation: "eval"; for experiments "train", in that mode, or "other draws", after another seed.

    Returns:
      Dict of trace name, "eval/loss" and so on, to tensor.

    Raises:
      TorchDdpError: the loss is no scalar.

    Counterpart: tf_towers.Stepper.evaluate
    """
    seed = SEED_BY_EVALUATION[evaluation]
    with _in_mode(model, evaluation == "train"):
        found = evaluated(*_called(model, loss, inputs, seed))
        if averages:
            with _in_place_of_weights(model, averages):
                found.update(evaluated(*_called(model, loss, inputs, seed), averages=True))
    return found


def _called(model: nn.Module, loss: Loss, inputs: Mapping[str, Tensor], seed: int) -> tuple[Tensor, dict[str, Tensor]]:
    # In evaluation mode buffers should stay; a port whose batch norm moves them there is found out, and set back.
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = {tensor.device for tensor in model.parameters() if tensor.is_cuda}
    # The generators go on afterwards as if nobody had evaluated, and training stays reproducible.
    with torch.random.fork_rng(sorted(device.index for device in devices)):
        torch.manual_seed(seed)
        returned = call_loss(loss, model, inputs)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    return loss_and_outputs(returned)


@contextmanager
def _in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(modes[model])  # ports may override it to do more than set the flag
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def _in_place_of_weights(model: nn.Module, averages: Mapping[str, Tensor]) -> Iterator[None]:
    parameters = {name.removeprefix("module."): parameter for name, parameter in model.named_parameters()}
    kept = {name: parameters[name].detach().clone() for name in averages}
    for name, average in averages.items():
        # In place: the optimizer and DDP have to go on holding the same parameters.
        parameters[name].copy_(average)
    try:
        yield
    finally:
        for name, value in kept.items():
            parameters[name].copy_(value)
