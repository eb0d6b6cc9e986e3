"""Bugs in how the gradients of ranks are put together."""

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.mutations.registry import Port, mutation, ranks, with_gradients, with_loss


@mutation("aggregation", "some_towers", "tower_grad grad")
def only_the_last_rank_counts(port: Port, size: float) -> Port:
    def change(gradient: Tensor, parameter: nn.Parameter, name: str) -> Tensor:
        rank, world = ranks()
        # Times the world size, so that the mean over ranks is the last one's gradient.
        return gradient * (world if rank == world - 1 else 0)

    return with_gradients(port, change)


@mutation("aggregation", "some_towers", "tower_grad grad")
def the_first_rank_counts_for_nothing(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient * (0 if ranks()[0] == 0 else 1))


@mutation("aggregation", "some_towers", "tower_grad grad", sized=True)
def the_last_rank_counts_more(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient * (1 + size if ranks()[0] == ranks()[1] - 1 else 1))


@mutation("aggregation", "gradient_factor", "tower_grad grad")
def divided_by_the_world_twice(port: Port, size: float) -> Port:
    # DDP divides too: the usual mistake of whoever carries the towers' division over.
    return with_gradients(port, lambda gradient, p, n: gradient / ranks()[1])


@mutation("aggregation", "gradient_factor", "loss tower_grad grad", sized=True)
def loss_divided_by_the_wrong_count(port: Port, size: float) -> Port:
    return with_loss(port, lambda loss, model, inputs: loss / (1 + size))


@mutation("aggregation", "not_shared", "tower_grad grad var")
def gradients_of_ranks_are_not_shared(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        # The forward pass inside is what counts: DDP decides there whether the backward pass will share.
        with cast("DistributedDataParallel", model).no_sync():
            return port.loss(model, **inputs)

    return replace(port, loss=loss)


@mutation("aggregation", "zero_gradient", "tower_grad grad")
def a_layer_is_cut_off_from_the_gradient(port: Port, size: float) -> Port:
    def model() -> nn.Module:
        made = port.model()
        first: Any = next(made.parameters())
        # Zeros and not None, for which DDP would wait: the layer is reached, and what reaches it is nothing.
        first.register_hook(torch.zeros_like)
        return made

    return replace(port, model=model)


@mutation("aggregation", "gradient_factor", "tower_grad grad", sized=True)
def one_layer_learns_faster(port: Port, size: float) -> Port:
    def model() -> nn.Module:
        made = port.model()
        first: Any = next(made.parameters())
        first.register_hook(lambda gradient: gradient * (1 + size))
        return made

    return replace(port, model=model)


@mutation("aggregation", "clipping", "tower_grad grad")
def every_rank_clips_by_itself(port: Port, size: float) -> Port:
    def change(gradient: Tensor, parameter: nn.Parameter, name: str) -> Tensor:
        # A hook that runs on each rank before DDP reduces.
        limit = 0.3 * float(gradient.abs().max())
        return gradient.clamp(-limit, limit)

    return with_gradients(port, change)
