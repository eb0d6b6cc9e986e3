"""Failures of a side through the real command: one clear message, exit code 2, no process and no whole trace left."""

import json
import sys
import uuid
from pathlib import Path

import pytest
from support.tiny_case import BREAK, incomplete_traces, processes_with, write_case

from parity.cli import main

if sys.platform != "linux":
    pytest.skip("looks for left processes in /proc; runs on Linux", allow_module_level=True)


# Whose words are what they are about: what a process of its own leaves, the others show, the tiny case itself among them.
FORKED = pytest.mark.usefixtures("sides_in_forks")


class Outcome:
    """What a run left: exit code, what it printed, its folder, its JSON."""

    def __init__(self, code: int, printed: str, errors: str, out: Path, result: dict) -> None:
        self.code, self.printed, self.errors, self.out, self.result = code, printed, errors, out, result

    @property
    def message(self) -> str:
        return next(line for line in self.errors.splitlines() if line.startswith("parity: "))


@pytest.fixture
def attempt(tmp_path, capfd, monkeypatch):
    """Runs the tiny case, changed; no process may be left afterwards, and no part of a file."""
    mark = f"mark-{uuid.uuid4().hex}"
    monkeypatch.setenv("PARITY_TEST_MARK", mark)
    monkeypatch.delenv("PARITY_TF_PYTHON", raising=False)

    def run(*options: str, **changes: str) -> Outcome:
        case, out, file = write_case(tmp_path / "tiny", **changes), tmp_path / "out", tmp_path / "result.json"
        code = main(["run", str(case), "--levels", "1", "--out", str(out), "--json", str(file), *options])
        captured = capfd.readouterr()
        assert processes_with(mark) == []
        assert not list(tmp_path.rglob("*.part"))
        return Outcome(code, captured.out, captured.err, out, json.loads(file.read_text()))

    return run


def could_not_compare(outcome: Outcome, side: str | None) -> None:
    assert outcome.code == 2
    assert outcome.errors.splitlines()[-1] == "verdict: incomparable"
    assert outcome.printed == ""
    assert outcome.result["verdict"] == "incomparable"
    assert outcome.result["error"]["side"] == side
    assert outcome.message.removeprefix("parity: ") == outcome.result["error"]["message"].splitlines()[0]


def test_the_tiny_case_itself_is_the_same(attempt):
    outcome = attempt()
    assert outcome.code == 0, outcome.errors
    assert outcome.errors == ""
    assert outcome.printed.startswith(
        "verdict: same (combination: ours, not the port's)  tiny  (not run: float32, trajectory, mixed)\n"
    )
    assert outcome.result["error"] is None
    assert incomplete_traces(outcome.out) == []
    assert (outcome.out / "logs" / "tf.log").is_file()


def test_a_batch_that_does_not_divide_is_refused_before_anything_starts(attempt):
    outcome = attempt(case="batch_size = 8 -> batch_size = 7")
    could_not_compare(outcome, None)
    assert "case.toml:3: batch_size: expected a multiple of towers = 2" in outcome.errors
    assert "Write 6 or 8, or another number of towers." in outcome.errors
    assert not outcome.out.exists()


def test_an_unknown_key_is_refused_with_its_line_and_the_right_name(attempt):
    outcome = attempt(case="steps = 3 -> stepz = 3")
    could_not_compare(outcome, None)
    assert (
        "case.toml:2: stepz: expected a key of this table, got an unknown one. Did you mean 'steps'?" in outcome.errors
    )


@FORKED
def test_a_missing_function_is_refused_with_the_near_one(attempt):
    outcome = attempt(tf="def tower( -> def towr(")
    could_not_compare(outcome, None)
    assert "model_tf.py to define 'tower', got no such name. Did you mean 'towr'?" in outcome.errors


@FORKED
def test_a_tower_that_raises_shows_the_users_traceback_and_place(attempt):
    outcome = attempt(tf=f"{BREAK} -> raise RuntimeError('boom')")
    could_not_compare(outcome, "tf")
    assert outcome.message == (
        "parity: TensorFlow side: expected to build the model, got RuntimeError: boom (model_tf.py, line 4, in tower). "
        "Fix it there; its traceback is above."
    )
    frames = [line for line in outcome.errors.splitlines() if line.strip().startswith("File ")]
    assert len(frames) == 1  # the user's own, none of ours
    assert "model_tf.py" in frames[0]


@pytest.mark.slow
@FORKED
def test_an_operation_that_fails_in_the_graph_is_named_where_it_was_made(attempt):
    outcome = attempt(tf=f"{BREAK} -> x = tf.debugging.check_numerics(x / 0.0, 'bad x')")
    could_not_compare(outcome, "tf")
    assert "TensorFlow side: expected to run the steps, got InvalidArgumentError: " in outcome.message
    assert "(model_tf.py, line 4, in tower)" in outcome.message
    assert "tf_towers/worker.py" not in outcome.errors


