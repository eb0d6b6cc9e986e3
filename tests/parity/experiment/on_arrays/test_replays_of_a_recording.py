"""A recorded script replayed on a port: which runs the port makes, from which states, and what is judged and said."""

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.made_recording import MOMENTUM, STEPS, made_recording
from support.made_sides import MEAN, Habits, MadeProcess

from parity.cli import main
from parity.experiment.rejudge.ill_conditioned import ZERO_GRADIENT_NOTE
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE, WITH_INPUTS
from parity.experiment.replay import session
from parity.experiment.replay.port import TrainingModule
from parity.experiment.replay.script import ReplayError
from parity.experiment.replay.session import Port, replay
from parity.trace import SHADOW, SHADOW_FILE, SHADOW_FREE, SHADOW_TIES, Trace

PLAIN, OTHERWISE = Habits(backwards=True), Habits(backwards=True, last_of_equal=True)
PORT = Port("port:Model", {"": "port:loss"}, {}, ["here"], 1.0)
TRAINING = TrainingModule("port", {"": ""})
ADAM = {"name": "adam", "learning_rate": 0.1}
ALL = frozenset(["state", "feed", "stat", "loss", "tower_grad", "grad", "clip", "slot", "var"])
FREE = ALL - {"feed", "tower_grad"}
TIES = {
    "beside": (Habits(columns=True), NON_DIFFERENTIABLE_NOTE),
    "inputs-beside": (Habits(zeros=True), WITH_INPUTS),
}


@pytest.fixture
def replayed(tmp_path, monkeypatch):
    """Returns a function that replays a recording on a made port; returns the port's process and the result."""

    def run(recording, habits=PLAIN, port=PORT, process=MadeProcess, **more):
        side = process("torch", habits)
        monkeypatch.setattr(session, "launch_torch", lambda log, silence: side)
        return side, replay(recording, port, None, tmp_path / f"out-{len(list(tmp_path.iterdir()))}", **more)

    return run


@pytest.mark.parametrize(
    ("left", "verdicts", "refused"),
    [
        ("no layer took y", ["same"], True),
        ("no layer took y", ["same", "same"], True),
        ("no layer took y", [], True),
        ("no layer took y", ["same", "different"], False),
        ("no layer took y", ["incomparable", "same"], False),
        ("", ["same"], False),
        ("", [], False),
    ],
)
def test_draws_that_a_port_leaves_are_refused_where_nothing_that_was_judged_shows_it(left, verdicts, refused):
    judged = SimpleNamespace(levels=[SimpleNamespace(verdict=each) for each in verdicts])
    with pytest.raises(ReplayError, match=r"^replay: no layer took y$") if refused else contextlib.nullcontext():
        session._refuse_draws_left(SimpleNamespace(draws_left=left), judged)


def test_draws_that_a_port_leaves_end_the_replay_behind_its_judgement(tmp_path, replayed, monkeypatch):
    asked = []

    def refuse(port, judged):
        asked.append((port.draws_left, [level.verdict for level in judged.levels]))
        raise ReplayError("replay: left")

    monkeypatch.setattr(session, "_refuse_draws_left", refuse)
    with pytest.raises(ReplayError, match="replay: left"):
        replayed(made_recording(tmp_path))
    assert asked == [("", ["same", "same"])]


def noted(result, note):
    return {(check.run, check.step) for check in result.levels["function"].checks if check.note == note}


def shape(asked):
    return (
        asked["prepared"].partition(",")[0],
        asked["follow"] is not None,
        asked["recorded_counters"],
        list(asked["steps"]),
        frozenset(asked["quantities"]),
        asked.get("partly", False),
    )


