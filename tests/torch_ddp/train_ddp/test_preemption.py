"""SIGTERM and SIGUSR1: a checkpoint of the update under way, and an exit code of its own."""

import os
import signal
import time

import pytest
import torch
from killing import newest_step, wait_for
from process_tree import end_tree, program_of
from trainer import SCRIPT, WITHIN, final, start

from torch_ddp import Preemption, Rank

EVERY = 50  # updates from one checkpoint to the next


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_signal_is_noted_within_the_block_and_the_code_is_128_and_its_number(sent, code):
    before = signal.getsignal(sent)
    with Preemption(Rank(0, 0, 1)) as preemption:
        assert not preemption.asked()
        os.kill(os.getpid(), sent)
        assert preemption.asked()
        with pytest.raises(SystemExit) as ended:
            preemption.end()
    assert ended.value.code == code
    assert signal.getsignal(sent) is before


def test_a_signal_that_comes_while_ranks_agree_is_what_they_agree_on_the_next_time(monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda told, how: os.kill(os.getpid(), signal.SIGUSR1))
    with Preemption(Rank(0, 0, 2)) as preemption:
        assert not preemption.asked()
        monkeypatch.setattr(torch.distributed, "all_reduce", lambda told, how: None)
        assert preemption.asked() and preemption.noted == signal.SIGUSR1


def test_a_training_that_is_sent_sigterm_saves_and_ends_with_143(torch_python, tmp_path):
    stopped = [step_that_sigterm_saves(torch_python, tmp_path / "0")]
    while stopped[-1] % EVERY == 0 and len(stopped) < 3:  # by chance where it saves anyway: once in fifty
        stopped.append(step_that_sigterm_saves(torch_python, tmp_path / str(len(stopped))))
    assert stopped[-1] > EVERY and stopped[-1] % EVERY


def step_that_sigterm_saves(python, folder):
    folder.mkdir()
    options = ["--epochs", 1000, "--batch-size", 8, "--save-every", EVERY, "--quiet"]
    process = start([python, SCRIPT, "--gpus", 2, "--out", "out", *options], folder)
    try:
        wait_for(lambda: process.poll() is not None or newest_step(folder / "out") >= EVERY)
        time.sleep(0.2)  # a few updates behind the checkpoint
        os.kill(program_of(process), signal.SIGTERM)
        said, _ = process.communicate(timeout=WITHIN)
    finally:
        end_tree(process)
    assert process.returncode == 143, said
    return final(folder / "out")["progress"]["step"]
