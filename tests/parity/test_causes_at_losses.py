"""A loss is computed again from what the layers give it: the rule is named that gives the candidate's."""

import numpy as np
import pytest

from parity.causes.at_loss import Loss, other_loss

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


def test_terms_that_both_sides_have_do_not_hide_it():
    cause = other_loss(loss(WEIGHTED + 0.37, EACH.mean() + 0.37))
    assert cause.name == "loss_reduction"
    assert cause.evidence.endswith("but for terms that both sides have")


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
