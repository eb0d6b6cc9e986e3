"""What a process that is killed cannot remove, another removes; one that ends by itself leaves nothing to it."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from support.signals import take_hangups
from support.tiny_case import processes_with

from parity.worker import reaper
from parity.worker.reaper import removed_when_killed, temporary_folder

if sys.platform != "linux":
    pytest.skip("looks for left processes in /proc; runs on Linux", allow_module_level=True)

WITHIN = 20.0
HOLD = """
import sys, time
from pathlib import Path
from parity.worker.reaper import ended_when_killed, removed_when_killed, temporary_folder
with temporary_folder("parity-") as one, temporary_folder("parity-") as other, removed_when_killed(sys.argv[1]):
    with temporary_folder("parity-") as gone:
        pass
    for folder in (one, other):
        Path(folder, "deep").mkdir()
        Path(folder, "deep", "file").touch()
    {}
"""
WAIT = "print('held', flush=True); time.sleep(60)"
MARKED = (
    "import os, subprocess\n"
    "    with ended_when_killed('PARITY_TEST_MARK', sys.argv[2]):\n"
    "        subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'], start_new_session=True,\n"
    "            env={**os.environ, 'PARITY_TEST_MARK': sys.argv[2]}, stdout=subprocess.DEVNULL)\n"
    "        " + WAIT
)


@pytest.fixture
def begun(tmp_path):
    """Starts a program that holds folders, and waits until it does; the process, its TMPDIR, a folder of its own."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "own").mkdir()
    started = []

    def begin(rest, *words):
        environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
        command = [sys.executable, "-c", HOLD.format(rest), str(tmp_path / "own"), *words]
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=take_hangups,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process, tmp_path / "temporary", tmp_path / "own"

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def eventually(condition) -> bool:
    deadline = time.monotonic() + WITHIN
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_folders_of_a_process_that_is_killed_with_its_group_are_removed(begun, number):
    process, temporary, own = begun(WAIT)
    assert len([*temporary.iterdir()]) == 2
    os.killpg(process.pid, number)
    process.wait(WITHIN)
    assert eventually(lambda: not [*temporary.iterdir()] and not own.exists())


def test_marked_processes_of_a_process_that_is_killed_are_ended(begun):
    mark = uuid.uuid4().hex
    process, temporary, _ = begun(MARKED, mark)
    assert len(processes_with(f"PARITY_TEST_MARK={mark}")) == 1
    process.kill()
    assert eventually(lambda: processes_with(f"PARITY_TEST_MARK={mark}") == [])
    assert eventually(lambda: not [*temporary.iterdir()])


def test_a_process_that_ends_by_itself_removes_its_own_and_no_more(begun):
    process, temporary, own = begun("print('held', flush=True)")
    assert process.wait(WITHIN) == 0
    assert [*temporary.iterdir()] == []
    assert own.is_dir()


def test_one_process_looks_on_while_there_is_a_folder_and_none_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr(reaper, "_reaper", reaper._Reaper())  # this process may hold folders for other tests
    with temporary_folder("parity-test-") as one:
        first = reaper._reaper._process
        with removed_when_killed(str(tmp_path)):
            assert reaper._reaper._process is first
        assert first.poll() is None
        assert Path(one).is_dir()
    assert first.returncode == 0
    assert not Path(one).exists()
    assert reaper._reaper._process is None


def test_a_fork_leaves_its_parents_folders_alone():
    with temporary_folder("parity-test-") as folder:
        child = os.fork()
        if not child:
            reaper._reaper.tell("folder", folder, False)
            os._exit(0)
        os.waitpid(child, 0)
        assert reaper._reaper._process.poll() is None
        assert Path(folder).is_dir()


def test_a_folder_is_given_where_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(reaper, "_reaper", reaper._Reaper())
    monkeypatch.setattr(reaper.sys, "executable", "/no/such/python")
    with temporary_folder("parity-test-") as folder:
        assert Path(folder).is_dir()
    assert not Path(folder).exists()


def test_a_folder_goes_with_the_last_handle_that_is_free(tmp_path):
    program = (
        "import os, resource, sys\nfrom parity.worker.reaper import temporary_folder\n"
        "with temporary_folder('parity-') as folder:\n"
        "    os.makedirs(folder + '/a/b/c')\n"
        "    open(folder + '/a/b/c/file', 'w').close()\n"
        "    os.symlink(sys.argv[1], folder + '/a/link')\n"
        "    lowest = os.open('/', os.O_RDONLY)\n"
        "    os.close(lowest)\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, lowest + 1))\n"
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-c", program, str(tmp_path / "mine")]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert (tmp_path / "mine" / "file").exists()


def test_a_folder_goes_behind_a_block_that_fails():
    with pytest.raises(KeyError), temporary_folder() as folder:
        raise KeyError
    assert not Path(folder).exists()
