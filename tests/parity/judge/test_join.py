"""Which tensors of two sides belong together, in which order they are judged, and what is left alone."""

import numpy as np
import pytest
from made_pairs import JOIN, join_of, lockstep, trace

from parity.experiment.levels import judge_single
from parity.experiment.recording import Recorded
from parity.judge.levels.float32 import judge_float32
from parity.judge.result import Check
from parity.judge.unmatched_slots import BEYOND, LACKING, after_the_last, set_aside_slots
from parity.mapping import Mapping, MappingEntry, MappingError, Pair, parse_transform
from parity.mapping.trace_map import Join, Renaming
from parity.trace import parse_key

W = np.arange(6.0).reshape(2, 3)


def pair(name, parts, text, shape):
    return Pair(name, parts, parse_transform(text), "", shape)


MAPPED = Join(
    Mapping([
        pair("kernel", ("weight",), "transpose", (2, 3)),
        pair("bias", ("one", "two"), "sum", (3,)),
        pair("gone", (), "identity", (1,)),
    ]),
    {"feed": Renaming("feed", {"images": MappingEntry(to="x", transform="transpose")}), "act": Renaming("act", {})},
    ["exp_avg"],
)  # fmt: skip


def read(text, **tensors):
    return MAPPED.read(parse_key(text), Held({name.replace("__", "/"): value for name, value in tensors.items()}))


class Held(dict):
    def read(self, name):
        return self[name]


def test_a_variable_and_all_that_hangs_on_it_follow_the_mapping():
    for quantity in ("var", "grad", "stat", "ema", "clip", "tower_grad/1", "tower_clip/0"):
        assert read(f"{quantity}/kernel", **{f"{quantity}/weight".replace("/", "__"): W.T}).tolist() == W.tolist()
    assert MAPPED.candidates(parse_key("slot/m/kernel")) == ("slot/exp_avg/weight",)
    assert MAPPED.candidates(parse_key("slot/unheard_of/kernel")) == ()
    assert read("var/kernel") is None


def test_a_sum_needs_both_of_its_terms_but_a_frozen_one_has_no_gradient():
    one, two = np.full(3, 1.0), np.full(3, 2.0)
    assert read("var/bias", var__one=one, var__two=two).tolist() == [3.0] * 3
    assert read("var/bias", var__one=one) is None
    assert read("grad/bias", grad__one=one).tolist() == [1.0] * 3


def test_feeds_are_renamed_and_read_in_the_references_layout():
    assert read("feed/0/images", feed__0__x=W.T).tolist() == W.tolist()
    assert read("feed/0/other", feed__0__other=W).tolist() == W.tolist()
    with pytest.raises(MappingError, match="expected one name for 'x'"):
        Renaming("feed", {"x": MappingEntry(to=["one", "two"])})


def test_a_step_is_judged_in_the_order_in_which_it_computes_and_gradients_from_the_last_variable_on():
    names = [
        "eval/train/out", "metric/acc", "ema/w", "var/b", "var/w", "slot/m/w", "clip/w", "grad/w", "grad/b",
        "tower_clip/0/w", "tower_grad/10/w", "tower_grad/2/w", "tower_grad/2/b", "loss/10", "loss/9", "stat/w",
        "act/0/second", "act/0/first", "noise/0/x", "feed/0/x", "state/learning_rate",
    ]  # fmt: skip
    assert [text for _, text in JOIN.ordered(names)] == [
        "state/learning_rate", "feed/0/x", "noise/0/x", "act/0/second", "act/0/first", "stat/w", "loss/9", "loss/10",
        "tower_grad/2/b", "tower_grad/2/w", "tower_grad/10/w", "tower_clip/0/w", "grad/b", "grad/w", "clip/w", "slot/m/w",
        "var/w", "var/b", "ema/w", "metric/acc", "eval/train/out",
    ]  # fmt: skip


def test_what_is_declared_to_have_no_counterpart_is_left_out():
    assert [text for _, text in MAPPED.ordered(["var/gone", "grad/gone", "var/kernel"])] == ["var/kernel"]


