"""A loss that torch reduces by itself is watched before it is one number too."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.step.forward_watch import ForwardWatch

torch.manual_seed(0)
LAYER = nn.Linear(3, 4).double()
X = torch.randn(5, 3, dtype=torch.float64)
LABELS, TARGET = torch.tensor([0, 3, 1, 2, 1]), torch.rand(5, 4, dtype=torch.float64)
CLASS_WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 0.25], dtype=torch.float64)
SIGNS = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
LOSSES = {
    "cross_entropy": lambda x, how: F.cross_entropy(x, LABELS, ignore_index=1, reduction=how),
    "nll_loss": lambda x, how: F.nll_loss(x.log_softmax(1), LABELS, reduction=how),
    "binary_cross_entropy": lambda x, how: F.binary_cross_entropy(x.sigmoid(), TARGET, reduction=how),
    "with_logits": lambda x, how: F.binary_cross_entropy_with_logits(x, TARGET, reduction=how),
    "mse_loss": lambda x, how: F.mse_loss(x, TARGET, reduction=how),
    "l1_loss": lambda x, how: F.l1_loss(x, TARGET, reduction=how),
    "smooth_l1_loss": lambda x, how: F.smooth_l1_loss(x, TARGET, beta=0.1, reduction=how),
    "huber_loss": lambda x, how: F.huber_loss(x, TARGET, delta=0.5, reduction=how),
    "kl_div": lambda x, how: F.kl_div(x.log_softmax(1), TARGET, reduction="sum" if how == "mean" else how),
    "poisson_nll_loss": lambda x, how: F.poisson_nll_loss(x, TARGET, reduction=how),
    "soft_margin_loss": lambda x, how: F.soft_margin_loss(x[:, 0], SIGNS, reduction=how),
    "hinge_embedding": lambda x, how: F.hinge_embedding_loss(x[:, 0], SIGNS, reduction=how),
    "margin_ranking": lambda x, how: F.margin_ranking_loss(x[:, 0], x[:, 1], SIGNS, reduction=how),
    "cosine_embedding": lambda x, how: F.cosine_embedding_loss(x, TARGET, SIGNS, reduction=how),
    "triplet_margin": lambda x, how: F.triplet_margin_loss(x, TARGET, TARGET.flip(0), reduction=how),
}


def watched(loss):
    watch = ForwardWatch(LAYER)
    with watch.watching():
        loss(LAYER(X)).backward()
    return watch.passed


@pytest.mark.parametrize("name", LOSSES)
def test_what_each_example_loses_is_kept_before_the_number_that_is_made_of_it(name):
    passed = watched(lambda x: LOSSES[name](x, "mean"))
    place = next(number for number, (op, _) in enumerate(passed) if op.kind.endswith(" of each"))
    wanted = LOSSES[name](LAYER(X), "none").detach().numpy()
    np.testing.assert_allclose(passed[place][1], wanted, rtol=1e-15)
    assert passed[place + 1][0].inputs == [place]


def test_of_class_weights_both_are_kept():
    passed = watched(lambda x: F.cross_entropy(x, LABELS, weight=CLASS_WEIGHTS))
    kinds = [op.kind for op, _ in passed[-3:]]
    assert kinds == ["cross_entropy_loss of each", "cross_entropy_loss of each, weighted", "cross_entropy_loss"]
    plain, weighted, _ = (value for _, value in passed[-3:])
    np.testing.assert_allclose(weighted, plain * CLASS_WEIGHTS[LABELS].numpy(), rtol=1e-15)


def test_what_is_not_reduced_stays_one_op():
    assert not [op for op, _ in watched(lambda x: F.mse_loss(x, TARGET, reduction="none").sum()) if "each" in op.kind]
