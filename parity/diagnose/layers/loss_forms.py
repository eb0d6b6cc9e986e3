"""The losses of single examples, in the forms that ports mix up: what becomes of each, before one number is made of them."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from parity.diagnose.ops.activations import log_softmax
from parity.trace.arrays import Array

SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
BETAS = (1.0, 1.0 / 9.0, 0.5, 0.1, 2.0)
MARGINS = (0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0)
# Of adversarial losses: what is real and what is not, 1 and 0, and both smoothed.
TARGETS = (0.0, 1.0, 0.9, 0.1, 0.8, 0.2, 0.95, 0.05, 0.7, 0.3)
MOST_PAIRED = 512
BY_LABELS = ", over the number of labels,"
HALF_OF = "half "
# Of labels, or of the output's rows: flattened time first where the other is flattened example first.
OTHER_ORDERS = (", transposed", ", against rows transposed")
MOST_CELLS = 20_000_000  # of the table of a CTC loss


class Form(NamedTuple):
    """A loss of every example.

    Fields:
      name: its words, e.g. "the softmax cross entropy".
      of: what it is of.
      values: of each example, or of all their elements.
      labels: integers, one for each of the values, or empty.
      cross_entropy: whether it is one.
    """

    name: str
    of: str
    values: Array
    labels: Array
    cross_entropy: bool = False


def forms(
    outputs: Mapping[str, Array], feeds: Mapping[str, Array], linear: Collection[str] = (), crossed: bool = True
) -> Iterator[Form]:
    """Yields the losses of examples that may be made of outputs and inputs.

    Args:
      outputs: dict of name to what layers give.
      feeds: dict of name to inputs, and what is made of inputs alone.
      linear: names of the outputs that nothing is made of but sums.
      crossed: whether what is compared with one target for all is called a cross entropy.
    """
    nothing = np.zeros(0)
    for name, output in outputs.items():
        # What a model may give as the loss of each example already.
        if output.size > 1:
            yield Form(f"what {name} gives", "", output, nothing)
        # No other function of these is in either loss: `linear_in` of loss_sums.py.
        if name in linear:
            continue
        if output.size > 1:
            yield from _of_targets(name, output, crossed)
        for label, given in feeds.items():
            y = np.asarray(given)
            if y.dtype.kind in "iu":
                yield from _of_labels(name, output, label, y)
                if y.ndim == 2 and output.ndim == 3:
                    yield from _ctc(name, output, label, y, feeds)
            if y.size == output.size:
                yield from _elementwise(f"{name} and {label}", np.asarray(output).reshape(y.shape), y)
    yield from _of_two({name: output for name, output in outputs.items() if name not in linear})


def _of_labels(name: str, output: Array, label: str, y: Array) -> Iterator[Form]:
    if output.ndim < 2 or not y.size:
        return
    if y.ndim > 1 and output.shape[:1] + output.shape[2:] == y.shape:
        output = np.moveaxis(output, 1, -1)  # as torch lays out the classes of images
    classes = output.shape[-1]
    rows = output.size // classes
    logits = output.reshape(-1, classes)  # (rows, classes)
    if rows == y.size:
        yield from _cross_entropies(f"{name} and {label}", logits, y)
        if y.ndim == output.ndim == 2 and min(y.shape) > 1:
            # Row e T + t takes the label at t N + e of the labels as they lie, or of the labels transposed.
            for words, labels in zip(OTHER_ORDERS, (y.T, y.reshape(y.shape[::-1]).T), strict=True):
                yield from _cross_entropies(f"{name} and {label}{words}", logits, np.ascontiguousarray(labels))
    if y.ndim == 1 and output.ndim == 2 and rows == y.size <= MOST_PAIRED:
        # Squared distances of all pairs, (rows, rows), by way of (rows, rows, classes): hence MOST_PAIRED.
        yield from _triplets(f"{name} and {label}", ((logits[:, None] - logits[None]) ** 2).sum(axis=2), y)
        # A square output without negative numbers may hold the distances themselves.
        if classes == rows and (logits >= 0).all():
            yield from _triplets(f"{name}, squared, and {label}", logits**2, y)
    if y.ndim == 2 and output.ndim == 3 and output.shape[0] == y.shape[0]:
        length = output.shape[1]
        # More labels than the output has steps: which of them belong to it, begin and end may say otherwise.
        for first in range(y.shape[1] - length + 1) if y.shape[1] > length else ():
            words = f"{label}[:, {first}:{first + length}]"
            yield from _cross_entropies(f"{name} and {words}", logits, y[:, first : first + length])
        if y.shape[1] == length > 1:
            # Next-word losses shift labels or inputs by one step; rolled, the one that is cut off comes in at the other
            # end.
            for move, words in ((-1, "those of the step after"), (1, "those of the step before")):
                yield from _cross_entropies(f"{name} and {label}, {words}", logits, np.roll(y, move, axis=1))


def _cross_entropies(of: str, logits: Array, y: Array) -> Iterator[Form]:
    classes = logits.shape[1]
    within = (y >= 0) & (y < classes)
    if not within.any() or classes < 2:
        return
    labels = np.where(within, y, 0).reshape(-1)  # those outside are ignored, or count as the first class
    rows = np.arange(len(labels))

    def form(name: str, each: Array) -> Form:
        return Form(name, of, each.reshape(y.shape), y, True)

    logp = log_softmax(logits, 1)
    # Both (rows,): minus log p of the label, and the same averaged over all classes; smoothing is linear in the two.
    own, uniform = -logp[rows, labels], -logp.mean(axis=1)
    yield form("the softmax cross entropy", own)
    for share in SHARES:
        low = share / (classes - 1)
        # The sum of -log p over the classes but the label's is classes * uniform - own.
        others = (classes * uniform - own) * low
        # -sum q log q of the smoothed label q, which KL(q, p) is less than the cross entropy.
        entropy = -((1 - share) * np.log(1 - share) + share * np.log(low))
        yield form(f"the cross entropy with labels smoothed by {share:g}", (1 - share) * own + share * uniform)
        yield form(f"the cross entropy with {share:g} spread over the other classes", (1 - share) * own + others)
        words = f"the cross entropy with {share:g} spread over the other classes, less the entropy of the labels"
        yield form(words, (1 - share) * own + others - entropy)
        yield form(f"the cross entropy with {1 - share:g} at the label and nothing elsewhere", (1 - share) * own)
    # What a loss on logits makes of a model that ends with a softmax.
    yield form("the cross entropy with the softmax taken twice", -log_softmax(np.exp(logp), 1)[rows, labels])
    if (logits > 0).all():
        yield form("the logarithm of what stands at the label", -np.log(logits)[rows, labels])
    hot = np.zeros_like(logits)  # one hot, (rows, classes)
    hot[rows, labels] = 1.0
    crossed = _sigmoid_cross_entropy(logits, hot)
    yield form("the sigmoid cross entropy of all classes, added up,", crossed.sum(axis=1))
    yield form("the sigmoid cross entropy of all classes, averaged,", crossed.mean(axis=1))
    for gamma in (1.0, 2.0, 5.0):
        yield form(f"the focal loss of gamma {gamma:g}", (1 - np.exp(-own)) ** gamma * own)
    yield form("the squared difference of the softmax", ((np.exp(logp) - hot) ** 2).sum(axis=1))
    # The sum over j other than the label of max(0, 1 + x_j - x_label).
    hinges = np.maximum(0.0, 1 + logits - logits[rows, labels][:, None]) * (1 - hot)
    yield form("the hinge loss over the other classes", hinges.sum(axis=1))
    yield form("minus what stands at the label", -logits[rows, labels])


def _elementwise(of: str, x: Array, y: Array) -> Iterator[Form]:
    t = y.astype(np.float64)
    labels = y if y.dtype.kind in "iu" else np.zeros(0)
    if ((t >= 0) & (t <= 1)).all():
        yield Form("the sigmoid cross entropy", of, _sigmoid_cross_entropy(x, t), labels, True)
        for share in SHARES:
            words = f"the sigmoid cross entropy with labels smoothed by {share:g}"
            yield Form(words, of, _sigmoid_cross_entropy(x, t * (1 - share) + share / 2), labels, True)
            words = f"the sigmoid cross entropy with 1 smoothed to {1 - share:g}"
            yield Form(words, of, _sigmoid_cross_entropy(x, t * (1 - share)), labels, True)
        # Between 0 and 1 in every place it may be a probability already, without a sigmoid.
        if ((x > 0) & (x < 1)).all():
            plain = -(t * np.log(x) + (1 - t) * np.log1p(-x))
            yield Form("the cross entropy of probabilities", of, plain, labels, True)
        p = 1 / (1 + np.exp(-x))
        for gamma in (1.0, 2.0):
            factor = np.where(t > 0.5, 1 - p, p) ** gamma
            yield Form(f"the focal loss of gamma {gamma:g}", of, factor * _sigmoid_cross_entropy(x, t), labels, True)
            for alpha in (0.25, 0.75):
                weight = np.where(t > 0.5, alpha, 1 - alpha) * factor
                words = f"the focal loss of gamma {gamma:g} and alpha {alpha:g}"
                yield Form(words, of, weight * _sigmoid_cross_entropy(x, t), labels, True)
    yield from (Form(name, of, each, labels) for name, each in _of_difference(x - t))
    if t.ndim > 1:
        norms = np.sqrt(((x - t) ** 2).reshape(len(t), -1).sum(axis=1))  # (examples,)
        yield Form("the distance", of, norms, np.zeros(0))
        yield Form("the distance along the last axis", of, np.sqrt(((x - t) ** 2).sum(axis=-1)), np.zeros(0))


def _of_difference(difference: Array) -> Iterator[tuple[str, Array]]:
    size = np.abs(difference)
    yield "the squared difference", difference**2
    yield f"{HALF_OF}the squared difference", difference**2 / 2
    yield "the absolute difference", size
    yield "the logarithm of the hyperbolic cosine", np.logaddexp(difference, -difference) - np.log(2.0)
    for beta in BETAS:
        words = "the Huber loss" if beta == 1.0 else f"smooth L1 of beta {beta:.6g}"
        # A square up to beta and a line of slope 1 behind: both are beta / 2 where they meet.
        smooth = np.where(size < beta, difference**2 / (2 * beta), size - beta / 2)
        yield words, smooth
        # Huber's loss of delta is delta times smooth L1 of beta = delta: of 1 they are one.
        if beta != 1.0:
            yield f"the Huber loss of delta {beta:.6g}", beta * smooth
    yield "the root of the squared difference and 1e-6", np.sqrt(difference**2 + 1e-6)


def _of_targets(name: str, x: Array, crossed: bool) -> Iterator[Form]:
    """Losses against one target for all: those of adversarial nets, and penalties."""
    nothing = np.zeros(0)
    for target in TARGETS:
        each = _sigmoid_cross_entropy(x, np.full(x.shape, target))
        yield Form(f"the sigmoid cross entropy against {target:g}", name, each, nothing, crossed)
        yield Form(f"minus the sigmoid cross entropy against {target:g}", name, -each, nothing, crossed)
        yield Form(f"the squared difference from {target:g}", name, (x - target) ** 2, nothing)
        yield Form(f"{HALF_OF}the squared difference from {target:g}", name, (x - target) ** 2 / 2, nothing)
    for margin in MARGINS:
        yield Form(
            f"the hinge loss with a margin of {margin:g}, of minus what it is", name, np.maximum(0, margin - x), nothing
        )
        yield Form(f"the hinge loss with a margin of {margin:g}", name, np.maximum(0, margin + x), nothing)
    yield Form("minus", name, -x, nothing)
    yield Form("the size", name, np.abs(x), nothing)
    if x.ndim > 1:
        norms = np.sqrt((x**2).reshape(len(x), -1).sum(axis=1))  # (examples,)
        yield Form("the norm of each example", name, norms, nothing)
        yield Form("the squared norm of each example", name, norms**2, nothing)
        yield Form(f"{HALF_OF}the squared norm of each example", name, norms**2 / 2, nothing)
        # (norm - 1)^2 is the gradient penalty of a Wasserstein critic; the next is its one-sided form.
        yield Form("the squared distance of each norm from 1", name, (norms - 1) ** 2, nothing)
        yield Form("what each norm is above 1, squared", name, np.maximum(0.0, norms - 1) ** 2, nothing)


def _of_two(outputs: Mapping[str, Array]) -> Iterator[Form]:
    """Kullback-Leibler terms, of a mean and what may be the variance's logarithm, the deviation's, or the deviation."""
    nothing = np.zeros(0)
    for one, mean in outputs.items():
        for two, spread in outputs.items():
            if one == two or mean.shape != spread.shape or mean.size < 2:
                continue
            of = f"{one} and {two}"
            with np.errstate(all="ignore"):
                # What a net gives as the spread is a matter of convention: every reading of it, as log variance.
                kinds = {
                    "the logarithm of the variance": spread,
                    "the logarithm of the deviation": 2 * spread,
                    "the deviation": 2 * np.log(np.abs(spread)),
                    "the variance": np.log(np.abs(spread)),
                }
                for words, log in kinds.items():
                    # KL of N(mean, e^log) from N(0, 1), number by number.
                    divergence = 0.5 * (mean**2 + np.exp(log) - log - 1)
                    if np.isfinite(divergence).all():
                        name = f"the Kullback-Leibler divergence, {two} as {words},"
                        yield Form(name, of, divergence, nothing)
                        yield Form(f"twice {name}", of, 2 * divergence, nothing)
                        yield Form(f"minus {name}", of, -divergence, nothing)
            if one < two:
                yield from (Form(name, of, each, nothing) for name, each in _of_difference(mean - spread))


def _triplets(of: str, squares: Array, y: Array) -> Iterator[Form]:
    """Triplets of a batch: each example against its farthest or nearest of its own class and of the others."""
    same, itself = y[:, None] == y[None], np.eye(len(y), dtype=bool)
    nothing = np.zeros(0)
    # Each example needs another one of its class, and the batch a second class.
    if same.all() or not (same & ~itself).any(axis=1).all():
        return
    for distances, unit in ((np.sqrt(squares), "distances"), (squares, "squared distances")):
        # (rows,) each: the distance that an anchor is measured by.
        positives = {
            "the farthest of its class": np.where(same, distances, 0.0).max(axis=1),
            "the mean of its class": (distances * same).sum(axis=1) / same.sum(axis=1),
            "the mean of the others of its class": (distances * same).sum(axis=1) / (same & ~itself).sum(axis=1),
            "the nearest of its class": np.where(same & ~itself, distances, np.inf).min(axis=1),
        }
        negatives = {
            "the nearest of another class": np.where(same, np.inf, distances).min(axis=1),
            "the farthest of another class": np.where(same, 0.0, distances).max(axis=1),
            "the mean of other classes": (distances * ~same).sum(axis=1) / (~same).sum(axis=1),
        }
        for positive, p in positives.items():
            for negative, n in negatives.items():
                words = f"by {unit}, {positive}, {negative}"
                for margin in MARGINS:
                    yield Form(
                        f"the triplet loss {words}, a margin of {margin:g}", of, np.maximum(0, p - n + margin), nothing
                    )
                yield Form(f"the triplet loss {words}, a soft margin", of, np.logaddexp(0.0, p - n), nothing)


def _ctc(name: str, output: Array, label: str, y: Array, feeds: Mapping[str, Array]) -> Iterator[Form]:
    """Connectionist temporal classification by other blanks, lengths and shares."""
    examples, classes = len(y), output.shape[2]
    # Examples first, or steps first as torch wants them.
    logp = output if output.shape[0] == examples else output.transpose(1, 0, 2)
    if logp.shape[0] != examples or y.max() >= classes or logp.size * (2 * y.shape[1] + 1) > MOST_CELLS:
        return
    logp, steps = log_softmax(logp, 2), logp.shape[1]
    # Both (examples,): how many labels, and how many steps, count of each.
    counts = {"as many labels as are not negative": (y >= 0).sum(axis=1), "all labels": np.full(examples, y.shape[1])}
    lengths = {"all steps": np.full(examples, steps)}
    for feed, given in feeds.items():
        if given.shape == (examples,) and given.dtype.kind in "iu":
            counts[f"{feed} labels"] = given
            # What layers with these strides leave of the steps.
            for stride in (1, 2, 3, 4, 8):
                lengths[f"{feed} / {stride}, rounded up," if stride > 1 else feed] = -(-given // stride)
                lengths[f"{feed} / {stride}, rounded down," if stride > 1 else feed] = given // stride
    for steps_words, length in lengths.items():
        for count_words, count in counts.items():
            if (length > steps).any() or (length < 1).any() or (count > y.shape[1]).any() or (count < 0).any():
                continue
            # TensorFlow's blank is the last class, torch's the first one unless it is told otherwise.
            for blank in (classes - 1, 0):
                each = ctc_losses(logp, np.maximum(y, 0), length, count, blank)
                words = f"the CTC loss with the blank at {blank}, {steps_words} long, {count_words}"
                yield Form(words, f"{name} and {label}", each, np.zeros(0))
                shares = each / np.maximum(count, 1)
                yield Form(f"{words}{BY_LABELS}", f"{name} and {label}", shares, np.zeros(0))


def ctc_losses(logp: Array, labels: Array, lengths: Array, counts: Array, blank: int) -> Array:
    """Returns the connectionist temporal classification loss of each example; infinite where no path fits.

    Source: Graves et al. 2006, "Connectionist Temporal Classification", section 4.1, in logarithms.

    Args:
      logp: log-probabilities, ``[example, step, class]``.
      labels: integers, ``[example, place]``.
      lengths: of the steps of each example.
      counts: of the labels of each example.
      blank: the class that stands for none.
    """
    examples, places = len(labels), 2 * labels.shape[1] + 1
    # blank, label, blank, ..., label, blank: int (examples, 2 labels + 1), the places of a path.
    extended = np.full((examples, places), blank)
    extended[:, 1::2] = labels
    skips = np.zeros((examples, places), bool)
    # A path may leave out the blank between two labels only where they are different ones.
    skips[:, 3::2] = labels[:, 1:] != labels[:, :-1]
    rows = np.arange(examples)
    with np.errstate(all="ignore"):
        alpha = np.full((examples, places), -np.inf)
        # A path begins at the first blank or at the first label.
        alpha[:, 0] = logp[:, 0, blank]
        if places > 1:
            alpha[:, 1] = logp[rows, 0, extended[:, 1]]
        # After step t `end` holds alpha of the last step of every example that has at most t + 1 steps.
        end = np.where((lengths == 1)[:, None], alpha, -np.inf)
        for step in range(1, logp.shape[1]):
            one, two = np.full_like(alpha, -np.inf), np.full_like(alpha, -np.inf)
            # Into a place: from itself, from the one before, and from the one before that where the blank may be left
            # out.
            one[:, 1:], two[:, 2:] = alpha[:, :-1], np.where(skips[:, 2:], alpha[:, :-2], -np.inf)
            alpha = np.logaddexp(np.logaddexp(alpha, one), two) + logp[rows[:, None], step, extended]
            end = np.where((lengths == step + 1)[:, None], alpha, end)
        # It ends at the blank behind the last label, or at that label.
        last = end[rows, 2 * counts]
        before = np.where(counts > 0, end[rows, np.maximum(2 * counts - 1, 0)], -np.inf)
        return np.asarray(-np.logaddexp(last, before))


def _sigmoid_cross_entropy(x: Array, t: Array) -> Array:
    # max(x, 0) - x t + log(1 + e^-|x|): exp of a large logit is not taken, so that nothing overflows.
    return np.asarray(np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x))))
