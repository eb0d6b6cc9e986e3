"""Connectionist temporal classification with TensorFlow's blank, and what its kernel refuses and lets pass."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError

# The logarithm of 0 for paths that do not exist: finite, so that gradients of what is not taken are 0 and no NaN.
IMPOSSIBLE = -1e30


def ctc_loss(
    labels: Sequence[Tensor],
    inputs: Tensor,
    sequence_length: Tensor,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
) -> Tensor:
    """Returns the negative logarithm of the probability of each example's labels, over all alignments.

    The blank is the **last** class; torch's default is the first. The inputs are logits. As in the kernel, labels end
    before the first blank among them, and labels with no alignment (two equal ones need a blank between) have the loss
    infinity and the gradient ``softmax(inputs)``. Source: tensorflow/core/util/ctc/ctc_loss_calculator.h, 1.15.

    Args:
        labels: int64, for each example a tensor of shape [labels], where TensorFlow has a SparseTensor.
        inputs: logits, shape [time, batch, classes].
        sequence_length: int64, shape [batch], at most time.
        preprocess_collapse_repeated: whether equal labels in a row count once.
        ctc_merge_repeated: whether equal classes in a row mean one label; if not, each step without a blank is a label.
        ignore_longer_outputs_than_inputs: whether an example with more labels than steps has the loss 0, and is no error.
        time_major: whether time is the first axis of inputs; else batch is.

    Returns:
        Shape [batch].

    Raises:
        LikeTfError: the numbers of examples differ, a length is larger than time or less than the number of labels, an
            example has no labels, or a negative one, or one after a blank.

    Counterpart: tf.compat.v1.nn.ctc_loss.
    """
    logits = inputs if time_major else inputs.transpose(0, 1)
    steps, batch, classes = logits.shape
    lengths = [int(length) for length in sequence_length]
    _check("expected as many labels and lengths as examples", len(labels) == len(lengths) == batch, len(labels))
    _check(f"expected lengths of at most {steps}", all(length <= steps for length in lengths), lengths)
    targets, skipped = [], []
    for example, (row, length) in enumerate(zip(labels, lengths, strict=True)):
        target = _labels(row, example, classes - 1)
        enough = len(row) <= length
        if not enough and not ignore_longer_outputs_than_inputs:
            raise LikeTfError(
                f"ctc_loss: expected at least {len(row)} steps for the labels of example {example}, got {length}. "
                "Leave it out, or set ignore_longer_outputs_than_inputs."
            )
        if preprocess_collapse_repeated:
            target = [label for label, _ in itertools.groupby(target)]
        targets.append(target)
        skipped.append(not enough)
    valid = torch.arange(steps, device=inputs.device).unsqueeze(1) < sequence_length.to(inputs.device)
    likelihood = _likelihood(logits.log_softmax(-1), targets, valid, ctc_merge_repeated)
    # The kernel's gradient is softmax minus the share of the alignments, of which there are none: the derivative of the
    # normaliser alone.
    normaliser = torch.where(valid, logits.logsumexp(-1), 0.0).sum(0)
    none = likelihood < IMPOSSIBLE / 2
    loss = torch.where(none, normaliser - normaliser.detach() + torch.inf, -likelihood)
    return torch.where(torch.tensor(skipped, device=inputs.device), 0.0, loss)


def _check(expected: str, holds: bool, got: object) -> None:
    if not holds:
        raise LikeTfError(f"ctc_loss: {expected}, got {got}. Give one for each example.")


def _labels(row: Tensor, example: int, blank: int) -> list[int]:
    values = [int(label) for label in row]
    kept = list(itertools.takewhile(lambda label: label < blank, values))
    behind = values[len(kept) :]
    # Without a label before the first blank the kernel writes outside its table, and the loss is any number.
    if not kept or min(values) < 0 or any(label < blank for label in behind):
        raise LikeTfError(
            f"ctc_loss: expected labels from 0 to {blank - 1} of example {example}, at least one, "
            f"got {values}. The blank is class {blank}; no label may follow one."
        )
    return kept


def _likelihood(log_probs: Tensor, targets: Sequence[Sequence[int]], valid: Tensor, merge: bool) -> Tensor:
    """Sums over alignments in logarithms: log_probs [time, batch, classes], valid bool [time, batch]; to [batch]."""
    device, blank = log_probs.device, log_probs.shape[-1] - 1
    states = 2 * max(map(len, targets), default=0) + 1
    # Blanks around each label; what is behind an example's own last blank is never read at the end.
    path = torch.full((len(targets), states), blank, device=device)
    for example, target in enumerate(targets):
        path[example, 1 : 2 * len(target) : 2] = torch.tensor(target, dtype=torch.int64, device=device)
    is_blank = path == blank
    twice = torch.zeros_like(is_blank)
    twice[:, 2:] = path[:, 2:] == path[:, :-2]
    may_stay = is_blank if not merge else torch.ones_like(is_blank)
    # From two states before: over a blank that is left out, between labels that stay two.
    may_skip = ~is_blank & ~(twice if merge else torch.zeros_like(twice))
    emitted = log_probs.gather(2, path.expand(log_probs.shape[0], -1, -1))
    impossible = log_probs.new_full((len(targets), 1), IMPOSSIBLE)
    # Two columns that are no state come first, so that every state has two before it. The first step begins in the
    # first blank or in the first label: as if it came from the column before the first state.
    alpha = impossible.repeat(1, states + 2)
    alpha[:, 1] = 0.0
    may_begin = torch.arange(states, device=device) < 2
    for time, (emission, running) in enumerate(zip(emitted, valid, strict=True)):
        skip = may_skip if time else may_begin & ~is_blank
        ways = [
            torch.where(may_stay, alpha[:, 2:], IMPOSSIBLE),
            alpha[:, 1:-1],
            torch.where(skip, alpha[:, :-2] if time else torch.zeros_like(emission), IMPOSSIBLE),
        ]
        new = torch.stack(ways).logsumexp(0) + emission
        alpha = torch.cat([impossible, impossible, torch.where(running.unsqueeze(1), new, alpha[:, 2:])], 1)
    ends = torch.tensor([2 * len(target) for target in targets], device=device).unsqueeze(1)
    # In the last blank or in the last label; without labels the column before it is no state.
    last = torch.cat([alpha.gather(1, ends + 2), alpha.gather(1, ends + 1)], 1)
    return last.logsumexp(1)
