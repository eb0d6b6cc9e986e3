"""SIGTERM: a checkpoint of the update under way, and an exit code of its own."""

import os
import signal
import sys

import pytest
from killing import newest_step, wait_for
from process_tree import end_tree
from trainer import SCRIPT, WITHIN, final, start

from torch_ddp import Preemption, Rank


def test_the_signal_is_noted_within_the_block_and_the_code_is_143():
    before = signal.getsignal(signal.SIGTERM)
    with Preemption(Rank(0, 0, 1)) as preemption:
        assert not preemption.asked()
        os.kill(os.getpid(), signal.SIGTERM)
        assert preemption.asked()
        with pytest.raises(SystemExit) as ended:
            preemption.end()
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_training_that_is_sent_sigterm_saves_and_ends_with_143(tmp_path):
    options = ["--epochs", 1000, "--batch-size", 8, "--save-every", 50, "--quiet"]
    process = start([sys.executable, SCRIPT, "--gpus", 2, "--out", "out", *options], tmp_path)
    try:
        wait_for(lambda: process.poll() is not None or newest_step(tmp_path / "out") >= 50)
        os.kill(process.pid, signal.SIGTERM)
        said, _ = process.communicate(timeout=WITHIN)
    finally:
        end_tree(process)
    assert process.returncode == 143, said
    assert final(tmp_path / "out")["progress"]["step"] > 50
