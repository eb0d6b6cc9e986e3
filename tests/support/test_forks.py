"""A program of an interpreter that has imported its framework runs as one that is started anew."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.forks import forking

SCRIPT = """
import os, sys
print("fractions" in sys.modules, __name__, sys.argv[1:], os.getcwd(), os.environ["GIVEN"], sys.path[:3], sys.stdin.read())
print("on stderr", file=sys.stderr)
if sys.argv[1] == "raise":
    raise KeyError("raised")
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
if sys.argv[1] == "start":
    import subprocess
    sys.exit(subprocess.run([sys.executable, __file__, "nothing"], input=b"").returncode)
sys.exit(sys.argv[2] if len(sys.argv) > 2 else 5)
"""


@pytest.fixture(scope="module")
def python():
    with forking(sys.executable, "fractions", TF_LEVEL="3", COUNT="1") as path:
        yield path


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def go(python, *words, **environment):
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment = {**kept, "TF_LEVEL": "3", "COUNT": "1", "GIVEN": "yes", **environment}
        command = [python, *(words if words[0].startswith("-") else [str(script), *words])]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            input="given",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return go


def test_a_fork_finds_modules_where_a_new_interpreter_does(python, run):
    assert run(python, "end", PYTHONPATH="/a:/b")[1] == run(sys.executable, "end", PYTHONPATH="/a:/b")[1].replace(
        "False", "True"
    )


@pytest.mark.parametrize("words", [["end"], ["end", "with words"], ["raise"], ["kill"], ["start"]])
def test_a_fork_prints_and_ends_as_a_new_interpreter_does(python, run, words):
    forked, anew = run(python, *words), run(sys.executable, *words)
    assert forked[0] == anew[0] and forked[2] == anew[2]
    assert forked[1] == anew[1].replace("False", "True")
    assert "on stderr" in forked[2]


def test_other_settings_of_tensorflow_and_what_is_no_script_start_anew(python, run):
    assert "True" in run(python, "end")[1]
    assert "False" in run(python, "end", TF_LEVEL="2")[1]
    assert "False" in run(python, "end", TF_MORE="1")[1]
    assert "False" in run(python, "end", COUNT="2")[1]
    assert run(python, "-c", "import sys; print(sys.executable)")[1].strip() == sys.executable


def test_a_program_ends_with_the_process_that_stands_for_it(python, tmp_path):
    (tmp_path / "wait.py").write_text(
        "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "TF_LEVEL": "3",
        "COUNT": "1",
    }
    started = subprocess.Popen([python, "wait.py"], cwd=tmp_path, env=environment)
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text())
    started.send_signal(signal.SIGKILL)
    started.wait()
    until(lambda: not Path("/proc", pid.read_text()).exists())


def until(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)
