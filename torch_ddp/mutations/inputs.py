"""Bugs in what ranks are fed."""

import torch
from torch import Tensor

from torch_ddp.mutations.registry import Port, mutation, of_all_ranks, ranks, with_inputs


@mutation("data", "other_shard", "act loss")
def every_rank_reads_the_first_shard(port: Port, size: float) -> Port:
    return with_inputs(port, lambda inputs: {name: of_all_ranks(value)[0] for name, value in inputs.items()})


@mutation("data", "other_shard", "act loss")
def shards_in_reverse(port: Port, size: float) -> Port:
    return with_inputs(
        port, lambda inputs: {name: of_all_ranks(value)[-1 - ranks()[0]] for name, value in inputs.items()}
    )


@mutation("data", "order_of_examples", "act loss")
def shards_interleaved(port: Port, size: float) -> Port:
    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        rank, world = ranks()
        # rank, rank + world, ...: what DistributedSampler deals out without shuffling.
        return {name: torch.cat(of_all_ranks(value))[rank::world] for name, value in inputs.items()}

    return with_inputs(port, change)


@mutation("data", "stale_batch", "act loss")
def the_batch_of_the_step_before(port: Port, size: float) -> Port:
    # By dtypes: float32 and float64 runs use the same port, and a stale batch of the other precision would be another
    # bug.
    kept: dict[tuple[torch.dtype, ...], dict[str, Tensor]] = {}

    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        precision = tuple(value.dtype for value in inputs.values())
        before = kept.get(precision, inputs)
        kept[precision] = inputs
        return before

    return with_inputs(port, change)


@mutation("data", "input_scale", "act loss", needs="pixels", sized=True)
def inputs_scaled(port: Port, size: float) -> Port:
    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        # Images alone; labels and weights are floats too, of fewer axes.
        return {n: v * (1 + size) if v.is_floating_point() and v.ndim > 2 else v for n, v in inputs.items()}

    return with_inputs(port, change)


@mutation("data", "transposed_input", "act loss", needs="images")
def images_transposed(port: Port, size: float) -> Port:
    return with_inputs(
        port, lambda inputs: {n: v.transpose(1, 2).contiguous() if v.ndim == 4 else v for n, v in inputs.items()}
    )


@mutation("data", "labels_shifted", "loss", needs="labels")
def labels_off_by_one(port: Port, size: float) -> Port:
    return with_inputs(
        # Modulo the ten classes of the cases with labels, so that no loss refuses the last one.
        port,
        lambda inputs: {n: (v + 1) % 10 if not v.is_floating_point() else v for n, v in inputs.items()},
    )


@mutation("data", "reversed_input", "act loss", needs="images")
def images_upside_down(port: Port, size: float) -> Port:
    return with_inputs(port, lambda inputs: {n: v.flip(1) if v.ndim == 4 else v for n, v in inputs.items()})


@mutation("data", "input_shift", "act loss stat", needs="pixels", sized=True)
def inputs_centred_elsewhere(port: Port, size: float) -> Port:
    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        # Pixels are from 0 to 1: at size 1 they are centred, as many a pipeline has them.
        return {n: v - 0.5 * size if v.is_floating_point() and v.ndim > 2 else v for n, v in inputs.items()}

    return with_inputs(port, change)


@mutation("data", "reduced_precision", "act loss", needs="pixels")
def inputs_in_float16(port: Port, size: float) -> Port:
    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        # A third is no short binary number: pixels that are one would survive float16 as they are.
        return {n: (v / 3).half().to(v.dtype) * 3 if v.is_floating_point() else v for n, v in inputs.items()}

    return with_inputs(port, change)


@mutation("data", "repeated_examples", "act loss", needs="batch_free")
def one_example_twice(port: Port, size: float) -> Port:
    # As many as before, the first in the place of the second: by its size alone nothing is seen of it.
    return with_inputs(port, lambda inputs: {n: torch.cat([v[:1], v[:1], v[2:]]) for n, v in inputs.items()})


@mutation("data", "input_ignored", "loss", needs="weights")
def weights_that_do_not_count(port: Port, size: float) -> Port:
    return with_inputs(port, lambda inputs: {**inputs, "weights": torch.ones_like(inputs["weights"])})
