"""One side as a process: whatever it does, its caller gets an answer or a message, and never waits for ever."""

import sys
import time
from pathlib import Path

import pytest

from parity.worker import launch
from parity.worker.failures import SideFailed, failure, last_frame, last_lines, telling_stacks, without_our_frames
from parity.worker.process import SideProcess, fail_together
from parity.worker.protocol import PROTOCOL_VERSION

ROOT = Path(__file__).parents[3]
ANSWER = "import sys, json, time\nfor line in sys.stdin:\n    message = json.loads(line)\n"


@pytest.fixture
def side(tmp_path):
    """Starts a program as a side; closed in the end."""
    started = []

    def start(program: str, silence: float = 60.0, name: str = "tf", unbuffered: bool = True, greets: bool = False):
        command = [sys.executable, *(["-u"] if unbuffered else []), "-c", program]
        process = SideProcess(
            name, command, {"PYTHONPATH": str(ROOT)}, tmp_path / f"{len(started)}.log", silence, greets
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.close()


def test_an_answer_is_the_futures_result_and_progress_comes_before_it(side):
    program = ANSWER + "    print(json.dumps({'progress': [1, 2]})); print(json.dumps({'result': message['x']}))"
    seen = []
    assert side(program).ask("run", lambda done, total: seen.append((done, total)), x=3).result(60) == 3
    assert seen == [(1, 2)]


def greeting(protocol: str) -> str:
    return (
        ANSWER + f"    print(json.dumps({{'result': {{'framework': 'x', {protocol}'request': message['request']}}}}))"
    )


def test_a_side_that_speaks_our_protocol_is_greeted_once_and_then_asked(side):
    process = side(greeting(f"'protocol': {PROTOCOL_VERSION}, "), greets=True)
    assert [process.ask(name).result(60)["request"] for name in ("prepare", "run")] == ["prepare", "run"]


@pytest.mark.parametrize(("protocol", "told"), [("", "1"), (f"'protocol': {PROTOCOL_VERSION + 1}, ", "3")])
def test_a_side_of_another_version_is_refused_in_one_line(side, protocol, told):
    process = side(greeting(protocol), greets=True)
    for _ in range(2):
        with pytest.raises(SideFailed) as refused:
            process.ask("prepare").result(60)
        assert str(refused.value) == (
            f"TensorFlow side: expected version 2 of the protocol, got {told}: parity and its worker are of different "
            "versions. Install one version of tower-parity in both interpreters."
        )


def test_closing_a_side_that_is_waited_for_ends_the_wait(side):
    process = side("import time; time.sleep(1000)", silence=1000.0)
    waiting = process.ask("run")
    time.sleep(0.1)
    process.close()
    with pytest.raises(SideFailed, match="TensorFlow side: expected to run the steps, but "):
        waiting.result(10)


def test_closing_twice_is_closing_once(side):
    process = side("pass")
    process.close()
    process.close()


def test_what_was_asked_before_a_failure_was_known_fails_with_it_and_a_new_beginning_is_served(side):
    error = {"type": "E", "message": "first", "traceback": "", "plain": True}
    program = ANSWER + (
        f"    bad = message['request'] == 'run'\n"
        f"    print(json.dumps({{'error': {error!r}}} if bad else {{'result': 'begun'}}))"
    )
    process = side(program)
    asked = [process.ask("run"), process.ask("initialize"), process.ask("prepare")]
    for future in asked:
        with pytest.raises(SideFailed, match="TensorFlow side: first"):
            future.result(60)
    with pytest.raises(SideFailed, match="TensorFlow side: first"):
        process.ask("initialize").result(60)
    assert process.ask("prepare").result(60) == "begun"


def test_a_side_that_is_settled_owes_nothing_and_no_late_failure_meets_what_it_is_asked_next(side):
    error = {"type": "E", "message": "late", "traceback": "", "plain": True}
    program = ANSWER + (
        f"    if message['request'] == 'run':\n"
        f"        time.sleep(0.3)\n"
        f"        print(json.dumps({{'error': {error!r}}}))\n"
        f"    else:\n"
        f"        print(json.dumps({{'result': message['request']}}))"
    )
    process = side(program)
    assert process.ask("prepare").result(60) == "prepare"
    running = process.ask("run")
    while not running.running():
        time.sleep(0.01)
    queued = process.ask("run")
    process.settle()
    assert (running.done(), queued.cancelled()) == (True, True)
    with pytest.raises(SideFailed, match="late"):
        running.result(0)
    assert process.ask("prepare").result(60) == "prepare"


def test_a_line_that_a_side_prints_reaches_its_log_whole(side, tmp_path):
    program = (
        "from parity.worker.protocol import claim_standard_streams, serve\n"
        "def say(arguments, progress):\n"
        "    print(arguments['text'], end=arguments['end'])\n"
        "serve(claim_standard_streams(), {'say': say})"
    )
    process = side(program, unbuffered=False)
    process.ask("say", text="giving", end="").result(60)
    assert (tmp_path / "0.log").read_text() == ""
    process.ask("say", text=" up", end="\n").result(60)
    assert (tmp_path / "0.log").read_text() == "giving up\n"


def test_sides_that_fail_together_do_not_make_anyone_wait_for_the_other(side):
    slow, broken = side("import time; time.sleep(1000)", 1000.0, "tf"), side("import sys; sys.exit(3)", name="torch")
    fail_together(slow, broken)
    waiting = [slow.ask("run"), slow.ask("prepare")]
    with pytest.raises(SideFailed, match="torch side: expected to run the steps"):
        broken.ask("run").result(60)
    for future in waiting:
        with pytest.raises(SideFailed, match="torch side: expected to run the steps"):
            future.result(60)


def test_a_side_serves_again_after_a_failure_of_another_that_is_lived_with(side):
    error = {"type": "E", "message": "no such layer", "traceback": "", "plain": True}
    whole = side(ANSWER + "    print(json.dumps({'result': 'served'}))", name="tf")
    broken = side(ANSWER + f"    print(json.dumps({{'error': {error!r}}}))", name="torch")
    fail_together(whole, broken)
    with pytest.raises(SideFailed, match="torch side: no such layer"):
        broken.ask("run").result(60)
    with pytest.raises(SideFailed, match="torch side: no such layer"):
        whole.ask("run").result(60)
    whole.outlive_failure()
    assert whole.ask("prepare").result(60) == "served"


def test_a_side_whose_answer_was_given_up_stays_lost(side):
    slow, broken = side("import time; time.sleep(1000)", 1000.0, "tf"), side("import sys; sys.exit(3)", name="torch")
    fail_together(slow, broken)
    waiting = slow.ask("run")
    time.sleep(0.2)
    with pytest.raises(SideFailed):
        broken.ask("run").result(60)
    with pytest.raises(SideFailed):
        waiting.result(60)
    slow.outlive_failure()
    with pytest.raises(SideFailed, match="torch side: expected to run the steps"):
        slow.ask("prepare").result(60)


def test_an_answer_that_was_given_up_is_waited_for_and_dropped_where_all_begins_anew(side):
    error = {"type": "E", "message": "no such layer", "traceback": "", "plain": True}
    slow = side(
        ANSWER + "    time.sleep(2 * (message['request'] == 'run'))\n    print(json.dumps({'progress': [1, 2]}))\n"
        "    print(json.dumps({'result': message['request']}))"
    )
    broken = side(ANSWER + f"    print(json.dumps({{'error': {error!r}}}))", name="torch")
    fail_together(slow, broken)
    waiting = slow.ask("run")
    time.sleep(0.2)
    for answer in (broken.ask("run"), waiting):
        with pytest.raises(SideFailed, match="torch side: no such layer"):
            answer.result(60)
    for each in (slow, broken):
        each.catch_up()
    assert slow.ask("prepare").result(60) == "prepare", "and not the answer to what was asked before"
    gone = side("import sys; sys.exit(3)")
    with pytest.raises(SideFailed):
        gone.ask("run").result(60)
    gone.catch_up()
    assert gone.lost


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("import sys; sys.exit('mine')", "ended with status 1. Look above for why, and run again."),
        ("import sys; sys.exit(3)", "ended with status 3. It printed nothing; try its interpreter manually, and run"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL. Look for memory limits"),
        ("print('{\"resu', end='')", "ended with status 0."),
        ("print('this is no message')", "ended with status 0."),
    ],
)
def test_a_side_that_ends_without_an_answer_is_told_how(side, program, how):
    process = side(program, name="torch")
    with pytest.raises(SideFailed) as failed:
        process.ask("run").result(60)
    assert f"torch side: expected to run the steps, but its process {how}" in str(failed.value)
    process.outlive_failure()
    assert process.lost


