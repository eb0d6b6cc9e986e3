"""A program that is launched for each request: what it did not do is said in one message, and nothing of it is left."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.sides import launched
from parity.experiment.sides.kept_program import DESCRIPTION_FILE, read_described
from parity.experiment.sides.launched import LaunchedProgram
from parity.experiment.sides.program_answers import (
    Recorded,
    joined_towers,
    named_sections,
    prepared_as,
    with_clipped,
    without_clipped,
)
from parity.trace import Trace, TraceError, TraceWriter
from parity.worker.failures import SideFailed
from parity.worker.program_request import ProgramRequest

CASE = {"case": {}, "precision": "float32"}
IN_BACKGROUND = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("begins", flush=True)
time.sleep(60)
"""


def ask(tmp_path, code, silence=60.0, request="prepare", **arguments):
    program = LaunchedProgram([sys.executable, "-c", code], Recorded(0, 2, False, {}), tmp_path, silence)
    try:
        return program.ask(request, **(arguments or CASE)).result()
    finally:
        program.close()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('done')", "to train, got no backward pass in any process of its own"),
        ("print('why'); raise SystemExit(3)", "ended with status 3. Look above for why"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status 137"),
    ],
)
def test_a_program_that_does_not_train_is_one_message(tmp_path, code, message):
    with pytest.raises(SideFailed) as failed:
        ask(tmp_path, code)
    assert message in str(failed.value)
    assert "why" not in code or failed.value.printed.endswith("why")


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    with pytest.raises(SideFailed, match=r"a step or a line of output within 2 s of 'prepare', got none") as failed:
        ask(tmp_path, IN_BACKGROUND, silence=2.0)
    assert failed.value.hung
    assert failed.value.printed == "begins"
    request = str(tmp_path / "launches" / "001-prepare" / "request.json").encode()
    assert not [pid for pid in processes() if request in environment(pid)]


def test_a_rank_that_hangs_prints_where(tmp_path):
    code = "import faulthandler, signal, time\nfaulthandler.register(signal.SIGUSR1)\ntime.sleep(60)"
    with pytest.raises(SideFailed) as failed:
        ask(tmp_path, code, silence=2.0)
    assert "line 3 in <module>" in failed.value.printed


