"""A loss is computed again from what the layers give it: the rule is named that gives the candidate's."""

import itertools

import numpy as np
import pytest

from parity.diagnose.layers.loss import Loss, is_a_count, other_loss
from parity.diagnose.layers.loss_forms import ctc_losses

RANDOM = np.random.default_rng(0)
LOGITS, LABELS = RANDOM.normal(size=(4, 5, 7)), RANDOM.integers(0, 7, size=(4, 5))
WEIGHTS = (np.arange(5) < np.array([5, 3, 4, 1])[:, None]).astype(np.float32)
LOGP = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
EACH = -np.take_along_axis(LOGP, LABELS[..., None], -1)[..., 0]
WEIGHTED = (EACH * WEIGHTS).sum() / WEIGHTS.sum()


def loss(reference, candidate, **outputs):
    given = outputs or {"logits": LOGITS.reshape(20, 7)}
    return Loss(given, {"labels": LABELS, "weights": WEIGHTS}, float(reference), float(candidate), 1e-9)


@pytest.mark.parametrize(
    ("candidate", "name", "words"),
    [
        ((EACH * WEIGHTS).mean(), "loss_reduction", "the sum, weighted by weights, over all"),
        (EACH.mean(), "loss_reduction", "the mean of"),
        ((EACH * WEIGHTS).sum() / 4, "loss_reduction", "over the number of examples"),
        (((EACH * WEIGHTS).sum(1) / WEIGHTS.sum(1)).mean(), "loss_reduction", "each one's mean"),
        (((0.9 * EACH - 0.1 * LOGP.mean(-1)) * WEIGHTS).sum() / WEIGHTS.sum(), "cross_entropy", "smoothed by 0.1"),
    ],
)
def test_another_rule_of_a_cross_entropy_is_named(candidate, name, words):
    cause = other_loss(loss(WEIGHTED, candidate))
    assert cause.name == name
    assert words in cause.title.partition(" in the candidate")[0]
    assert "the mean, weighted by weights, of the softmax cross entropy" in cause.title


def test_weights_of_each_label_are_another_cross_entropy_and_masks_of_labels_are_none():
    x, positive = RANDOM.normal(size=30), (np.arange(30) % 3 == 0).astype(np.float64)
    each = np.maximum(x, 0) - x * positive + np.log1p(np.exp(-np.abs(x)))
    for weights, name in ((1 + 1.5 * positive, "cross_entropy"), (1 - positive, "loss_reduction")):
        feeds = {"labels": positive, "weights": weights}
        cause = other_loss(Loss({"x": x}, feeds, float((each * weights).mean()), float(each.mean()), 1e-9))
        assert cause.name == name, cause.title


def test_terms_that_both_sides_have_do_not_hide_it():
    cause = other_loss(loss(WEIGHTED + 0.37, EACH.mean() + 0.37))
    assert cause.name == "loss_reduction"
    assert cause.evidence.endswith("but for terms that both sides have")


def test_what_a_loss_only_adds_up_goes_through_no_function():
    """The sigmoid cross entropies against 1 and 0 of one number differ by the number: what changes its sign."""
    x = RANDOM.normal(size=12)
    terms = loss(0.37 + x.mean() / 2, 0.37 - x.mean() / 2, sums=x)
    assert "sigmoid cross entropy" in other_loss(terms).title
    assert other_loss(terms._replace(linear=frozenset(["sums"]))) is None


def test_labels_are_no_weights_beside_other_terms():
    """Softmax cross entropies with other labels differ by what the logits are times the labels."""
    logits = RANDOM.normal(size=(4, 5))
    one, two = np.eye(5)[[0, 3, 1, 2]], np.eye(5)[[4, 3, 2, 1]]
    shared = np.log(np.exp(logits).sum(1)).mean()
    sides = [shared - (logits * y).sum(1).mean() for y in (one, two)]
    assert other_loss(Loss({"logits": logits}, {"y": one, "y2": two}, *sides, 1e-9)) is None


def test_what_each_example_gives_may_be_reduced_otherwise():
    cause = other_loss(loss(WEIGHTED, EACH.mean(), xent=EACH.reshape(-1)))
    assert (
        cause.title
        == "the loss is the mean of what xent gives in the candidate, the mean, weighted by weights, of "
        + ("what xent gives in the reference")
    )


def test_a_loss_that_no_rule_gives_is_not_named():
    assert other_loss(loss(WEIGHTED, WEIGHTED * 1.0123)) is None
    assert other_loss(loss(WEIGHTED, EACH.mean() * (1 + 1e-6))) is None


