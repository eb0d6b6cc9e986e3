"""What is let through to an update: finite numbers on every rank, and no more than so many others."""

import math
import os
import signal

import pytest
import torch

from torch_ddp import NonFiniteError, Rank, TorchDdpError, UpdateGuard

ALONE = Rank(0, 0, 1)
NAN, INFINITY = math.nan, math.inf
FINE = torch.tensor(1.0)


def gradients(*values, dtype=torch.float32):
    return [("weight", torch.tensor(values, dtype=dtype)), ("unused", None)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_finite_numbers_are_admitted_however_large_their_sum_is(dtype):
    largest = torch.finfo(dtype).max
    with UpdateGuard(ALONE) as guard:
        assert guard.admits(FINE, gradients(largest, largest, 1.0, dtype=dtype), "now") is True


@pytest.mark.parametrize("wrong", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize(("named", "where"), [("the loss", "loss"), ("the gradient of weight", "gradient")])
def test_others_stop_the_training_or_are_left_out(wrong, named, where):
    loss, of_weight = (torch.tensor(wrong), gradients(1.0)) if where == "loss" else (FINE, gradients(1.0, wrong, 2.0))
    words = rf"numbers at update 7, got 1 of . .* in {named}\."
    with UpdateGuard(ALONE) as guard, pytest.raises(NonFiniteError, match=words):
        guard.admits(loss, of_weight, "at update 7")
    with UpdateGuard(ALONE, non_finite="skip") as guard:
        assert guard.admits(loss, of_weight, "at update 7") is False


def test_moving_statistics_are_those_before_an_update_that_was_left_out():
    model = torch.nn.BatchNorm1d(2)
    with UpdateGuard(ALONE, non_finite="skip", model=model) as guard:
        for spoilt in (1.0, NAN):
            before = {name: value.clone() for name, value in model.named_buffers()}
            loss = model(torch.tensor([[1.0, 2.0], [3.0, 4.0 * spoilt]])).sum()
            assert guard.admits(loss, [], "now") == (spoilt == 1.0)
            same = [torch.equal(value, before[name]) for name, value in model.named_buffers()]
            assert same == [spoilt != 1.0] * 3


def test_infinities_of_both_signs_do_not_cancel():
    with UpdateGuard(ALONE, non_finite="skip") as guard:
        assert not guard.admits(FINE, gradients(INFINITY, -INFINITY), "now")


def test_as_many_as_allowed_may_be_left_out_in_a_row_and_no_more():
    with UpdateGuard(ALONE, non_finite="skip", most_skipped=2) as guard:
        for updated in (False, False, True, False, False):
            guard.made(updated)
        with pytest.raises(NonFiniteError, match="got 3 in a row that were skipped"):
            guard.made(False)


def test_what_is_to_be_done_has_two_answers():
    with pytest.raises(TorchDdpError, match="expected non_finite to be 'stop' or 'skip', got 'ignore'"):
        UpdateGuard(ALONE, non_finite="ignore")


def test_a_signal_that_comes_while_ranks_agree_is_known_behind_the_update_after(monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda words, how: os.kill(os.getpid(), signal.SIGTERM))
    with UpdateGuard(Rank(0, 0, 2)) as guard:
        assert guard.admits(FINE, [], "now") and not guard.preempted
        monkeypatch.setattr(torch.distributed, "all_reduce", lambda words, how: None)
        assert guard.admits(FINE, [], "now") and guard.preempted


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_signal_is_known_behind_the_next_update(sent, code):
    before = signal.getsignal(sent)
    with UpdateGuard(ALONE) as guard:
        assert guard.admits(FINE, [], "now") and not guard.preempted
        os.kill(os.getpid(), sent)
        assert guard.admits(FINE, [], "now") and guard.preempted
        with pytest.raises(SystemExit) as ended:
            guard.end()
    assert ended.value.code == code
    assert signal.getsignal(sent) is before


def guarded(rank: Rank, spoilt: int, non_finite: str) -> str:
    with UpdateGuard(rank, non_finite=non_finite) as guard:
        loss = torch.tensor(NAN if rank.rank == spoilt else 1.0)
        try:
            return str(guard.admits(loss, gradients(1.0), "at update 7"))
        except NonFiniteError as error:
            return str(error)


def test_all_ranks_leave_out_what_one_of_them_must(two_ranks):
    assert two_ranks.run(guarded, 1, "skip") == ["False", "False"]
    assert two_ranks.run(guarded, 2, "skip") == ["True", "True"]


@pytest.mark.parametrize("spoilt", [0, 1])
def test_all_ranks_stop_and_name_the_one_with_the_nan(two_ranks, spoilt):
    said = two_ranks.run(guarded, spoilt, "stop")
    assert "got 1 of 1 infinite or NaN in the loss." in said[spoilt]
    assert f"at update 7, got infinite or NaN ones on rank {spoilt}." in said[1 - spoilt]


def preempted(rank: Rank, sent: int) -> list:
    with UpdateGuard(rank) as guard:
        if rank.rank == sent:
            os.kill(os.getpid(), signal.SIGUSR1)
        guard.admits(FINE, [], "now")
        try:
            guard.end()
        except SystemExit as ended:
            return [guard.preempted, ended.code]


def test_all_ranks_end_at_one_update_with_one_code(two_ranks):
    assert two_ranks.run(preempted, 1) == [[True, 138]] * 2
