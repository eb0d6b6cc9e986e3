"""Recorded draws take the place of torch's random numbers, in order, and none is left over."""

import pytest
import torch

from torch_ddp.draws import RecordedDraws, with_recorded_draws
from torch_ddp.errors import TorchDdpError
from torch_ddp.like_tf import dropout

UNIFORM = torch.tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.7]])
ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: dropout(ONES, 0.4),
        lambda: torch.nn.functional.dropout(ONES, 0.4),
        lambda: torch.dropout(ONES, 0.4, True),
        lambda: torch.nn.Dropout(0.4)(ONES),
        lambda: (torch.rand(2, 3) >= 0.4) / 0.6,
        lambda: (torch.rand([2, 3]) >= 0.4) / 0.6,
        lambda: (torch.rand(size=(2, 3)) >= 0.4) / 0.6,
        lambda: (torch.rand_like(ONES) >= 0.4) / 0.6,
        lambda: (torch.empty(2, 3).uniform_() >= 0.4) / 0.6,
        lambda: torch.bernoulli(0.6 * ONES) / 0.6,
        lambda: torch.empty(2, 3).bernoulli_(0.6) / 0.6,
    ],
)
def test_every_way_of_dropping_takes_the_recorded_draw(draw):
    with RecordedDraws([UNIFORM]):
        found = draw()
    torch.testing.assert_close(found, (UNIFORM >= 0.4) / 0.6)


def test_normal_draws_are_taken_as_they_are():
    with RecordedDraws([UNIFORM, UNIFORM]):
        torch.testing.assert_close(torch.randn(2, 3), UNIFORM)
        torch.testing.assert_close(torch.empty(2, 3).normal_(1.0, 2.0), 1.0 + 2.0 * UNIFORM)


def test_draws_come_in_the_order_and_the_dtype_of_who_asks():
    with RecordedDraws([UNIFORM, 1 - UNIFORM]):
        first, second = torch.rand(2, 3, dtype=torch.float64), torch.rand_like(ONES)
    assert first.dtype is torch.float64
    torch.testing.assert_close(second, 1 - UNIFORM)


def test_channels_may_come_first():
    draw = torch.rand(2, 5, 4, 3)
    with RecordedDraws([draw]):
        assert torch.equal(torch.rand(2, 3, 5, 4), draw.permute(0, 3, 1, 2))


def test_evaluation_draws_nothing():
    with RecordedDraws([]):
        assert torch.equal(torch.nn.functional.dropout(ONES, 0.4, training=False), ONES)


@pytest.mark.parametrize(
    ("draws", "ask", "said"),
    [
        ([UNIFORM], lambda: None, "expected the port to draw 1 times, as the script does, got 0"),
        ([], lambda: torch.rand(2), r"expected the port to draw 0 times, .* got one more, of shape \(2,\)"),
        ([UNIFORM], lambda: torch.rand(3, 2), r"expected draw 0 to be of shape \(2, 3\), as recorded, got \(3, 2\)"),
        ([UNIFORM], lambda: torch.randperm(4), "got randperm, for which no recorded draw"),
    ],
)
def test_what_does_not_fit_is_refused(draws, ask, said):
    with pytest.raises(TorchDdpError, match=said), RecordedDraws(draws):
        ask()


def test_a_loss_gets_its_draws_beside_its_inputs():
    def loss(model, x):
        return (dropout(x, 0.4) + torch.rand(1)).sum()

    given = {"recorded_draw_1": torch.tensor([2.0]), "recorded_draw_0": UNIFORM, "x": ONES}
    found = with_recorded_draws(loss)(None, **given)
    torch.testing.assert_close(found, ((UNIFORM >= 0.4) / 0.6 + 2.0).sum())