def test_a_port_makes_every_step_in_both_precisions_and_trains_once_freely(tmp_path, replayed):
    told = []
    side, result = replayed(made_recording(tmp_path), tick=lambda *progress: told.append(progress))
    assert (result.verdict, result.exit_code, result.strict_exit_code, result.unjudged) == ("same", 0, 0, [])
    assert {name: shape(asked) for name, asked in side.runs.items()} == {
        "torch-float32": ("float32", True, False, STEPS, ALL, False),
        "torch-float64": ("float64", True, False, STEPS, ALL, False),
        "torch-free": ("float64", False, False, STEPS, FREE, True),
    }
    recorded = Trace(tmp_path / "trace")
    for step in STEPS[1:]:
        before, own = recorded.step(step - 1), Trace(side.runs["torch-float64"]["follow"]).step(step)
        np.testing.assert_array_equal(own.read("var/dense.weight").T, before.read("var/dense/kernel"))
        np.testing.assert_array_equal(
            own.read("slot/momentum_buffer/dense.bias"), before.read("slot/momentum/dense/bias")
        )
        whole = np.concatenate([recorded.step(step).read(f"feed/{tower}/x") for tower in range(2)])
        np.testing.assert_array_equal(Trace(side.runs["torch-float64"]["feeds"]).step(step).read("feed/x"), whole)
    assert [each for each in told if each[0] == "judge what was replayed"] == [
        ("judge what was replayed", 0, 1),
        ("judge what was replayed", 1, 1),
    ]
    assert [each[1:] for each in told if each[0] == "start torch"] == [(0, 1), (1, 1)]
    assert {"torch float32", "torch float64", "torch free"} <= {what for what, *_ in told}
    assert result.levels["function"].reason.startswith("117 tensors of 4 steps; at most ")
    assert result.levels["float32"].notes[0].startswith("accuracy of the gradients at steps 0, 1, 2, 3: ")
    assert "recorded, but not replayed: act" in result.notes
    assert result.notes[-1].startswith("inference was not judged, for training steps hold none of it")


def test_a_port_is_built_with_the_twin_of_the_recorded_optimizer_once_its_variables_are_known(tmp_path, replayed):
    side, _ = replayed(made_recording(tmp_path))
    builds = [asked for request, asked in side.asked if request == "prepare"]
    assert [(asked["precision"], asked["round_hyper_parameters"], asked["build"]) for asked in builds] == [
        ("float32", False, ""),
        ("float32", False, ""),
        ("float64", False, ""),
        ("float64", False, "free"),
    ]
    plain, *others = [asked["case"] for asked in builds]
    assert plain["optimizer"] == {"name": "sgd", "learning_rate": 0.0}
    known = {"model": "port:Model", "loss": "port:loss", "ranks": 2, "combine": "mean", "backend": "gloo", "seed": 0}
    known |= {"clips": "", "combining": {}, "watch": None, "replayed": True, "trains_in": "float32"}
    rates = [float(np.float32(0.1))] * 4
    twin = {"optimizer": {"name": "momentum", "momentum": 0.9}, "rates": rates, "trained": None, "draws": False}
    for case in others:
        assert case == {**known, "optimizer": {"recorded": twin}, "trained": None, "draws": False}
    assert plain == {**known, "optimizer": plain["optimizer"]}
    assert builds[0]["folders"][0] == "here" and len(builds[0]["folders"]) == 2


@pytest.mark.parametrize(
    ("columns", "words"), [(True, "from the first weights"), (False, "from the first of these, slots")]
)
def test_slots_begin_as_the_ports_optimizer_makes_them_where_the_recording_begins_with_the_training(
    tmp_path, replayed, columns, words
):
    side, result = replayed(made_recording(tmp_path, Habits(columns=columns), kinks=(0,)))
    start = Trace(side.runs["torch-free"]["start"]).init().names()
    assert any(text.startswith("slot") for text in start) == (not columns)
    assert [note for note in result.levels["function"].notes if words in note]
    fresh = {check.key for check in result.levels["function"].checks if check.run == "fresh"}
    assert fresh == ({"slot/momentum/dense/kernel", "slot/momentum/dense/bias"} if columns else set())


@pytest.mark.parametrize(
    ("port", "first", "cause"),
    [
        (Habits(backwards=True, rate=1.01), "state/learning_rate", "learning_rate"),
        (Habits(backwards=True, loss=1.5), "loss/0", "gradient_factor"),
        (Habits(backwards=True, decay=0.99), f"stat/{MEAN}", "batch_norm_momentum"),
    ],
)
def test_a_bug_of_a_port_is_found_and_named(tmp_path, replayed, port, first, cause):
    _, result = replayed(made_recording(tmp_path), port)
    assert (result.verdict, result.exit_code) == ("different", 1)
    assert (result.first_difference.check.key, result.causes[0].name) == (first, cause)
    assert result.levels["float32"].verdict == "different"


class LacksOne(MadeProcess):
    """Has no gradient of the bias in its second rank: the mean is half of the first one's."""

    def _step(self, *given):
        found = super()._step(*given)
        del found["tower_grad/1/dense.bias"]
        return {**found, "grad/dense.bias": found["tower_grad/0/dense.bias"] / 2}