@pytest.mark.slow
@FORKED
def test_a_tower_that_opens_a_session_is_told_that_it_only_builds(attempt):
    outcome = attempt(tf=f"{BREAK} -> tf.Session().run(tf.assert_greater(tf.zeros([]), 1.0))")
    could_not_compare(outcome, "tf")
    assert outcome.message.startswith(
        "parity: TensorFlow side: expected to build the model, got InvalidArgumentError: "
    )
    assert "Graph execution error:" not in outcome.message
    assert outcome.message.endswith(
        "(model_tf.py, line 4, in tower). A tower only builds the graph: leave sessions out of it. Its traceback is above."
    )


@pytest.mark.slow
def test_a_script_that_exits_when_it_is_imported_is_told_with_the_line(attempt):
    outcome = attempt(tf=f"{BREAK} -> raise SystemExit(3)")
    could_not_compare(outcome, "tf")
    assert outcome.message == (
        "parity: TensorFlow side: expected to build the model, got SystemExit: 3 (model_tf.py, line 4, in tower). "
        "The module is imported, not run: keep what runs it, and reads a command line, "
        'under if __name__ == "__main__". Its traceback is above.'
    )


@pytest.mark.slow
def test_a_rank_that_crashes_shows_where_the_users_code_was(attempt):
    outcome = attempt(torch=f"{BREAK} -> os.abort()")
    could_not_compare(outcome, "torch")
    assert outcome.message.endswith("it was killed by SIGABRT. Look above for why, and run again.")
    assert "  Fatal Python error: Aborted" in outcome.errors.splitlines()
    assert 'model_torch.py", line 18 in loss' in outcome.errors
    assert "torch_ddp/worker/rank.py" not in outcome.errors
    assert "Extension modules" not in outcome.errors


@pytest.mark.slow
def test_a_rank_that_ends_by_itself_is_told_with_what_it_printed(attempt):
    outcome = attempt(torch=f"{BREAK} -> print('giving up', flush=True); dist.get_rank() and os._exit(5)")
    could_not_compare(outcome, "torch")
    assert outcome.message == (
        "parity: torch side: expected rank 1 of 2 to answer, but it ended with status 5. "
        "Look above for why, and run again."
    )
    assert "  giving up" in outcome.errors.splitlines()


@pytest.mark.slow
@FORKED
def test_a_loss_that_is_no_scalar_is_told_in_one_line_without_a_traceback(attempt):
    outcome = attempt(torch="square().mean() -> square()")
    could_not_compare(outcome, "torch")
    assert outcome.message.startswith("parity: torch side: rank 0: loss: expected a scalar, got shape (4, 2).")
    assert "Traceback" not in outcome.errors


@FORKED
def test_a_rank_that_raises_is_named_and_not_the_one_that_waits_for_it(attempt):
    outcome = attempt(torch=f"{BREAK} -> assert dist.get_rank() == 0 or CALLS < 2, 'late'")
    could_not_compare(outcome, "torch")
    assert outcome.message.startswith("parity: torch side: rank 1: expected to run the steps, got AssertionError: late")
    assert "model_torch.py, line 18, in loss" in outcome.message
    assert "torch/free" in incomplete_traces(outcome.out)


@pytest.mark.slow
def test_a_rank_that_is_killed_in_the_middle_of_a_run_is_named(attempt):
    outcome = attempt(torch=f"{BREAK} -> if dist.get_rank() == 1 and CALLS == 2: os.kill(os.getpid(), signal.SIGKILL)")
    could_not_compare(outcome, "torch")
    assert outcome.message == (
        "parity: torch side: expected rank 1 of 2 to answer, but it was killed by SIGKILL. "
        "Look for memory limits or whoever ends processes here, and run again."
    )
    assert "torch/free" in incomplete_traces(outcome.out)


@pytest.mark.slow
def test_a_killed_torch_side_takes_its_ranks_with_it(attempt):
    outcome = attempt(torch=f"{BREAK} -> if dist.get_rank() == 1: os.kill(os.getppid(), signal.SIGKILL)")
    could_not_compare(outcome, "torch")
    assert "torch side: expected to run the steps, but its process was killed by SIGKILL." in outcome.message


