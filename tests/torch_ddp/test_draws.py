"""Recorded draws take the place of torch's random numbers, in order, and none is left over."""

import pytest
import torch

from torch_ddp.errors import TorchDdpError
from torch_ddp.like_tf import dropout
from torch_ddp.record.recorded_draws import DrawsOfLoop, RecordedDraws, with_recorded_draws

pytestmark = pytest.mark.on_cpu("knows torch's own functions by identity")
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


STEPS = torch.arange(12.0).reshape(3, 2, 2) / 12
OTHERS = torch.arange(6.0).reshape(3, 2) / 6


def test_what_a_loop_drew_is_taken_iteration_by_iteration_in_the_order_of_its_ops():
    with RecordedDraws([UNIFORM, DrawsOfLoop([STEPS, STEPS + 1, OTHERS]), UNIFORM]):
        torch.testing.assert_close(torch.rand(2, 3), UNIFORM)
        for t in range(3):
            torch.testing.assert_close(torch.rand(2, 2), STEPS[t])
            torch.testing.assert_close(torch.rand(2, 2), STEPS[t] + 1)
            torch.testing.assert_close(torch.rand(2), OTHERS[t])
        torch.testing.assert_close(torch.rand(2, 3, dtype=torch.float64), UNIFORM.double())


def test_what_a_loop_drew_is_taken_for_all_iterations_at_once_also_with_the_batch_first():
    with RecordedDraws([DrawsOfLoop([STEPS, STEPS + 1, OTHERS])]):
        torch.testing.assert_close(torch.rand(2, 3, 2), STEPS.transpose(0, 1))
        torch.testing.assert_close(torch.rand(2, 2), STEPS[0] + 1)
        torch.testing.assert_close(torch.rand(3, 2), OTHERS)
        torch.testing.assert_close(torch.rand(2, 2), STEPS[1] + 1)
        torch.testing.assert_close(torch.rand(2, 2), STEPS[2] + 1)


@pytest.mark.parametrize(
    ("times", "shape", "said"),
    [
        (
            2,
            (2, 2),
            r"as often as the script does in its loop, got 1 draws left over, each of shape \(2, 2\)\. Draw in every",
        ),
        (4, (2, 2), "expected the port to draw 1 times, as the script does, got one more"),
        (1, (2, 5), r"expected a draw of shape \(2, 2\), as in each iteration of the script's loop, .* got \(2, 5\)"),
    ],
)
def test_what_does_not_fit_a_loop_is_refused(times, shape, said):
    with pytest.raises(TorchDdpError, match=said), RecordedDraws([DrawsOfLoop([STEPS])]):
        for _ in range(times):
            torch.rand(shape)


def test_a_loss_gets_the_draws_of_a_loop_together():
    def loss(model, x):
        return x + torch.rand(2, 2) + torch.rand(2)

    draws = {"recorded_draw_0_in_loop_0": STEPS[:1], "recorded_draw_1_in_loop_0": OTHERS[:1]}
    found = with_recorded_draws(loss)(None, x=torch.ones(2, 2), **draws)
    torch.testing.assert_close(found, 1 + STEPS[0] + OTHERS[0])


def test_draws_that_are_left_over_may_be_said_where_what_differs_is_looked_for():
    left = []
    given = {"recorded_draw_0": UNIFORM, "x": ONES}
    assert with_recorded_draws(lambda model, x: x.sum(), left)(None, **given) == ONES.sum()
    assert left == [
        "draws: expected the port to draw 1 times, as the script does, got 0. Draw where the script draws: is the port in "
        "train mode?"
    ]
    with_recorded_draws(lambda model, x: dropout(x, 0.4).sum(), left)(None, **given)
    assert len(left) == 1, "nothing is left where all draws are taken"