BOXES, TARGETS = RANDOM.normal(size=(3, 8, 4)), RANDOM.normal(size=(3, 8, 4))
ANCHORS = RANDOM.integers(-1, 3, size=(3, 8))


def boxes(mask, beta=1.0):
    apart = np.abs(BOXES - TARGETS)
    each = np.where(apart < beta, apart**2 / (2 * beta), apart - beta / 2)
    return (each * mask[..., None]).sum() / 3


def of_boxes(reference, candidate):
    feeds = {"anchors": ANCHORS, "targets": TARGETS}
    return other_loss(Loss({"boxes": BOXES}, feeds, float(reference), float(candidate), 1e-9))


def test_where_a_huber_loss_turns_straight_and_what_counts_in_it_are_named():
    cause = of_boxes(boxes(ANCHORS > 0), boxes(ANCHORS > 0, 1 / 9))
    assert cause.name == "loss_function"
    assert "smooth L1 of beta 0.111111" in cause.title
    cause = of_boxes(boxes(ANCHORS > 0), boxes(ANCHORS != -100))
    assert cause.name == "loss_reduction"
    assert "weighted by anchors that are positive" in cause.title


def test_labels_of_another_step_are_named():
    tokens = RANDOM.integers(0, 7, size=(4, 6))

    def each(labels):
        return -np.take_along_axis(LOGP, labels[..., None], -1).mean()

    cause = other_loss(Loss({"logits": LOGITS}, {"tokens": tokens}, each(tokens[:, 1:]), each(tokens[:, :-1]), 1e-9))
    assert cause.name == "labels_shifted"
    assert "tokens[:, 0:5] in the candidate" in cause.title
    assert "tokens[:, 1:6] in the reference" in cause.title


def test_smoothing_of_the_real_examples_alone_is_told_from_none():
    scores = RANDOM.normal(size=(6, 1))

    def against(target):
        return np.log1p(np.exp(scores)).mean() - target * scores.mean()

    loss = Loss({"scores": scores}, {}, against(0.9), against(1.0), 1e-9)
    cause = other_loss(loss)
    assert cause.name == "cross_entropy"
    assert "against 1 in the candidate" in cause.title
    # A softplus of scores is one in numbers, and nobody calls it so.
    assert other_loss(loss._replace(crossed=False)).name == "loss_function"


