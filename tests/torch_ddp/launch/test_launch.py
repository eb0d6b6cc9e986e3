import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from process_tree import end_tree
from rank_functions import notes

from torch_ddp import TorchDdpError, add_launch_options, launch

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("launched.py")
RUN = ["-m", "torch.distributed.run"]
TORCHRUN = [sys.executable, *RUN]
WITHIN = 120
TWO_RANKS = {0: "0 0 2 1 gloo", 1: "1 1 2 1 gloo"}
TWO_NODES = {0: "0 0 2 1 gloo", 1: "1 0 2 1 gloo"}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT", "RANK")}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def started(command: list[str], **more: str) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([str(part) for part in command], env=environment(**more), **pipes)


def finish(*processes: subprocess.Popen) -> list[tuple[int, str]]:
    try:
        return [(process.communicate(timeout=WITHIN)[0], process.returncode)[::-1] for process in processes]
    finally:
        for process in processes:
            end_tree(process)


@pytest.mark.slow
def test_python_alone_starts_the_ranks_of_one_machine(torch_python, tmp_path):
    [(status, log)] = finish(started([torch_python, SCRIPT, tmp_path, "--gpus", 2]))
    assert status == 0, log
    assert notes(tmp_path) == TWO_RANKS


@pytest.mark.slow
def test_torchrun_starts_the_ranks_of_one_machine(torch_python, tmp_path):
    [(status, log)] = finish(started([torch_python, *RUN, "--standalone", "--nproc-per-node", 2, SCRIPT, tmp_path]))
    assert status == 0, log
    assert notes(tmp_path) == TWO_RANKS


@pytest.mark.slow
def test_two_machines_meet_in_a_file(torch_python, tmp_path):
    meeting = (tmp_path / "meeting").as_uri()
    command = [torch_python, SCRIPT, tmp_path, "-n", 2, "-g", 1, "--rendezvous", meeting, "-nr"]
    for status, log in finish(started([*command, 0]), started([*command, 1])):
        assert status == 0, log
    assert notes(tmp_path) == TWO_NODES


@pytest.mark.slow
def test_a_rank_that_fails_on_one_machine_ends_those_of_the_other(torch_python, tmp_path):
    meeting = (tmp_path / "meeting").as_uri()
    command = [torch_python, SCRIPT, tmp_path, "--fail", 1, "-n", 2, "-g", 1, "--rendezvous", meeting, "-nr"]
    (first, left_behind), (second, cause) = finish(started([*command, 0]), started([*command, 1]))
    assert (first, second) == (1, 1)
    assert "Rank 1 failed first" in cause
    assert "RuntimeError: the cause of it all" in cause
    assert "Rank 0 failed first" in left_behind
    assert "the cause of it all" not in left_behind


@pytest.mark.slow
def test_two_machines_meet_at_the_address_of_the_first(torch_python, tmp_path):
    command = [torch_python, SCRIPT, tmp_path, "--nodes", 2, "--gpus", 1, "--nr"]
    where = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    for status, log in finish(started([*command, 1], **where), started([*command, 0], **where)):
        assert status == 0, log
    assert notes(tmp_path) == TWO_NODES


@pytest.mark.slow
def test_torchrun_starts_the_ranks_of_two_machines(torch_python, tmp_path):
    command = [torch_python, *RUN, "--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend", "c10d", "--rdzv-id", "test"]
    command += ["--rdzv-endpoint", f"localhost:{free_port()}", "--local-addr", "localhost"]
    first, second = (started([*command, "--node-rank", node, SCRIPT, tmp_path]) for node in (0, 1))
    for status, log in finish(first, second):
        assert status == 0, log
    assert notes(tmp_path) == TWO_NODES


TWICE = (
    "launch: expected torchrun alone to say how many ranks there are, got --nodes, --gpus or --nr as well. "
    "Pass --nnodes and --nproc-per-node to torchrun instead."
)


@pytest.mark.parametrize("words", [["--gpus", "2"], ["--nodes", "2"], ["--nr", "1"], ["--max-restarts", "1"]])
def test_numbers_of_ranks_given_twice_are_refused(monkeypatch, words):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    parser = argparse.ArgumentParser()
    add_launch_options(parser)
    with pytest.raises(TorchDdpError) as error:
        launch(pytest.fail, parser.parse_args(words), "a rank was started")
    assert str(error.value) == TWICE


@pytest.mark.slow
def test_numbers_of_ranks_given_twice_are_refused_under_torchrun(torch_python, tmp_path):
    command = [torch_python, *RUN, "--standalone", "--nproc-per-node", 1, SCRIPT, tmp_path, "--gpus", 2]
    [(status, log)] = finish(started(command))
    assert status == 1
    assert TWICE in log
    assert notes(tmp_path) == {}


@pytest.mark.parametrize("missing", ["RANK", "MASTER_PORT"])
def test_a_process_is_under_torchrun_only_with_all_its_variables(monkeypatch, missing):
    from torch_ddp import under_torchrun

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    assert under_torchrun()
    monkeypatch.delenv(missing)
    assert not under_torchrun()