@pytest.mark.slow
def test_a_killed_tensorflow_side_is_named_with_what_it_printed_last(attempt):
    outcome = attempt(tf=f"{BREAK} -> import os; print('so far so good'); os.kill(os.getpid(), 9)")
    could_not_compare(outcome, "tf")
    assert outcome.message == (
        "parity: TensorFlow side: expected to build the model, but its process was killed by SIGKILL. "
        "Look for memory limits or whoever ends processes here, and run again."
    )
    assert outcome.errors.splitlines()[:2] == ["The TensorFlow side last printed:", "  so far so good"]


@pytest.mark.slow
def test_a_side_that_ends_by_itself_is_told_with_its_status(attempt):
    outcome = attempt(data="draw = -> import os; os._exit(7); draw =")
    could_not_compare(outcome, "data")
    assert "data side: expected to get the batches, but its process ended with status 7." in outcome.message


@pytest.mark.slow
def test_a_hanging_rank_is_ended_and_shows_where_it_hung(attempt):
    outcome = attempt("--timeout", "20", torch=f"{BREAK} -> time.sleep(1000 * dist.get_rank())")
    could_not_compare(outcome, "torch")
    assert outcome.message == (
        "parity: torch side: expected a heartbeat within 20 s of 'run', got none; it was ended. "
        "Look above for where it hung, or allow more with --timeout."
    )
    assert 'model_torch.py", line 18 in loss' in outcome.errors
    assert "torch_ddp/worker/main.py" not in outcome.errors


@FORKED
def test_batches_that_are_too_few_say_what_to_change(attempt):
    outcome = attempt(data="range(steps) -> range(2)")
    could_not_compare(outcome, "data")
    assert outcome.message == (
        "parity: data side: data:batches: expected 3 batches, got 2. Yield more, or lower 'steps' in the case."
    )


@pytest.mark.slow
@FORKED
def test_a_loss_that_is_not_a_number_on_both_sides_cannot_be_compared(attempt):
    outcome = attempt(tf="1.0 * -> float('nan') *", torch="1.0 * -> float('nan') *")
    assert outcome.code == 2
    assert outcome.result["verdict"] == "incomparable"
    assert outcome.result["first_difference"]["reference"] == "nan"
    assert "First tensor that cannot be compared: step 0, loss/0" in outcome.printed
    assert "1 of 1 values are not finite, on both sides" in outcome.printed


@pytest.mark.slow
@FORKED
def test_a_loss_that_is_not_a_number_on_one_side_is_different(attempt):
    outcome = attempt("--levels", "1,2", torch="1.0 * -> float('nan') *")
    assert outcome.code == 1
    assert "First difference: step 0, loss/0" in outcome.printed
    assert "values that are not finite in the candidate" in outcome.printed
    assert "TensorFloat" not in outcome.printed
    first = outcome.result["first_difference"]
    assert (first["step"], first["quantity"], first["tower"], first["candidate"]) == (0, "loss", "0", "nan")


@pytest.mark.slow
@FORKED
def test_a_tensor_that_only_the_port_returns_is_named(attempt):
    outcome = attempt(torch=".square().mean() -> .square().mean(), {'more': model(x)}")
    assert outcome.code == 2
    assert "First tensor that cannot be compared: step 0, act/0/more" in outcome.printed
    assert "the reference has no such tensor" in outcome.printed
    assert outcome.errors == ""


def test_an_interpreter_that_does_not_exist_is_told_by_its_path(attempt):
    outcome = attempt("--tf-python", "/nonexistent/python")
    could_not_compare(outcome, "tf")
    assert outcome.message == (
        "parity: TensorFlow side: expected to start the interpreter /nonexistent/python, got: No such file or directory. "
        "Name one that runs, e.g. with --tf-python."
    )


@pytest.fixture
def bare_python(tmp_path):
    """An interpreter with numpy and without any framework: this one, with its packages but those hidden."""
    script = tmp_path / "bare-python"
    hide = tmp_path / "hide"
    hide.mkdir()
    for name in ("tensorflow", "torch"):
        text = f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n"
        (hide / f"{name}.py").write_text(text)
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{hide}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_an_interpreter_without_tensorflow_is_told_with_the_cure(attempt, bare_python):
    outcome = attempt("--tf-python", bare_python)
    could_not_compare(outcome, "tf")
    assert "TensorFlow side: expected tensorflow in " in outcome.message
    assert "got: No module named 'tensorflow'." in outcome.message
    assert "or name an interpreter that has it with --tf-python." in outcome.message
    assert "Traceback" not in outcome.errors


def test_an_interpreter_without_torch_is_told_with_the_cure(attempt, bare_python, monkeypatch):
    with_tensorflow = sys.executable
    monkeypatch.setattr(sys, "executable", bare_python)
    outcome = attempt("--tf-python", with_tensorflow)
    could_not_compare(outcome, "torch")
    assert "torch side: expected torch in " in outcome.message
    assert "Install it there: pip install torch." in outcome.message