def test_what_the_candidate_has_alone_is_told_but_for_what_cannot_move(tmp_path):
    reference = trace(tmp_path / "r", {"grad/w": W[0], "slot/m/w": W[0]})
    held = {"grad/w": W[0], "slot/m/w": W[0], "grad/more": W[0], "slot/m/more": W[0], "slot/m/still": W[0]}
    candidate = trace(tmp_path / "c", {**held, "state/learning_rate": np.array(0.1), "var/w": W[0]})
    found = join_of("w").unjoined(reference.step(0), candidate.step(0))
    assert sorted(found) == ["grad/more", "slot/m/more", "var/w"]


def test_what_the_candidate_is_only_given_is_not_told(tmp_path):
    reference = trace(tmp_path / "r", {"stat/mean": W[0]})
    candidate = trace(tmp_path / "c", {"stat/mean": W[0], "stat/biased": W[0], "stat/other": W[0]})
    pairs = [pair(name, (name,), "identity", (3,)) for name in ("mean", "biased")]
    for loaded, told in (((), ["stat/biased", "stat/other"]), (("biased",), ["stat/other"])):
        join = Join(Mapping(pairs), {}, [], loaded=loaded)
        assert sorted(join.unjoined(reference.step(0), candidate.step(0))) == told


def aside(checks, held, later=None):
    join = join_of("w", "b", slots=("momentum_buffer", "max"))
    files = {0: held, 1: later or held}
    return [check.note for check in set_aside_slots(checks, join, files.get, files.get)]


def slot(name, step=0, note="the candidate has no such tensor", run="lockstep"):
    return Check(run, step, name, "incomparable", note=note)


def update(name, verdict="same", step=0, run="lockstep"):
    return Check(run, step, name, verdict)


MISSING = "slot/unheard_of/w"
FULL = Held({MISSING: np.array([0.0, 1.0])})
EMPTY = Held({MISSING: np.zeros(2)})


@pytest.mark.parametrize(
    ("checks", "held", "is_aside"),
    [
        ([slot(MISSING), update("var/w")], FULL, True),
        ([slot(MISSING), update("var/w", "different")], FULL, True),
        ([slot(MISSING), update("var/w", "not_run")], FULL, False),
        ([slot(MISSING), update("var/w", "incomparable")], FULL, False),
        ([slot(MISSING), update("var/b")], FULL, False),
        ([slot(MISSING), update("var/w", run="init")], FULL, False),
        ([slot(MISSING), update("var/w")], EMPTY, False),
        ([slot(MISSING), update("var/w")], Held(), False),
        ([slot(MISSING), update("var/w")], None, False),
        ([slot(MISSING), update("stat/w")], FULL, False),
    ],
)
def test_a_slot_that_the_candidate_lacks_is_judged_by_an_update_that_begins_with_something_in_it(
    checks, held, is_aside
):
    assert aside(checks, held)[0] == (LACKING if is_aside else checks[0].note)


def test_one_step_that_begins_with_something_in_the_slot_tells():
    checks = [slot(MISSING), update("var/w"), slot(MISSING, 1), update("var/w", step=1)]
    assert aside(checks, EMPTY, FULL)[::2] == [LACKING, LACKING]


def test_a_slot_that_the_reference_lacks_is_told_by_the_candidates_own():
    beyond = slot("slot/max/w", note="the reference has no such tensor")
    held = Held({"slot/max/w": np.ones(2)})
    assert aside([beyond, update("var/w")], held)[0] == BEYOND
    assert aside([beyond, update("var/w")], Held({"slot/max/w": np.zeros(2)}))[0] == beyond.note


def test_what_was_held_before_a_step_is_what_the_last_one_left(tmp_path):
    before = after_the_last(trace(tmp_path, {"var/w": W[0]}, {"var/w": W[1]}))
    assert before(0) is None
    assert before(1).read("var/w").tolist() == W[0].tolist() and before(7).read("var/w").tolist() == W[1].tolist()


def accuracy(tmp_path, rough, forward=0.0, reference=0.0):
    """Level 2 of a candidate whose gradient of norm 1 is `rough` from float64, the reference's `reference`."""
    one, single = np.array([1.0, 0.0]), np.array([1.0, 0.0], np.float32)
    traces = lockstep(
        tmp_path,
        {"grad/w": np.array([1.0, reference]), "act/0/out": one},
        {"grad/w": np.array([1.0, rough]), "act/0/out": np.array([1.0, forward])},
        {"grad/w": single, "act/0/out": single},
        {"grad/w": single, "act/0/out": single},
    )
    again = trace(tmp_path / "again", {"grad/w": single, "act/0/out": single})
    found = Recorded(JOIN, traces.states, traces, traces.reference64, traces.candidate64, ({}, {}))
    found.reference_draws, found.repeats = [trace(tmp_path / "draw", {"grad/w": single})], {"candidate": again}
    return judge_single(found, [0])


