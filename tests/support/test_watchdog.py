"""A test that nothing in its own process can end fails by its name, and the run ends."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
STUCK = """
import ctypes
import subprocess
import sys


def test_before():
    pass


def wait_for_good_with_the_interpreters_lock():
    mutex = ctypes.create_string_buffer(128)
    library = ctypes.PyDLL(None)  # unlike CDLL, it does not release the lock
    library.pthread_mutex_init(mutex, None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def test_that_never_ends():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open("child", "w") as file:
        file.write(str(child.pid))
    wait_for_good_with_the_interpreters_lock()


def test_after():
    pass
"""


def run(folder, *words):
    (folder / "test_stuck.py").write_text(STUCK)
    (folder / "conftest.py").write_text(
        'pytest_plugins = ["support.watchdog", "support.grouping", "support.scheduler"]'
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:parity", "--timeout", "2", *words]
    begun = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "watchdog: test_stuck.py::test_that_never_ends" in said and "its limit of 2 s" in said
    assert "in wait_for_good_with_the_interpreters_lock" in said, "where it is stuck is printed"
    assert time.monotonic() - begun < 60
    assert gone(int((folder / "child").read_text())), "what the test has started is ended with it"
    return said


def gone(pid):
    deadline = time.monotonic() + 20  # a killed process ends when it is next given a processor
    while time.monotonic() < deadline:
        command = ["ps", "-o", "stat=", "-p", str(pid)]
        state = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if state.stdout.strip()[:1] in ("", "Z"):
            return True
        time.sleep(0.1)
    return False


def test_a_stuck_test_ends_the_run_by_its_name(tmp_path):
    run(tmp_path)


def test_a_stuck_test_is_one_failure_among_those_that_workers_share(tmp_path):
    said = run(tmp_path, "-n", "1", "--dist", "loadgroup")
    assert re.search(r"worker 'gw0' crashed while running 'test_stuck.py::test_that_never_ends'", said)
    assert "1 failed, 2 passed" in said, "the stuck test is not tried again, those behind it are run"


def test_a_test_that_ends_in_time_is_left_alone(tmp_path):
    (tmp_path / "test_quick.py").write_text("import time\n\n\ndef test_quick():\n    time.sleep(0.5)\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.watchdog"]')
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:parity", "--timeout", "30"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "watchdog" not in done.stderr
