"""Bugs in the loss."""

from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from torch_ddp.mutations.registry import Port, mutation, with_loss, with_own_function


@mutation("loss", "loss_reduction", "loss")
def the_loss_is_a_sum_over_examples(port: Port, size: float) -> Port:
    return with_loss(port, lambda loss, model, inputs: loss * len(next(iter(inputs.values()))))


@mutation("loss", "loss_scale", "loss tower_grad")
def the_loss_scale_stays_in(port: Port, size: float) -> Port:
    # 2^10: exact, so that all gradients are off by that factor to the last bit.
    return with_loss(port, lambda loss, model, inputs: loss * 1024)


@mutation("loss", "weight_decay", "loss", sized=True)
def weights_decay_in_the_loss(port: Port, size: float) -> Port:
    def change(loss: Tensor, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        # Kernels alone, by their axes; tf.nn.l2_loss's half, so that the gradient is 1e-2 * size * w.
        return loss + 1e-2 * size * sum(p.square().sum() / 2 for p in model.parameters() if p.ndim > 1)

    return with_loss(port, change)


@mutation("loss", "weight_decay", "loss", sized=True)
def biases_decay_too(port: Port, size: float) -> Port:
    def change(loss: Tensor, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        return loss + 1e-2 * size * sum(p.square().sum() / 2 for p in model.parameters() if p.ndim == 1)

    return with_loss(port, change)


@mutation("loss", "cross_entropy", "loss", needs="classes", sized=True)
def labels_smoothed(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        _, outputs = port.loss(model, **inputs)
        return F.cross_entropy(outputs["logits"], inputs["labels"].long(), label_smoothing=0.1 * size), outputs

    return replace(port, loss=loss)


@mutation("loss", "cross_entropy", "loss", needs="classes")
def softmax_twice(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        _, outputs = port.loss(model, **inputs)
        # TensorFlow.
        return F.cross_entropy(outputs["logits"].softmax(1), inputs["labels"].long()), outputs

    return replace(port, loss=loss)


@mutation("loss", "weight_decay", "loss", needs="decay")
def the_decay_of_the_graph_is_missing(port: Port, size: float) -> Port:
    return with_own_function(port, "l2_loss", lambda plain, weights: 0.0 * plain(weights))


@mutation("loss", "weight_decay", "loss", needs="decay", sized=True)
def another_decay_than_the_graphs(port: Port, size: float) -> Port:
    return with_own_function(port, "l2_loss", lambda plain, weights: (1 + size) * plain(weights))
