"""What torch's elastic launcher makes of a script that asks for restarts."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from process_tree import end_tree

from torch_ddp import TorchDdpError, add_launch_options, launch

ROOT = Path(__file__).parents[3]
WITHIN = 200
SCRIPT = """
import argparse, os, signal, sys
import torch, torch.distributed as dist
import torch_ddp

def train(rank, what):
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    with torch_ddp.Preemption(rank) as preemption:
        dist.all_reduce(torch.zeros(1))
        if rank.rank == 1 and start == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "raise" and rank.rank == 1:
            raise RuntimeError("the cause of it all")
        if what == "signal":
            if rank.rank == 0:
                os.kill(os.getppid(), signal.SIGUSR1)
            while not preemption.asked():
                pass
            preemption.end()
        dist.all_reduce(torch.zeros(1))
        print("rank", rank.rank, "at start", start, flush=True)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    torch_ddp.add_launch_options(parser)
    options = parser.parse_args()
    torch_ddp.launch(train, options, options.what)
"""


def started(folder, what):
    (folder / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "script.py", what, "--gpus", "2", "--max-restarts", "1"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, cwd=folder, env=environment, text=True, **streams)
    try:
        return process.communicate(timeout=WITHIN)[0], process.returncode
    finally:
        end_tree(process)


@pytest.mark.slow
def test_all_ranks_start_again_after_one_was_killed(tmp_path):
    said, code = started(tmp_path, "go")
    assert code == 0, said
    assert "rank 0 at start 1" in said and "rank 1 at start 1" in said


@pytest.mark.slow
def test_the_rank_that_failed_first_is_the_root_cause(tmp_path):
    said, code = started(tmp_path, "raise")
    assert code == 1, said
    root = said.rpartition("Root Cause")[2]
    assert "rank      : 1" in root and "RuntimeError: the cause of it all" in root


@pytest.mark.slow
def test_a_schedulers_signal_is_handed_on_and_is_the_exit_code(tmp_path):
    said, code = started(tmp_path, "signal")
    assert code == 128 + signal.SIGUSR1, said


@pytest.mark.parametrize("meeting", [None, "file:///tmp/meeting"])
def test_several_machines_need_an_address_to_meet_at(monkeypatch, meeting):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCH_DDP_LAUNCHER", "")  # which the launcher sets
    parser = argparse.ArgumentParser()
    add_launch_options(parser)
    words = ["--nodes", "2", "--max-restarts", "1", *(["--rendezvous", meeting] if meeting else [])]
    with pytest.raises(TorchDdpError) as error:
        launch(pytest.fail, parser.parse_args(words), "a rank was started")
    assert str(error.value) == (
        f"launch: expected --rendezvous tcp://host:port for 2 nodes with --max-restarts, got {meeting}. "
        "Name the first machine and a port of it."
    )