def test_a_silent_side_is_ended_with_everything_it_started_and_its_stack_is_kept(side):
    program = (
        "import faulthandler, signal, subprocess, sys, time\n"
        "faulthandler.register(signal.SIGUSR1)\n"
        "print('{\"progress\": [0, 1]}')\n"
        "time.sleep(1000)\n"
    )
    process = side(program, silence=3.0)
    with pytest.raises(SideFailed, match="expected a heartbeat within 3 s of 'run', got none; it was ended") as failed:
        process.ask("run").result(60)
    assert 'File "<string>", line 4 in <module>' in failed.value.printed
    assert process._process.wait(10) == -9
    process.outlive_failure()
    assert process.lost
    with pytest.raises(SideFailed, match="expected a heartbeat within 3 s of 'run', got none; it was ended"):
        process.ask("prepare").result(60)


def test_an_answer_left_by_a_side_that_has_ended_is_still_read(side):
    error = {"type": "E", "message": "expected tensorflow, got none", "traceback": "", "plain": True}
    process = side(f"import json; print(json.dumps({{'error': {error!r}}}))")
    process._process.wait(60)
    with pytest.raises(SideFailed, match="TensorFlow side: expected tensorflow, got none"):
        process.ask("prepare").result(60)


def test_our_frames_are_dropped_and_a_traceback_of_ours_alone_is_kept(tmp_path):
    ours = without_our_frames.__code__.co_filename
    text = (
        "Traceback (most recent call last):\n"
        f'  File "{ours}", line 1, in serve\n    call()\n    ^^^^^^\n'
        '  File "/home/me/model.py", line 5, in tower\n    boom()\n'
        "RuntimeError: boom"
    )
    short = without_our_frames(text)
    assert short.splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/me/model.py", line 5, in tower',
        "    boom()",
        "RuntimeError: boom",
    ]
    assert last_frame(short) == "model.py, line 5, in tower"
    operation = (
        f'Original stack trace:\n  File "{ours.lstrip("/")}", line 1, in serve\n  File "home/me/m.py", line 5, in tower'
    )
    assert without_our_frames(operation).splitlines()[1:] == ['  File "home/me/m.py", line 5, in tower']
    bug = f'Traceback (most recent call last):\n  File "{ours}", line 1, in serve\nKeyError: 1'
    assert without_our_frames(bug) == bug