def test_a_gradient_that_one_rank_lacks_is_named_though_there_is_nothing_to_compare(tmp_path, replayed):
    recording = made_recording(tmp_path)
    _, result = replayed(recording, process=LacksOne)
    first = result.first_difference.check
    assert (result.verdict, first.key, first.verdict) == ("different", "tower_grad/1/dense/bias", "incomparable")
    assert [cause.name for cause in result.causes] == ["zero_gradient"]
    assert result.causes[0].title == "no gradient reaches dense/bias in tower 1"
    _, result = replayed(recording, Habits(backwards=True, hidden=("tower_grad/1/dense.bias",)))
    assert (result.verdict, result.causes) == ("incomparable", [])


@pytest.mark.parametrize("moved", TIES)
def test_a_tie_is_judged_where_the_shadow_was_moved(tmp_path, replayed, moved):
    script, note = TIES[moved]
    recording = made_recording(tmp_path, script, kinks=(0,))
    side, result = replayed(recording, OTHERWISE)
    assert (result.verdict, noted(result, note)) == ("same", {("lockstep", 0)})
    beside, control = side.runs[f"torch-{moved}"], side.runs["torch-once-more"]
    for asked in (beside, control):
        assert shape(asked) == ("float64", True, False, STEPS, ALL - {"feed"}, False)
    builds = [asked["build"] for request, asked in side.asked if request == "prepare"]
    assert {moved, "once-more"} <= set(builds)
    name = f"{SHADOW_TIES}_with_inputs" if moved == "inputs-beside" else SHADOW_TIES
    for own, script_has in ((side.began[f"torch-{moved}"][0], tmp_path / f"{name}-states"),):
        np.testing.assert_array_equal(own["var/dense.weight"].T, Trace(script_has).step(0).read("var/dense/kernel"))
    fed, plain = side.began[f"torch-{moved}"][1]["feed/x"], side.began["torch-float64"][1]["feed/x"]
    assert (fed != plain).all() == (moved == "inputs-beside") and (fed == plain).all() == (moved == "beside")
    np.testing.assert_array_equal(
        side.began["torch-once-more"][0]["var/dense.bias"], side.began["torch-float64"][0]["var/dense.bias"]
    )


@pytest.mark.parametrize(
    ("told", "end"),
    [
        ({"rounding": "shadow: out of memory"}, "shadow: out of memory"),
        ({}, "make it again with python -m tf_towers.shadow, where TensorFlow is"),
    ],
)
def test_where_the_shadow_lacks_what_rounding_does_a_difference_is_told_with_that(tmp_path, replayed, told, end):
    recording = made_recording(tmp_path, Habits(columns=True))
    shutil.rmtree(recording / SHADOW / SHADOW_TIES)
    (recording / SHADOW_FILE).write_text(json.dumps(told))
    _, result = replayed(recording, OTHERWISE)
    [note] = [note for note in result.levels["function"].notes if "a right port may be called different here" in note]
    assert result.verdict == "different" and note.endswith(end)
    _, same = replayed(recording)
    assert not [note for note in same.levels["function"].notes if "a right port may be called" in note]


def test_a_shadow_without_the_step_of_a_tie_does_not_excuse_it(tmp_path, replayed):
    _, result = replayed(made_recording(tmp_path, Habits(columns=True)), OTHERWISE)
    assert result.verdict == "different" and noted(result, NON_DIFFERENTIABLE_NOTE) == set()


def test_without_a_free_run_lockstep_alone_decides_and_that_is_said(tmp_path, replayed):
    recording = made_recording(tmp_path)
    shutil.rmtree(recording / SHADOW / SHADOW_FREE)
    side, result = replayed(recording, port=PORT._replace(program=TRAINING))
    assert "torch-free" not in side.runs and result.verdict == "same"
    notes = result.levels["function"].notes
    assert [note for note in notes if note.startswith("no free run, only lockstep: its float64 shadow has none")]
    assert "train() was not run: there is no free run" in notes


def test_without_a_shadow_float32_alone_is_judged_which_is_no_success_where_level_1_was_asked_for(tmp_path, replayed):
    recording = made_recording(tmp_path)
    shutil.rmtree(recording / SHADOW)
    side, result = replayed(recording)
    assert set(side.runs) == {"torch-float32"}
    assert {name: level.verdict for name, level in result.levels.items()} == {
        "function": "not_run",
        "float32": "same",
        "trajectory": "not_run",
        "mixed": "not_run",
    }
    why = "the trace has no float64 shadow: make it with python -m tf_towers.shadow, where TensorFlow is"
    assert (result.levels["function"].reason, result.unjudged) == (why, [f"level function: {why}"])
    assert (result.exit_code, result.verdict_in_words) == (2, "same (only float32 was judged)")
    _, asked = replayed(recording, levels=("float32",))
    assert (asked.exit_code, asked.unjudged, asked.levels["function"].reason) == (0, [], "it was not requested")
    _, wrong = replayed(recording, Habits(backwards=True, loss=1.5))
    assert wrong.verdict == "different"


