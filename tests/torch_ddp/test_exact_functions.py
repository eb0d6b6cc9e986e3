"""What torch approximates to float32's precision is exact in float64 once it was asked for."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from torch_ddp.worker.exact_functions import compute_softplus_exactly

X = torch.tensor([-30.0, 0.0, 19.0, 22.0, 36.0, 50.0], dtype=torch.float64)


@pytest.fixture
def exactly(monkeypatch):
    monkeypatch.setattr(functional, "softplus", functional.softplus)  # undone behind the test
    compute_softplus_exactly()
    compute_softplus_exactly()


def test_softplus_of_float64_is_exact_beyond_torchs_threshold(exactly):
    wanted = torch.logaddexp(X, torch.zeros_like(X))
    for softplus in (functional.softplus, nn.Softplus()):
        torch.testing.assert_close(softplus(X), wanted, rtol=2e-16, atol=0)
    x = X.clone().requires_grad_()
    functional.softplus(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.sigmoid(X), rtol=4e-16, atol=0)


def test_other_dtypes_and_a_threshold_of_the_callers_own_stay(exactly):
    assert torch.equal(functional.softplus(X.float()), nn.Softplus(threshold=20)(X.float()))
    assert functional.softplus(X, 1.0, 5.0)[2] == 19.0 and functional.softplus(X, threshold=5.0)[2] == 19.0
    assert functional.softplus(X, beta=2.0)[1] == torch.log(torch.tensor(2.0, dtype=torch.float64)) / 2