def test_the_place_named_is_the_users_and_not_the_librarys_that_it_called():
    text = '  File "/home/me/model.py", line 5, in loss\n  File "/x/site-packages/torch/nn.py", line 9, in f\nE'
    assert last_frame(text) == "model.py, line 5, in loss"
    assert last_frame("E: nothing") == ""


def test_only_stacks_that_pass_through_the_users_code_are_told():
    ours = without_our_frames.__code__.co_filename
    user = f'Thread 0x1 (most recent call first):\n  File "/home/me/model.py", line 5 in loss\n  File "{ours}", line 3 in f'
    idle = f'Thread 0x2 (most recent call first):\n  File "{time.__name__}/site-packages/x.py", line 3 in f'
    assert telling_stacks(f"{user}\n{idle}").splitlines() == user.splitlines()[:2]
    assert telling_stacks(idle) == idle


def test_what_every_start_of_tensorflow_prints_is_not_told(tmp_path):
    log = tmp_path / "log"
    log.write_text("I0000 00:00:1.5 10 x.cc:31] Could not find cuda\nmine\n\nInstructions for updating:\nmine too\n")
    assert last_lines(log, 15) == "mine\nmine too"
    assert last_lines(log, 1) == "mine too"
    assert last_lines(tmp_path / "none", 15) == ""


def test_an_error_of_several_lines_is_told_by_its_first_with_the_rest_in_the_traceback():
    trace = 'Traceback (most recent call last):\n  File "/home/me/m.py", line 2, in f\nE: first\nsecond'
    error = {"type": "E", "message": "first\nsecond", "traceback": trace, "plain": False}
    failed = failure("data", "batches", error)
    assert str(failed) == (
        "data side: expected to get the batches, got E: first (m.py, line 2, in f). "
        "Fix it there; its traceback is above."
    )
    assert failed.traceback == trace


def test_a_side_that_is_hung_up_on_ends_by_itself_and_is_closed_later(side, tmp_path):
    # What it does behind its last request is done before anybody waits for it, or ends it.
    done = tmp_path / "done"
    process = side(ANSWER + f"    print('{{\"result\": 1}}')\nopen({str(done)!r}, 'w').close()\n")
    assert process.ask("run").result(60) == 1
    process.hang_up()
    process.hang_up()
    deadline = time.monotonic() + 60
    while not done.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done.exists()
    process.close()
    process.close()
    with pytest.raises((SideFailed, RuntimeError)):
        process.ask("run").result(60)


def test_all_sides_are_hung_up_on_before_the_first_is_waited_for(monkeypatch):
    told = []

    class Made:
        def __init__(self, name):
            self.name = name

        def hang_up(self):
            told.append(("hang up", self.name))

        def close(self):
            told.append(("close", self.name))

    for name in ("tf", "torch", "data"):
        monkeypatch.setattr(launch, f"launch_{name}", lambda *_, name=name: Made(name))
    with launch.open_sides(None):
        assert told == []
    assert [what for what, _ in told] == ["hang up"] * 3 + ["close"] * 3
    assert len(set(told)) == 6