@pytest.mark.parametrize("name", ["momentum", "HandWritten"])
def test_hyper_parameters_of_the_ports_own_are_rounded_but_for_a_script_that_updates_by_hand(
    tmp_path, replayed, monkeypatch, name
):
    monkeypatch.setitem(
        __import__("support.made_sides").made_sides.SLOTS, "HandWritten", {"momentum": "momentum_buffer"}
    )
    port = PORT._replace(optimizers={"": "port:optimizer"})
    recording = made_recording(tmp_path, optimizer={**MOMENTUM, "name": name})
    side, result = replayed(recording, Habits(backwards=True, double_rate=True), port)
    rounded = [run for run in side.runs if run.endswith("-rounded")]
    assert sorted(rounded) == (
        [f"torch-{each}-rounded" for each in ("float32", "float64", "free")] if name == "momentum" else []
    )
    assert result.verdict == ("same" if name == "momentum" else "different")
    cases = [asked["case"] for request, asked in side.asked if request == "prepare"]
    assert {(case["watch"], str(case["optimizer"])) for case in cases[1:]} == {("grad", "port:optimizer")}


# 64 times what the shadow measured is allowed beside 3.3e-9 and less.
@pytest.mark.parametrize(
    ("nudge", "measured", "verdict"),
    [(0.0, 0.0, "same"), (1e-7, 2.5e-9, "same"), (1e-7, 1.9e-9, "different"), (1e-7, None, "different")],
)
def test_updates_by_structurally_zero_gradients_are_judged_by_what_the_shadow_measured(
    tmp_path, replayed, nudge, measured, verdict
):
    empty = {step: {"var/dense/bias": measured} for step in STEPS} if measured is not None else {}
    recording = made_recording(tmp_path, Habits(centred=True), ADAM, empty=empty, batch_size=64)
    port = Habits(centred=True, backwards=True, nudge=nudge)
    _, result = replayed(recording, port)
    free = {check.verdict for check in result.levels["function"].checks if check.run == "lockstep"}
    assert ("different" in free) == (verdict == "different")
    assert noted(result, ZERO_GRADIENT_NOTE) == (
        {("lockstep", step) for step in STEPS} if nudge and verdict == "same" else set()
    )


class Untrained(MadeProcess):
    """A port whose program trains at another rate than its steps."""

    def _train(self, **asked):
        self.habits = replace(self.habits, rate=1.1)
        return super()._train(**asked)


def test_a_program_that_trains_itself_is_judged_by_what_its_updates_leave(tmp_path, replayed):
    side, result = replayed(made_recording(tmp_path), port=PORT._replace(program=TRAINING))
    [asked] = [asked for request, asked in side.asked if request == "train"]
    [section] = asked["sections"]
    assert (asked["program"], section["suffix"], section["rounded"], section["draws"]) == ("port", "", False, False)
    assert section["rates"] == [float(np.float32(0.1))] * 4 and section["steps"] == STEPS
    assert (section["feeds"], section["fed"]) == (side.runs["torch-float64"]["feeds"], False)
    assert result.verdict == "same" and result.candidate["combination"] == "port"
    trained = [check for check in result.levels["function"].checks if check.run == "train"]
    # Two weights, their slots and a statistic in each of four steps.
    assert len(trained) == 20 and {check.verdict for check in trained} == {"same"}
    [note] = [
        note for note in result.levels["function"].notes if note.startswith("train() itself on 2 ranks in float64")
    ]
    assert "20 weights, slots and statistics after 4 updates" in note


def test_a_program_that_trains_otherwise_than_its_steps_is_different(tmp_path, replayed):
    _, result = replayed(made_recording(tmp_path), port=PORT._replace(program=TRAINING), process=Untrained)
    level = result.levels["function"]
    assert (level.verdict, level.first_difference.check.run, level.first_difference.check.step) == (
        "different",
        "train",
        0,
    )
    assert (
        "train() itself does otherwise than the steps that were replayed, which are the same as the script's"
        in level.notes
    )
    assert level.reason == "14 of 137 tensors are not the same" and "combination" not in result.candidate
    assert "the ranks of train() end with different weights" not in level.notes