class Clock:
    """Seconds that pass only where somebody sleeps."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += 1.0


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """Follows a program that ends after so many looks, of which each sees what its ranks have left by then."""

    def run(looks, ends=None, silence=100.0, closing=False, prints=()):
        clock, reported, seen = Clock(), [], []
        ranks = tmp_path / "ranks"
        ranks.mkdir()

        def read(folder):
            at = len(seen)
            seen.append(folder)
            if at in prints:
                with program._log.open("ab") as log:
                    log.write(b"line\n")
            done, enough = looks[min(at, len(looks) - 1)]
            return SimpleNamespace(steps=lambda: list(range(done)), enough=enough)

        monkeypatch.setattr(launched, "time", clock)
        monkeypatch.setattr(launched, "read_ranks", read)
        program = LaunchedProgram(["train"], Recorded(0, 2, False, {}), tmp_path, silence)
        program._closing = closing
        monkeypatch.setattr(program, "_ended", lambda *given: SideFailed("torch", f"ended with {given[1]}"))
        monkeypatch.setattr(program, "_silent", lambda *given: SideFailed("torch", f"silent in {given[1]}"))
        process = SimpleNamespace(poll=lambda: 0 if ends is not None and len(seen) >= ends else None)
        request = ProgramRequest(str(ranks), steps=4)
        try:
            program._follow(process, "run", request, lambda *given: reported.append(given))
            said = ""
        except SideFailed as failed:
            said = str(failed)
        finally:
            program.close()
        return said, len(seen), reported

    return run


def test_a_program_that_ends_by_itself_with_all_steps_is_done(followed):
    looks = [(0, False), (2, False), (2, False), (4, True)]
    assert followed(looks, ends=5) == ("", 6, [(0, 4), (2, 4), (4, 4)])


def test_a_program_is_waited_for_ten_seconds_once_all_is_recorded(followed):
    said, seen, reported = followed([(0, False), (4, True)])
    assert (said, reported) == ("", [(0, 4), (4, 4)])
    assert seen == 1 + 12  # from the second look on, a second each: the last is the first beyond ten


def test_a_program_that_ends_before_all_is_recorded_has_failed(followed):
    said, seen, _ = followed([(1, False)], ends=3)
    assert "ended with 0" in said and seen == 4


@pytest.mark.parametrize(("prints", "seen"), [((), 6), ((4,), 10)])
def test_a_program_is_silent_beyond_so_many_seconds_without_a_step_or_a_line(followed, prints, seen):
    said, looks, _ = followed([(1, False)], silence=4.0, prints=prints)
    assert "silent in run" in said and looks == seen


def test_a_program_that_is_closed_meanwhile_is_said_to_be_ended(followed):
    said, seen, _ = followed([(1, False)], closing=True)
    assert "but it was ended. Run again" in said and seen == 0


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_a_command_that_is_not_there_is_said(tmp_path):
    program = LaunchedProgram(["no-such-launcher"], Recorded(0, 2, False, {}), tmp_path, 10.0)
    with pytest.raises(SideFailed, match="expected to start no-such-launcher, got: No such file"):
        program.ask("prepare", **CASE).result()
    program.close()


@pytest.mark.parametrize(
    ("request_name", "arguments", "what"),
    [("train", {"program": "x"}, "train"), ("run", {"cut": True}, "run with cut"), ("run", {"noise": [1, 2]}, "noise")],
)
def test_what_only_a_step_of_the_tools_own_can_do_is_refused(tmp_path, request_name, arguments, what):
    with pytest.raises(SideFailed, match=f"expected to .*{what}, which a program that is launched as it is cannot do"):
        ask(tmp_path, "", request=request_name, **arguments)


def test_micro_batches_of_a_rank_add_up():
    tensors = {"loss/0.0": np.array(1.0), "loss/0.1": np.array(2.0), "loss/1": np.array(5.0), "var/w": np.array(7.0)}
    assert joined_towers(tensors) == {"loss/0": 3.0, "loss/1": 5.0, "var/w": 7.0}


def test_rows_of_micro_batches_stand_behind_each_other():
    tensors = {
        "tower_grad/0.0/table.indices": np.array([4, 1]),
        "tower_grad/0.1/table.indices": np.array([4]),
        "tower_grad/0.0/table.values": np.array([[1.0], [2.0]]),
        "tower_grad/0.1/table.values": np.array([[3.0]]),
    }
    found = {name: value.tolist() for name, value in joined_towers(tensors).items()}
    assert found == {"tower_grad/0/table.indices": [4, 1, 4], "tower_grad/0/table.values": [[1.0], [2.0], [3.0]]}


DESCRIBED = {
    "variables": [["a", {"shape": [2]}], ["b", {"shape": [3]}], ["c", {"shape": [3]}]],
    "sections": {"optimizer": ["a"], "other": ["b", "c"], "idle": []},
}


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ({}, {}),
        ({"optimizer": [[2]], "other": [[3], [3]]}, {"optimizer": "optimizer", "other": "other"}),
        ({"optimizer": [[2]], "d_opt": [[3], [3]]}, {"optimizer": "optimizer", "other": "d_opt"}),
        ({"g_opt": [[2]], "d_opt": [[3], [3]]}, {"optimizer": "g_opt", "other": "d_opt"}),
    ],
)
def test_optimizers_are_told_apart_by_name_and_by_what_they_train(recorded, found):
    assert named_sections(recorded, DESCRIBED) == found


@pytest.mark.parametrize("shapes", [[[2], [3]], [[4]]])
def test_optimizers_that_cannot_be_told_apart_are_said(shapes):
    with pytest.raises(
        SideFailed, match=r"expected optimizers like the recorded g_opt, .*, got optimizer, other, idle"
    ):
        named_sections({"g_opt": shapes}, DESCRIBED)


def test_what_the_optimizer_is_given_is_the_combined_gradient_where_the_reference_does_not_clip():
    tensors = {"grad/w": 1.0, "clip/w": 2.0, "tower_clip/0/w": 3.0, "grad/b": 4.0, "var/w": 5.0}
    assert without_clipped(tensors) == {"grad/w": 2.0, "grad/b": 4.0, "var/w": 5.0}


def test_gradients_that_a_program_clips_by_its_own_hands_are_the_clipped_ones():
    assert with_clipped({"grad/w": 1.0, "var/w": 5.0}, "unseen") == {"clip/w": 1.0, "var/w": 5.0}
    assert with_clipped({"grad/w": 1.0, "clip/w": 2.0}, "clip") == {"grad/w": 1.0, "clip/w": 2.0}


def test_a_launch_has_a_folder_of_its_own_in_its_command(tmp_path):
    program = LaunchedProgram(
        [sys.executable, "-c", "import sys; print(sys.argv[1])", "--to={out}"],
        Recorded(0, 2, False, {}),
        tmp_path,
        60.0,
    )
    with pytest.raises(SideFailed) as failed:
        program.ask("prepare", **CASE).result()
    program.close()
    assert failed.value.printed == f"--to={tmp_path / 'launches' / '001-prepare' / 'out'}"


def test_a_launch_is_told_how_far_the_script_moves_statistics_where_numbers_are_rounded():
    described = {"facts": {}, "slots": [], "variables": [], "initial_slots": {}, "own_values": {}}
    ratios = {"norm.running_mean": 1.0000001}
    asked = {"precision": "float64", "round_hyper_parameters": True, "case": {"moved_statistics": ratios}}
    known = json.loads(prepared_as(described, Recorded(0, 2, False, {"0": 0.1}), asked)["prepared"])
    assert known == {"precision": "float64", "rounded": True, "moved_statistics": ratios, "rates": {"0": 0.1}}


def test_steps_after_which_ranks_differ_have_the_numbers_of_the_recording(tmp_path):
    program = LaunchedProgram(["none"], Recorded(3, 2, False, {}), tmp_path, 10.0)
    writer = TraceWriter(tmp_path / "trace", {}, {"steps_where_ranks_differ": [0, 2], "sections": {}})
    writer.init({})
    writer.close()
    facts = program._facts(Trace(tmp_path / "trace"), 3)
    assert facts["steps_where_ranks_differ"] == [3, 5] and "sections" not in facts
    program.close()


def test_counts_of_a_whole_launch_are_no_facts_of_the_program(tmp_path):
    writer = TraceWriter(tmp_path / "t", {}, {"passes": {"sync": 3}, "collectives": {"all_reduce": 1}, "towers": 2}, {})
    writer.close()
    program = LaunchedProgram(["train"], Recorded(0, 2, False, {}), tmp_path, 1.0)
    try:
        assert program._facts(Trace(tmp_path / "t")) == {"towers": 2, "side": "torch_ddp", "combination": "port"}
    finally:
        program.close()


KEPT = {
    "facts": {},
    "slots": ["m"],
    "variables": [["w", {"shape": [2], "dtype": "float32", "kind": "weight"}]],
    "sections": {"": "Adam"},
    "initial_slots": {"slot/m/w": [0.0, 0.0]},
    "own_values": {"var/w": [1.0, 2.0]},
    "notes": ["it shuffles"],
    "reference": "0" * 24,
}


def test_what_a_program_trains_is_read_in_the_order_in_which_it_has_it(tmp_path):
    (tmp_path / DESCRIPTION_FILE).write_text(json.dumps(KEPT))
    assert read_described(tmp_path) == {**KEPT, "variables": dict(KEPT["variables"])}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("variables", [["w"]], "'variables'"),
        ("variables", [[1, {}]], "'variables'"),
        ("variables", {"w": {"shape": [2]}}, "the variable 'w' with"),
        ("slots", [1], "'slots'"),
        ("notes", [None], "'notes'"),
        ("sections", None, "'sections'"),
        ("own_values", {"var/w": [1.0]}, "2 numbers for 'var/w'"),
        ("initial_slots", {"slot/m/w": "00"}, "numbers for 'slot/m/w'"),
        ("facts", {"optimizer": 3}, "the fact 'optimizer'"),
    ],
)
def test_what_does_not_describe_a_program_is_refused_before_it_is_judged(tmp_path, name, value, said):
    (tmp_path / DESCRIPTION_FILE).write_text(json.dumps({**KEPT, name: value}))
    with pytest.raises(TraceError, match=f"expected {said}.* in .*{DESCRIPTION_FILE}"):
        read_described(tmp_path)
