"""How a recording ends: enough steps, an error, a kill, nothing to record; and the command line around it."""

import subprocess
import sys
from pathlib import Path

import pytest

from parity.cli import main
from parity.trace import Ownership, Trace, TraceError

from .conftest import SCRIPTS, environment, run, run_bare, run_recorded

SCRIPT = """
import os, sys, signal
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [2], "x")
w = tf.get_variable("w", [2])
step = tf.train.get_or_create_global_step()
opt = tf.train.GradientDescentOptimizer(0.1)
train = opt.apply_gradients(opt.compute_gradients(tf.reduce_sum(w * x)), step)
sess = tf.Session()
sess.run(tf.global_variables_initializer())
try:
    for number in range(6):
        if number == 3 and sys.argv[1:] == ["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 3 and sys.argv[1:] == ["fork"]:
            if not os.fork():
                sys.exit()
            os.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 3 and sys.argv[1:] == ["fail"]:
            sess.run(train, {x: [1.0, 2.0, 3.0]})
        if number == 2 and sys.argv[1:] == ["leave"]:
            sys.exit(7)
        try:
            sess.run(train, {x: [1.0, number]})
        except Exception:
            raise
        print("made", number)
finally:
    print("finally")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("script") / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.slow
def test_with_steps_recording_ends_after_so_many_with_exit_code_0(tf_python, script, tmp_path):
    done = run_recorded(tf_python, script, "leave", options=("--steps", "2"), cwd=tmp_path)
    assert (done.code, done.printed) == (0, "made 0\nfinally\n"), done.said
    assert done.trace.complete
    assert done.trace.step_numbers == [0, 1]


def test_steps_can_be_skipped_first(tf_python, script, tmp_path):
    done = run_recorded(tf_python, script, options=("--steps", "2", "--skip", "3"), cwd=tmp_path)
    assert done.code == 0, done.said
    assert [int(done.trace.step(number).read("state/global_step")) for number in (0, 1)] == [3, 4]
    assert done.trace.facts["skipped_steps"] == 3


def test_without_steps_output_and_exit_code_are_the_scripts_own(this_python, script, tmp_path):
    done = run_recorded(this_python, script, "leave", cwd=tmp_path)
    assert (done.code, done.printed) == (7, "made 0\nmade 1\nfinally\n")
    assert not done.trace.complete
    assert "not complete" in done.said


def test_an_error_of_the_script_shows_as_its_own_traceback(tf_python, script, tmp_path):
    done = run_recorded(tf_python, script, "fail", cwd=tmp_path)
    bare = run_bare(tf_python, script, "fail", cwd=tmp_path)
    assert (done.code, bare.returncode) == (1, 1)
    start = done.said.index("Traceback (most recent call last)")
    shown = done.said[start : done.said.index("record: ", start)]
    assert "ValueError: Cannot feed value of shape (3,) for " in shown.splitlines()[-1]
    assert "runpy" not in shown
    assert "tf_towers" not in shown
    frames = [line for line in shown.splitlines() if line.startswith("  File")]
    assert frames == [line for line in bare.stderr.splitlines() if line.startswith("  File")]
    assert Trace(done.out, whole=False).step_numbers == [0, 1, 2]


def test_a_script_killed_half_way_leaves_what_it_did_so_far(tf_python, script, tmp_path):
    done = run_recorded(tf_python, script, "kill", cwd=tmp_path)
    assert done.code == -9
    with pytest.raises(TraceError, match="writer stopped early"):
        Trace(done.out)
    trace = Trace(done.out, whole=False)
    assert not trace.complete
    assert trace.step_numbers == [0, 1, 2]
    assert trace.step(2).read("feed/0/x").tolist() == [1.0, 2.0]
    assert trace.facts["optimizer"]["learning_rate"] == pytest.approx(0.1)


def test_a_forked_child_that_leaves_first_does_not_end_the_recording(this_python, script, tmp_path):
    done = run_recorded(this_python, script, "fork", cwd=tmp_path)
    assert done.code == -9
    assert done.printed.count("finally") == 1
    assert "steps in" not in done.said
    assert not done.trace.complete
    assert done.trace.step_numbers == [0, 1, 2]


def test_a_folder_that_is_being_recorded_into_is_refused(tf_python, script, tmp_path):
    out = tmp_path / "script.trace"
    with Ownership(out):
        done = run_recorded(tf_python, script, cwd=tmp_path)
    assert (done.code, done.printed) == (2, "")
    assert done.said == (
        f"trace: expected {out} for one recording alone, got another process that writes to it. "
        "Name another folder, or wait until that has ended.\n"
    )


def test_a_script_that_trains_nothing_is_told_what_was_seen(tf_python, tmp_path):
    script = tmp_path / "nothing.py"
    script.write_text(SCRIPT.replace("sess.run(train", "sess.run(w.name").replace("{x: [1.0, 2.0, 3.0]}", "{}"))
    done = run_recorded(tf_python, script, cwd=tmp_path)
    assert done.code == 2
    assert "record: expected a run of a train op, got none. No trace was written." in done.said
    assert "calls for gradients: Sum:0" in done.said
    assert "calls of apply_gradients: GradientDescent" in done.said
    assert not done.out.exists()


@pytest.mark.slow
def test_a_script_that_swallows_everything_is_ended_all_the_same(this_python, tmp_path):
    script = tmp_path / "stubborn.py"
    script.write_text(
        SCRIPT.replace("range(6)", "range(10**9)").replace(
            "        except Exception:\n            raise", "        except BaseException:\n            pass"
        )
    )
    done = run_recorded(this_python, script, options=("--steps", "2"), cwd=tmp_path)
    assert done.code == 0, done.said
    assert done.trace.step_numbers == [0, 1]


def test_a_module_runs_with_its_own_arguments(this_python, script, tmp_path):
    words = ["-c", "from parity.cli import main; import sys; sys.exit(main())", "record", "--steps", "9"]
    words += ["--tf-python", this_python, "--out", str(tmp_path / "trace"), "-m", "script", "leave"]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=script.parent,
        env=environment(PYTHONPATH=root),
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "made 0\nmade 1\nfinally\n"), done.stderr


@pytest.mark.slow
def test_the_package_runs_by_itself(tf_python, script, tmp_path):
    root = str(Path(__file__).parents[3])
    words = ["-m", "tf_towers.record", "--steps", "1", "--out", str(tmp_path / "trace"), str(script)]
    done = run(tf_python, words, tmp_path, PYTHONPATH=root)
    assert done.returncode == 0, done.stderr
    assert Trace(tmp_path / "trace").step_numbers == [0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected a script or -m MODULE, got neither or both"),
        (["--", "nowhere.py"], "expected a script at nowhere.py, got no such file"),
        (
            ["--steps", "0", "--", str(SCRIPTS / "monitored.py")],
            "expected --steps from 1 and --skip from 0, got 0 and 0",
        ),
        (["--tf-python", "/bin/false", "--", str(SCRIPTS / "monitored.py")], "/bin/false, which does not run"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_one_line(words, message, capsys):
    assert main(["record", *words]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
