"""A test that needs what a machine lacks is skipped, or fails where that is required; nothing is installed by a test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.machine import INSTALL, required

ROOT = Path(__file__).parents[2]
# A Python 3.7 that says of itself what it is asked for; its environments are copies of it, and pip writes a file.
PYTHON37 = """#!/bin/sh
case "$1 $2" in
  -c*) test -e "$0.tf" && tf=', "tensorflow": "1.15.5"'
       printf '{"version": "3.7.9", "executable": "%s"%s}' "$0" "$tf" ;;
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip") test -z "$NO_NETWORK" && touch "$0.tf" || { echo no network >&2; exit 1; } ;;
esac
"""
TESTS = """
def test_in_a_browser(chromium_path): pass


def test_on_tensorflow_1(tf1_python): pass


def test_on_neither(): pass
"""


@pytest.fixture
def machine(tmp_path):
    """A bare machine: the environment variables of a process there. Its programs are in bin/."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "dirname", "sed", "mkdir", "cp", "touch"):
        (programs / name).symlink_to(shutil.which(name))
    (programs / "python3").symlink_to(sys.executable)
    return {"PATH": str(programs), "HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


def give(machine, name, text="#!/bin/sh\n"):
    path = Path(machine["PATH"], name)
    path.write_text(text)
    path.chmod(0o755)
    return path


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.fixture
def tested(tmp_path, machine):
    """Runs the tests above on the bare machine; returns the exit status and what was printed."""
    (tmp_path / "test_made.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.requirements"]')
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def go(**environment):
        command = [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", str(tmp_path)]
        path = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
        done = run(*command, cwd=tmp_path, env={**machine, "PYTHONPATH": path, "COLUMNS": "300", **environment})
        return done.returncode, done.stdout + done.stderr

    return go


def test_what_is_missing_and_not_required_is_skipped_and_says_what_to_do(tested):
    status, printed = tested()
    assert status == 0 and "1 passed, 2 skipped" in printed, printed
    assert "needs a Chromium: apt-get install chromium" in printed
    assert "install one (pyenv install 3.7), then run " + INSTALL in printed


def test_what_is_missing_and_required_fails_and_says_what_to_do(tested):
    status, printed = tested(PARITY_REQUIRE="tf1, browser")
    assert status == 1 and "1 passed, 2 errors" in printed, printed
    assert "apt-get install chromium, or name one in $PARITY_CHROMIUM (PARITY_REQUIRE has browser)" in printed
    assert f"(pyenv install 3.7), then run {INSTALL} (PARITY_REQUIRE has tf1)" in printed


def test_only_what_is_required_fails(tested):
    status, printed = tested(PARITY_REQUIRE="browser")
    assert status == 1 and "1 passed, 1 skipped, 1 error" in printed, printed


def test_what_is_there_is_used_and_a_python_without_tensorflow_is_left_as_it_is(tested, machine):
    give(machine, "chromium")
    python = give(machine, "python3.7", PYTHON37)
    status, printed = tested(PARITY_REQUIRE="tf1,browser")
    assert status == 1 and "2 passed, 1 error" in printed, printed
    assert f"needs TensorFlow 1.15, got a Python 3.7 without ({python}): run {INSTALL}" in printed
    Path(f"{python}.tf").touch()
    status, printed = tested(PARITY_REQUIRE="tf1,browser")
    assert status == 0 and "3 passed" in printed, printed


def test_a_word_that_means_nothing_is_an_error(tested):
    status, printed = tested(PARITY_REQUIRE="tf1,gpu,tf3")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "PARITY_REQUIRE: expected tf1 and browser, with a comma between, got gpu, tf3." in printed


def test_words_are_read_with_spaces_or_none():
    assert required("") == required(" , ") == set()
    assert required("tf1, browser,") == {"tf1", "browser"}


@pytest.fixture
def checkout(tmp_path):
    """What `.ci/run` needs of this project, with a test command that says what is required."""
    package = Path("parity", "worker")
    ours = [Path("parity", "__init__.py"), package / "__init__.py", package / "interpreters.py"]
    for name in (".ci/run", "tests/support/machine.py", *ours):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_text("<!-- tests -->\n```bash\necho tested with $PARITY_REQUIRE && echo two\n```\n")
    return tmp_path / ".ci" / "run"


def test_continuous_integration_says_first_what_a_bare_machine_skips_and_runs_the_command(checkout, machine):
    done = run(str(checkout), env={**machine, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    tf1, browser, gpu = done.stderr.splitlines()
    assert tf1.startswith("will be skipped: tests of tf1: needs a Python 3.7, got none on PATH")
    assert browser.startswith("will be skipped: tests of browser: needs a Chromium: apt-get install chromium")
    assert gpu.startswith("will be skipped: tests on a GPU")
    assert done.stdout.splitlines()[1:] == ["+ echo tested with $PARITY_REQUIRE && echo two", "tested with", "two"]


def test_continuous_integration_installs_tensorflow_1_and_requires_what_is_there(checkout, machine):
    give(machine, "chromium")
    give(machine, "python3.7", PYTHON37)
    done = run(str(checkout), env=machine)
    assert "tested with tf1,browser" in done.stdout and "tests of" not in done.stderr, done.stdout + done.stderr
    made = Path(machine["HOME"], ".cache", "tower-parity", "tf1.15", "bin", "python")
    assert made.exists() and Path(f"{made}.tf").exists()


def test_an_installation_that_fails_is_said_and_the_other_tests_run(checkout, machine):
    give(machine, "python3.7", PYTHON37)
    done = run(str(checkout), env={**machine, "NO_NETWORK": "1"})
    assert "TensorFlow 1.15 could not be installed, mend this first: no network" in done.stderr, done.stderr
    assert "will be skipped: tests of tf1" in done.stderr and "tested with\n" in done.stdout


def test_what_the_user_requires_stays_required(checkout, machine):
    assert "tested with browser," in run(str(checkout), env={**machine, "PARITY_REQUIRE": "browser"}).stdout
