import ipaddress
import multiprocessing
import os
import signal
import socket
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from rank_functions import addresses_listened_at, alive, fail_on, leave_a_note, notes
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from torch_ddp import Rank, TorchDdpError, device_of, process_group, rank_from_environment, spawn
from torch_ddp.process_group import keep_to_this_machine
from torch_ddp.rank_failures import (
    _codes_at_first_failure,
    _preemption,
    _raise_if_stopped,
    failures,
    is_stopped,
    recorded,
)


def pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("pid-*")]


def test_spawn_joins_all_ranks_in_a_named_group(tmp_path):
    spawn(leave_a_note, 2, str(tmp_path), "hello")
    assert notes(tmp_path) == {0: "0 0 2 1 gloo hello", 1: "1 1 2 1 gloo hello"}
    # Ranks of one machine are no service for others: neither their connections nor where they meet.
    addresses = {address for path in tmp_path.glob("listens-*") for address in path.read_text().split()}
    assert addresses and all(ipaddress.ip_address(each).is_loopback for each in addresses)


@pytest.mark.parametrize(("named", "kept"), [(None, "lo"), ("eth7", "eth7")])
def test_ranks_of_one_machine_use_its_loopback_unless_another_interface_is_named(monkeypatch, named, kept):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", named or "")
    if named is None:
        monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "eth0"), (2, "lo")])
    keep_to_this_machine()
    assert os.environ["GLOO_SOCKET_IFNAME"] == kept


def test_where_a_process_listens_is_found():
    with socket.create_server(("127.0.0.1", 0)):
        assert "127.0.0.1" in addresses_listened_at()
    with socket.create_server(("0.0.0.0", 0)):
        assert "0.0.0.0" in addresses_listened_at()


def test_a_failing_ranks_own_traceback_is_what_the_caller_sees_and_the_others_are_ended(tmp_path):
    with pytest.raises(ProcessRaisedException, match="the cause of it all") as error:
        spawn(fail_on, 2, 1, "raise", str(tmp_path))
    assert "Rank 1 failed first" in str(error.value)
    assert error.value.error_index == 1
    assert "fail_on" in str(error.value)
    assert len(pids(tmp_path)) == 2
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_a_killed_rank_is_named_and_the_others_are_ended(tmp_path):
    with pytest.raises(ProcessExitedException, match=r"^rank 1 was killed by SIGKILL$"):
        spawn(fail_on, 2, 1, "kill", str(tmp_path))
    assert not any(alive(pid) for pid in pids(tmp_path))


@pytest.mark.slow
def test_a_stopped_rank_is_ended_and_the_one_that_timed_out_is_reported(tmp_path):
    with pytest.raises(ProcessRaisedException, match=r"(?i)timed out") as error:
        spawn(fail_on, 2, 1, "stop", str(tmp_path), timeout=5.0)
    assert "Rank 0 failed first" in str(error.value)
    assert "in fail_on" in str(error.value)
    assert not any(alive(pid) for pid in pids(tmp_path))


@pytest.mark.slow
def test_a_rank_that_exits_on_its_own_is_the_one_that_failed_first(tmp_path):
    with pytest.raises(ProcessRaisedException, match=r"(?s)Rank 0 failed first.*SystemExit: 3"):
        spawn(fail_on, 2, 0, "exit", str(tmp_path))


@pytest.mark.slow
def test_a_rank_that_vanishes_is_named(tmp_path):
    with pytest.raises(ProcessExitedException, match=r"^rank 0 ended with exit code 3$"):
        spawn(fail_on, 2, 0, "vanish", str(tmp_path))


def test_a_rank_that_exits_with_status_zero_has_not_failed(tmp_path):
    with pytest.raises(SystemExit), recorded(tmp_path, 0):
        raise SystemExit(0)
    assert failures(tmp_path) == []


@pytest.mark.slow
def test_a_hanging_rank_makes_the_others_time_out_and_is_ended(tmp_path):
    with pytest.raises(ProcessRaisedException, match=r"(?i)timed out") as error:
        spawn(fail_on, 2, 1, "hang", str(tmp_path), timeout=8.0)
    assert "Rank 0 failed first" in str(error.value)
    assert not any(alive(pid) for pid in pids(tmp_path))