def test_the_weights_of_classes_and_what_is_ignored_are_told_apart():
    labels = LABELS.copy()
    labels[1, 2:] = 255
    weights = np.array([0.5, 1.0, 2.0, 0.25, 1.5, 3.0, 0.75])
    kept = labels != 255
    picked = weights[labels[kept]]
    own = np.where(kept, -np.take_along_axis(LOGP, np.where(kept, labels, 0)[..., None], -1)[..., 0], 0.0)
    one = (own[kept] * picked).sum() / picked.sum()
    other = (own[kept] * picked).sum() / kept.sum()
    feeds = {"labels": labels, "weights": picked}
    cause = other_loss(Loss({"logits": LOGITS}, feeds, one, other, 1e-9))
    assert cause.name == "loss_reduction"
    assert "the mean, weighted by weights of weights, over labels that are not 255, of the softmax" in cause.title


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"blank": 0}, "loss_function"),
        ({"lengths": np.full(3, 9)}, "loss_function"),
        ({"lengths": np.array([4, 3, 2])}, "loss_function"),
        ({"by_count": True}, "loss_reduction"),
    ],
)
def test_another_rule_of_a_ctc_loss_is_named(change, name):
    logits = RANDOM.normal(size=(3, 9, 6))
    labels, frames = np.array([[1, 2, -1], [3, 3, -1], [4, -1, -1]]), np.array([9, 7, 5])

    def ctc(blank=5, lengths=(frames + 1) // 2, by_count=False):
        counts = (labels >= 0).sum(1)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        each = ctc_losses(logp, np.maximum(labels, 0), lengths, counts, blank)
        return (each / counts if by_count else each).mean()

    cause = other_loss(Loss({"logits": logits}, {"labels": labels, "frames": frames}, ctc(), ctc(**change), 1e-9))
    assert cause.name == name


def test_the_ctc_loss_is_the_sum_over_all_paths():
    logp = np.log(RANDOM.dirichlet(np.ones(3), size=(1, 3)))
    total = 0.0
    for path in itertools.product(range(3), repeat=3):
        merged = [each for each, _ in itertools.groupby(path)]
        if [each for each in merged if each != 2] == [0, 1]:
            total += np.exp(sum(logp[0, step, each] for step, each in enumerate(path)))
    losses = ctc_losses(logp, np.array([[0, 1]]), np.array([3]), np.array([2]), 2)
    np.testing.assert_allclose(losses, -np.log(total), rtol=1e-13)


def test_a_loss_that_is_weighed_alike_on_both_sides_is_named_by_its_share():
    one, other = 0.001 * (BOXES**2).sum() / 2, 0.001 * np.sqrt((BOXES**2).sum((1, 2))).mean()
    cause = other_loss(Loss({"boxes": BOXES}, {}, one, other, 1e-9, (1.0, 0.001)))
    assert "the mean of the norm of each example in the candidate" in cause.title


@pytest.mark.parametrize("seed", range(10))
def test_losses_of_something_else_are_not_named(seed):
    random = np.random.default_rng(seed)
    feeds = {"anchors": ANCHORS, "targets": TARGETS, "labels": LABELS, "weights": WEIGHTS}
    one, other = random.uniform(0.1, 10.0, size=2)
    for reference in (one, boxes(ANCHORS > 0), WEIGHTED):
        assert other_loss(Loss({"boxes": BOXES, "logits": LOGITS}, feeds, float(reference), other, 1e-9)) is None


def test_another_margin_is_named():
    apart = RANDOM.normal(size=16)
    one, other = (np.maximum(apart + margin, 0).mean() for margin in (0.5, 1.0))
    cause = other_loss(Loss({"apart": apart}, {}, one, other, 1e-9))
    assert "a margin of 1 in the candidate" in cause.title


def test_a_loss_divided_by_the_number_of_towers_is_no_mean_for_a_sum_unless_it_is_one_of_as_many_numbers():
    given = loss(0.0, 0.0, scores=RANDOM.normal(size=(20, 2)))
    assert not is_a_count(given, (3.0, 1.5), 2)
    assert is_a_count(given, (3.0, 1.5), 4)
    assert is_a_count(given, (3.0, 1.5), 2, [RANDOM.normal(size=2)])
    assert is_a_count(given, (60.0, 3.0), 2)
    assert not is_a_count(given, (3.0, 1.0), 2)


def test_labels_that_are_flattened_in_another_order_than_the_output_are_named():
    """Time first where the rows of the logits are example first, or the other way round."""
    rows, turned = LOGITS.reshape(20, 7), LOGITS.transpose(1, 0, 2).reshape(20, 7)

    def of(logits):
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return -logp[np.arange(20), LABELS.reshape(20)].mean()

    cause = other_loss(loss(of(rows), of(turned)))
    assert cause.name == "moved_values"
    assert "of logits and labels, against rows transposed in the candidate" in cause.title
    logp = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    cause = other_loss(loss(of(rows), -logp[np.arange(20), LABELS.T.reshape(20)].mean()))
    assert cause.name == "moved_values"
    assert "of logits and labels, transposed in the candidate" in cause.title
    # Both outputs are there: that of the port, and the graph's, whose rows stand in another order.
    cause = other_loss(loss(of(rows), of(turned), port=turned, graph=rows))
    assert cause.name == "moved_values"


def test_two_ways_to_smooth_labels_are_no_form_of_a_loss_whose_other_terms_are_not_seen():
    """They differ by a tenth of what an output is times 1 less the labels, and so do others: a factor that lacks."""
    x, y = RANDOM.normal(size=(4, 6)), RANDOM.random((4, 6))
    apart = 0.1 * (x * (1 - y)).sum()
    assert other_loss(Loss({"x": x}, {"y": y}, 12.34, 12.34 + apart, 1e-9)) is None
    smoothed = (0.1 * x * (y - 0.5)).sum()  # of labels as they are and smoothed by 0.1
    assert other_loss(Loss({"x": x}, {"y": y}, 12.34, 12.34 + smoothed, 1e-9)).name == "cross_entropy"


@pytest.mark.parametrize(
    ("reference", "candidate", "name"),
    [
        (lambda d: (d**2).sum() / 2, lambda d: (d**2).mean(), "loss_reduction"),
        (lambda d: (d**2).mean(), lambda d: (d**2).sum() / 2, "loss_reduction"),
        (lambda d: (d**2).sum(), lambda d: (d**2).sum() / 2, "loss_function"),
        (lambda d: (d**2).sum() / 2, lambda d: np.abs(d).mean(), "loss_function"),
    ],
)
def test_a_mean_for_half_a_sum_is_another_reduction_and_half_of_one_is_not(reference, candidate, name):
    x, y = RANDOM.normal(size=(2, 30))
    cause = other_loss(Loss({"x": x}, {"y": y}, float(reference(x - y)), float(candidate(x - y)), 1e-9))
    assert cause.name == name, cause.title