def test_a_program_is_not_run_where_its_steps_are_different(tmp_path, replayed):
    side, result = replayed(made_recording(tmp_path), Habits(backwards=True, loss=2.0), PORT._replace(program=TRAINING))
    assert not [request for request, _ in side.asked if request == "train"]
    assert "train() was not run: what was replayed is different" in result.levels["function"].notes


def test_towers_whose_losses_are_joined_have_no_gradients_of_their_own(tmp_path, replayed):
    side, result = replayed(made_recording(tmp_path, Habits(hidden=("tower_grad",))))
    assert shape(side.runs["torch-float64"])[4] == ALL - {"tower_grad"}
    assert [note for note in result.notes if note.startswith("the towers' own gradients were not judged")]


def test_statistics_that_race_and_hazards_are_told_and_left_out(tmp_path, replayed):
    hazards = [{"name": "unordered_statistics", "evidence": "two towers write the mean"}]
    facts = (("hazards", hazards), ("clip_never_in_effect", True))
    side, result = replayed(made_recording(tmp_path, facts=facts))
    assert shape(side.runs["torch-float64"])[4] == ALL - {"stat"}
    assert not [check for check in result.levels["function"].checks if check.key.startswith("stat/")]
    assert "unordered_statistics in the script: two towers write the mean" in result.notes
    assert "clipping never took effect in the recorded steps: it is not judged" in result.notes
    assert "recorded, but not replayed: act, stat" in result.notes


@pytest.mark.parametrize(
    ("facts", "port", "words"),
    [
        ((("combine", "median"),), PORT, 'combined by "mean" or "sum", got \'median\''),
        (
            (),
            PORT._replace(losses={"D": "port:loss"}),
            "expected a loss for the optimizer '', got D. Add --loss MODULE:FUNCTION",
        ),
        ((("clipped", True),), PORT, "got clipped ones. Name an optimizer that clips"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_anything_starts(tmp_path, replayed, facts, port, words):
    with pytest.raises(ReplayError, match=words):
        recording = made_recording(tmp_path, facts=facts)
        replayed(recording, port=port)


@pytest.mark.parametrize(
    ("anew", "words"), [(False, "the candidate computes in less"), (True, "the candidate does not repeat itself")]
)
def test_a_port_that_is_rough_in_float32_makes_its_first_steps_once_more(tmp_path, replayed, anew, words):
    side, result = replayed(made_recording(tmp_path), Habits(backwards=True, blur=2.0**-9, anew=anew))
    again = side.runs["first-steps-again"]
    assert shape(again) == ("float32", True, True, STEPS[:3], ALL, False)
    for text, value in side.began["torch-float32"][0].items():
        np.testing.assert_array_equal(side.began["first-steps-again"][0][text], value)
    assert (result.levels["function"].verdict, result.levels["float32"].verdict) == ("same", "different")
    assert result.levels["float32"].reason.startswith(words)


def test_a_closer_look_holds_what_differs_and_the_losses(tmp_path, replayed):
    recording = made_recording(tmp_path)
    _, plain = replayed(recording, Habits(backwards=True, loss=1.5))
    assert (plain.closer, plain.losses) == ([], [])
    _, result = replayed(recording, Habits(backwards=True, loss=1.5), in_detail=True)
    assert {each.level for each in result.closer} == {"function", "float32"}
    assert {(each.level, each.run) for each in result.losses} == {("function", "free"), ("float32", "lockstep")}


def test_the_command_replays_and_its_exit_code_is_the_verdicts(tmp_path, monkeypatch, capsys):
    recording = made_recording(tmp_path)
    for habits, code in ((PLAIN, 0), (Habits(backwards=True, loss=1.5), 1)):
        side = MadeProcess("torch", habits)
        asked = []
        monkeypatch.setattr(
            session, "launch_torch", lambda log, silence, side=side, asked=asked: asked.append((log, silence)) or side
        )
        words = [
            "--torch",
            "port:Model",
            "--loss",
            "port:loss",
            "--out",
            str(tmp_path / f"out{code}"),
            "--timeout",
            "7",
        ]
        assert main(["replay", str(recording), *words, "--json", str(tmp_path / "result.json"), "--quiet"]) == code
        assert asked == [(tmp_path / f"out{code}" / "logs" / "torch.log", 7.0)]
        assert json.loads((tmp_path / "result.json").read_text())["verdict"] == ("same", "different")[code]
        assert Path(side.runs["torch-float64"]["out"]).parent == tmp_path / f"out{code}"
    assert "different" in capsys.readouterr().out