@pytest.mark.parametrize(
    ("world_size", "options", "text"),
    [
        (0, {}, "spawn: expected at least one rank, got 0. Ask for more."),
        (3, {"nodes": 2}, "spawn: expected the nodes to share 3 ranks evenly, got 2 nodes. Change either number."),
        (2, {"nodes": 2, "node": 2}, "spawn: expected a node from 0 to 1, got 2. Number the machines from 0."),
        (
            2,
            {"nodes": 2},
            "spawn: expected a rendezvous for 2 nodes, got none. "
            "Pass 'tcp://host:port' of the first machine, or 'file:///path' of a new file that all see.",
        ),
    ],
)
def test_numbers_that_do_not_fit_together_are_refused(world_size, options, text):
    with pytest.raises(TorchDdpError) as error:
        spawn(leave_a_note, world_size, **options)
    assert str(error.value) == text


def test_the_group_is_left_whatever_happens_in_it(tmp_path):
    for number, failure in enumerate([ZeroDivisionError, KeyboardInterrupt]):
        with pytest.raises(failure), process_group(Rank(0, 0, 1), "gloo", (tmp_path / str(number)).as_uri()):
            assert dist.get_backend() == "gloo"
            raise failure
        assert not dist.is_initialized()


def test_a_rank_outside_torchrun_is_told_what_to_do(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(TorchDdpError) as error:
        rank_from_environment()
    assert str(error.value) == (
        "group: expected the variables that torchrun sets, got no LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. "
        "Start the script with torchrun, or use torch_ddp.spawn."
    )


def test_the_rank_is_what_torchrun_says(monkeypatch):
    for name, value in {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "MASTER_ADDR": "x",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert rank_from_environment() == Rank(rank=5, local_rank=1, world_size=8)


def test_a_backend_is_always_a_known_one_with_its_device(monkeypatch):
    assert str(device_of(Rank(1, 1, 2), "gloo")) == "cpu"
    with pytest.raises(TorchDdpError) as error:
        device_of(Rank(0, 0, 1), "mpi")
    assert str(error.value) == "group: expected one of the backends gloo, nccl, got 'mpi'. Name one."
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert str(device_of(Rank(5, 1, 8), "nccl")) == "cuda:1"
    with pytest.raises(TorchDdpError) as error:
        device_of(Rank(2, 2, 3), "nccl")
    assert str(error.value) == (
        "group: expected a GPU of its own for local rank 2 with the backend 'nccl', got 2 GPUs. "
        "Start fewer ranks, or use backend 'gloo'."
    )


def test_the_first_failure_on_record_is_kept_and_comes_first(tmp_path):
    for rank in (1, 0):
        with pytest.raises(ValueError, match="leaving"), recorded(tmp_path, rank):
            try:
                with recorded(tmp_path, rank):
                    raise KeyError(f"failed in {rank}")
            finally:
                raise ValueError("leaving")
    found = failures(tmp_path)
    assert [failure.rank for failure in found] == [1, 0]
    assert "KeyError: 'failed in 1'" in found[0].text
    assert "leaving" not in found[0].text


def test_a_rank_that_is_stopped_is_named_when_the_others_wait_for_it_too_long(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=time.sleep, args=(600,), daemon=True) for _ in range(2)]
    for process in processes:
        process.start()
    os.kill(processes[1].pid, signal.SIGSTOP)
    try:
        while not is_stopped(processes[1].pid):
            time.sleep(0.01)
        # Not for so long yet: one more look.
        _raise_if_stopped(processes, seen := {}, 4, 0.2)
        assert (list(seen), is_stopped(processes[0].pid), is_stopped(processes[1].pid)) == ([1], False, True)
        with pytest.raises(
            ProcessExitedException, match=r"^rank 5 is stopped since 0.2 seconds, as by SIGSTOP"
        ) as error:
            _codes_at_first_failure(processes, 4, 0.2)
        assert error.value.error_index == 5
        os.kill(processes[1].pid, signal.SIGCONT)
        while is_stopped(processes[1].pid):
            time.sleep(0.01)
        _raise_if_stopped(processes, seen, 4, 0.0)
        assert seen == {}
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert not is_stopped(processes[0].pid)


@pytest.mark.parametrize(
    ("codes", "handed_on", "code"),
    [
        ({0: 143, 1: 143}, [], 143),
        ({0: 138}, [10], 138),
        ({0: -10}, [10], 138),
        ({0: 1, 1: -10}, [10], 138),  # rank 0 failed for lack of the other
        ({0: 1, 1: 138}, [10], None),
        ({0: -15}, [], None),
        ({0: -9}, [15], None),
        ({}, [15], None),
    ],
)
def test_ranks_that_died_of_a_signal_handed_on_were_preempted_and_no_others(codes, handed_on, code):
    assert _preemption(codes, handed_on) == code