FLOOR = 2 * 2.0**-24


@pytest.mark.parametrize(
    ("times", "forward", "verdict", "noted"),
    [
        (3.9, 0.0, "same", ""),
        (4.1, 0.0, "same", "by no more than naive summation explains"),
        (63.9, 1e-3, "same", "by no more than naive summation explains"),
        (64.1, 1e-3, "different", ""),
        # Activations are those of float32: what is off are branches that flipped.
        (64.1, 1e-5, "same", "in its gradients alone"),
    ],
)
def test_a_candidate_far_from_float64_in_gradients_and_activations_computes_in_less_than_float32(
    tmp_path, times, forward, verdict, noted
):
    level = accuracy(tmp_path, times * FLOOR, forward)
    assert level.verdict == verdict
    assert (level.reason == "the candidate computes in less than float32: look for TensorFloat-32 or bfloat16") is (
        verdict == "different"
    )
    worse = "candidate worse: its float32 is the less accurate one, "
    assert [note.startswith(worse + noted) for note in level.notes[1:]] == [True] * bool(noted)
    assert f"candidate {times:.2f}, reference 0.00" in level.notes[0] and "(limit 64)" in level.notes[0]


@pytest.mark.parametrize(
    ("times", "noted"),
    [(63.9, "by no more than naive summation explains"), (37_000.0, "by more than naive summation explains")],
)
def test_a_reference_that_computes_in_less_than_float32_decides_nothing_and_is_told(tmp_path, times, noted):
    level = accuracy(tmp_path, 0.0, reference=times * FLOOR)
    assert level.verdict == "same"
    assert level.notes[1].startswith(f"reference worse: its float32 is the less accurate one, {noted}")


def test_a_reference_that_lacks_a_gradient_at_a_step_is_no_matter_of_level_2(tmp_path):
    found = lockstep(tmp_path, {"loss/0": np.array(1.0)}, {"loss/0": np.array(1.0), "grad/w": W[0]})
    assert [check.key for check in judge_float32(JOIN, found, [], [0])] == ["loss/0"]


def test_blocks_of_rows_are_put_together_where_each_belongs():
    blocks = {f"b{index}": pair(f"b{index}", ("whole",), f"rows({index}, 3)", (2,)) for index in range(3)}
    join = Join(Mapping([*blocks.values(), pair("kernel", ("weight",), "transpose", (2, 3))]), {}, [])
    written = join.write_all(
        {"var/b0": W[0, :2], "var/b2": W[1, :2], "var/kernel": W, "state/global_step": np.array(3)}
    )
    assert written.keys() == {"var/whole", "var/weight", "state/global_step"}
    assert written["var/whole"].tolist() == [0.0, 1.0, 0.0, 0.0, 3.0, 4.0]
    assert written["var/weight"].tolist() == W.T.tolist()
    for name, wanted in (("b0", W[0, :2]), ("b1", np.zeros(2)), ("b2", W[1, :2])):
        assert join.read(parse_key(f"var/{name}"), Held(written)).tolist() == wanted.tolist()
    assert join.write_all({"slot/unheard_of/kernel": W}) == {}


def test_an_output_is_called_as_the_mapping_says_and_in_an_evaluation_so_that_it_is_no_loss():
    names = {"metric": Renaming("metric", {"total": MappingEntry(to=("loss",)), "acc": MappingEntry(to=("accuracy",))})}
    join = Join(Mapping([]), names, [])
    told = {
        text: join.candidates(parse_key(text)) for text in ("metric/total", "eval/total", "eval/ema/total", "eval/acc")
    }
    assert told == {
        "metric/total": ("metric/loss",),
        "eval/total": ("eval/outputs/loss",),
        "eval/ema/total": ("eval/ema/outputs/loss",),
        "eval/acc": ("eval/accuracy",),
    }


@pytest.mark.parametrize("text", ["loss/0", "act/0/out", "var/w", "grad/w", "slot/m/w", "eval/loss"])
def test_what_the_candidate_lacks_is_read_as_nothing(text):
    assert JOIN.read(parse_key(text), Held({})) is None
