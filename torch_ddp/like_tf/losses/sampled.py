"""Losses over a sample of the classes, with the sampler that TensorFlow takes by default."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.losses.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
)

# What an accidental hit is lowered by: the kernel of compute_accidental_hits knows float32 alone.
LOWEST = -torch.finfo(torch.float32).max


class SampledValues(NamedTuple):
    """Classes that were drawn, and how often each was to be expected.

    Fields:
        sampled_candidates: int64, shape [num_sampled].
        true_expected_count: shape [batch, num_true].
        sampled_expected_count: shape [num_sampled].
    """

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


def log_uniform_candidate_sampler(
    true_classes: Tensor, num_true: int, num_sampled: int, unique: bool, range_max: int
) -> SampledValues:
    """Draws classes with the probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``: frequent ones come first.

    The draws are of torch's generator, so that they are others than TensorFlow's. Source:
    tensorflow/core/kernels/range_sampler.cc, 1.15.

    Args:
        true_classes: int64, shape [batch, num_true].
        num_true: target classes for each example.
        num_sampled: classes to draw.
        unique: whether none is drawn twice.
        range_max: number of classes.

    Returns:
        The classes and the expected counts, float32.

    Raises:
        LikeTfError: more classes are to be drawn, none of them twice, than there are, or true_classes do not fit.

    Counterpart: tf.compat.v1.nn.log_uniform_candidate_sampler.
    """
    who = "log_uniform_candidate_sampler"
    _check_true(who, true_classes, num_true)
    if unique and num_sampled > range_max:
        raise LikeTfError(
            f"{who}: expected at most {range_max} classes to draw, none twice, got {num_sampled}. "
            "Draw fewer, or set unique=False."
        )
    drawn: list[int] = []
    tries, seen = 0, set[int]()
    while len(drawn) < num_sampled:
        # As many as are missing: each is one try, in its turn, and what comes after the last one that was needed is none.
        for number in _log_uniform(num_sampled - len(drawn), range_max):
            tries += 1
            if not unique or number not in seen:
                seen.add(number)
                drawn.append(number)
    candidates = torch.tensor(drawn, dtype=torch.int64, device=true_classes.device)
    counts = [_expected(classes, num_sampled, tries, range_max) for classes in (true_classes, candidates)]
    return SampledValues(candidates, *counts)


def nce_loss(
    weights: Tensor,
    biases: Tensor,
    labels: Tensor,
    inputs: Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: SampledValues | None = None,
    remove_accidental_hits: bool = False,
) -> Tensor:
    """Returns the noise-contrastive loss: each class among target and sample is told from noise by itself.

    Source: nce_loss and _compute_sampled_logits in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        weights: shape [num_classes, features].
        biases: shape [num_classes].
        labels: int64, shape [batch, num_true].
        inputs: shape [batch, features].
        num_sampled: classes to draw for the whole batch.
        num_classes: how many there are.
        num_true: target classes for each example, which share a target of 1.
        sampled_values: what a sampler drew; None for log_uniform_candidate_sampler, unique.
        remove_accidental_hits: whether a target that was drawn too counts for nothing among the drawn.

    Returns:
        Shape [batch].

    Raises:
        LikeTfError: the shape of the labels does not fit, or more classes are to be drawn than there are.

    Counterpart: tf.compat.v1.nn.nce_loss.
    """
    given = _Sampled(weights, biases, labels, inputs, num_true, remove_accidental_hits)
    values = sampled_values or log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes)
    logits, targets = _sampled_logits("nce_loss", given, values)
    return sigmoid_cross_entropy_with_logits(targets, logits).sum(1)


def sampled_softmax_loss(
    weights: Tensor,
    biases: Tensor,
    labels: Tensor,
    inputs: Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: SampledValues | None = None,
    remove_accidental_hits: bool = True,
) -> Tensor:
    """Returns the cross entropy over target and sample, each logit lowered by the logarithm of its expected count.

    For training alone: it is below the full loss. Source: sampled_softmax_loss and _compute_sampled_logits in
    tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        weights: shape [num_classes, features].
        biases: shape [num_classes].
        labels: int64, shape [batch, num_true].
        inputs: shape [batch, features].
        num_sampled: classes to draw for the whole batch.
        num_classes: how many there are.
        num_true: target classes for each example, which share a target of 1.
        sampled_values: what a sampler drew; None for log_uniform_candidate_sampler, unique.
        remove_accidental_hits: whether a target that was drawn too counts for nothing among the drawn.

    Returns:
        Shape [batch].

    Raises:
        LikeTfError: the shape of the labels does not fit, or more classes are to be drawn than there are.

    Counterpart: tf.compat.v1.nn.sampled_softmax_loss.
    """
    given = _Sampled(weights, biases, labels, inputs, num_true, remove_accidental_hits)
    values = sampled_values or log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes)
    logits, targets = _sampled_logits("sampled_softmax_loss", given, values)
    return softmax_cross_entropy_with_logits(targets, logits)


class _Sampled(NamedTuple):
    weights: Tensor
    biases: Tensor
    labels: Tensor
    inputs: Tensor
    num_true: int
    remove_accidental_hits: bool


def _sampled_logits(who: str, given: _Sampled, values: SampledValues) -> tuple[Tensor, Tensor]:
    """Returns logits and targets, both of shape [batch, num_true + num_sampled]."""
    _check_true(who, given.labels, given.num_true)
    inputs, sampled = given.inputs, values.sampled_candidates
    # [batch, num_true, features] with [batch, 1, features].
    true = (given.weights[given.labels] * inputs.unsqueeze(1)).sum(2) + given.biases[given.labels]
    drawn = inputs @ given.weights[sampled].T + given.biases[sampled]
    if given.remove_accidental_hits:
        # [batch, num_true, num_sampled]; one for each target that a drawn class is.
        hits = (given.labels.unsqueeze(2) == sampled).sum(1)
        drawn = drawn + hits.to(drawn.dtype) * LOWEST
    # Stopped gradients: counts are data.
    true = true - values.true_expected_count.detach().to(true.dtype).log()
    drawn = drawn - values.sampled_expected_count.detach().to(drawn.dtype).log()
    targets = torch.cat([torch.ones_like(true) / given.num_true, torch.zeros_like(drawn)], 1)
    return torch.cat([true, drawn], 1), targets


def _check_true(who: str, labels: Tensor, num_true: int) -> None:
    if labels.dim() != 2 or labels.shape[1] != num_true:
        raise LikeTfError(
            f"{who}: expected labels of shape [batch, {num_true}], got {tuple(labels.shape)}. "
            "Give num_true columns, one for one class each."
        )


def _log_uniform(count: int, range_max: int) -> list[int]:
    uniform = torch.rand(count, dtype=torch.float64)
    # Of 1 the exponential could round up to range_max + 1: the kernel takes the remainder.
    numbers = (uniform * math.log1p(range_max)).exp().long() - 1
    return [int(number) % range_max for number in numbers]


def _expected(classes: Tensor, num_sampled: int, tries: int, range_max: int) -> Tensor:
    k = classes.to(torch.float32).double()
    probability = ((k + 2) / (k + 1)).log() / math.log1p(range_max)
    # As many tries as classes: none was drawn twice, or each counts.
    if tries == num_sampled:
        return (probability * num_sampled).float()
    return -torch.expm1(tries * torch.log1p(-probability)).float()
