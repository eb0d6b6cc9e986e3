"""What is said of the place where two forward passes part, of sections of a script, and of sides that do not repeat."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.layers import told
from parity.experiment.rejudge.repeatability import judge_repeats
from parity.experiment.replay.sections import in_section, together
from parity.experiment.sides.golden_side import (
    DESCRIPTION,
    GOLDEN_FORMAT,
    GOLDEN_FORMAT_VERSION,
    GoldenError,
    golden_steps,
)
from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.trace import Trace, TraceWriter, write_json

OP = SimpleNamespace(name="conv1/Conv2D", kind="Conv2D")
PORT = SimpleNamespace(name="net.conv", kind="conv2d")
NOWHERE = {"layer": "", "port": None, "next": "", "fed_by": [], "only_reference": [], "only_candidate": []}
NOWHERE |= {"same": [], "unpaired": [], "reference": None, "candidate": None}


def of(quantity, name):
    """A first difference of a quantity."""
    return FirstDifference(Check("lockstep", 0, quantity, "different"), quantity, name, "0", None)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, "behind all layers, in the loss: conv1/Conv2D (Conv2D); its weights are the same"),
        (
            {"layer": "conv1", "port": PORT, "next": "net.norm", "fed_by": ["x"]},
            "in the layer conv1: conv1/Conv2D (Conv2D), in the port net.conv (conv2d), before net.norm; "
            "its inputs and weights are the same",
        ),
        (
            {"port": SimpleNamespace(name="", kind="add")},
            "behind all layers, in the loss: conv1/Conv2D (Conv2D), in the port outside of any module (add); "
            "its weights are the same",
        ),
        (
            {"only_reference": ["a"], "only_candidate": ["b", "c"], "same": ["d"], "unpaired": ["e"]},
            "behind all layers, in the loss: conv1/Conv2D (Conv2D); its weights are the same; "
            "the port has nothing like a, which goes into it; the reference has nothing like the port's b, c, which goes "
            "into it; the same before it: d; not paired, for the port does not show them: e",
        ),
        ({"reference": np.array(1.0), "candidate": np.array(2.0)}, "its weights are the same"),
    ],
)
def test_the_place_where_passes_part_is_said_with_all_that_is_known_of_it(known, words):
    place = SimpleNamespace(op=OP, shown="conv1", **{**NOWHERE, **known})
    place.parting = SimpleNamespace(next_module=place.next)
    text = told(place, of("loss", ""))
    assert text.endswith(words) and (known.keys() & {"reference"} or text == words)
    for quantity in ("act", "metric"):
        assert told(place, of(quantity, "colours")) == text.replace("in the loss:", "in colours:")


def test_where_in_a_layer_values_are_apart_is_said_between_its_inputs_and_what_is_before_it():
    one, other = np.zeros((4, 3)), np.zeros((4, 3))
    other[0] = 1.0
    place = SimpleNamespace(op=OP, shown="conv1/out", parting=SimpleNamespace(next_module=""), **NOWHERE)
    place.reference, place.candidate, place.same = one, other, ["a"]
    text = told(place, of("loss", ""))
    assert "; its weights are the same; of conv1/out " in text and text.endswith("; the same before it: a")


def level(name, verdict, first=None, causes=()):
    checks = [Check("lockstep", 0, "grad/w", verdict if verdict != "not_run" else "same")]
    return Level(name, verdict, f"why {verdict}", checks, first, list(causes), [f"note {verdict}"])


FIRST = FirstDifference(Check("lockstep", 0, "grad/w", "different"), "grad", "w", "", None)


def test_what_is_judged_of_one_of_several_optimizers_has_its_name():
    plain = level("function", "different", FIRST)
    assert in_section(plain, "") is plain
    named = in_section(plain, "gen")
    assert [check.key for check in named.checks] == ["section/gen/grad/w"]
    assert named.first_difference.check.key == "section/gen/grad/w" and named.notes == ["gen: note different"]
    assert in_section(level("function", "same"), "gen").first_difference is None


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("same", "same"), "same"),
        (("same", "incomparable"), "incomparable"),
        (("incomparable", "different"), "different"),
        (("not_run", "same"), "same"),
        (("not_run", "not_run"), "not_run"),
    ],
)
def test_levels_of_several_optimizers_are_one_as_bad_as_the_worst(verdicts, verdict):
    cause = Cause("learning_rate", "title", "", "")
    levels = [level("function", each, FIRST if each == "different" else None) for each in verdicts]
    if "different" in verdicts:
        levels[1].causes.append(cause)
    found = together(levels, ["gen", "disc"])
    assert (found.name, found.verdict, len(found.checks)) == ("function", verdict, 2)
    assert found.reason == f"gen: why {verdicts[0]}; disc: why {verdicts[1]}"
    assert found.notes == [f"note {each}" for each in verdicts]
    assert (found.first_difference, found.causes) == ((FIRST, [cause]) if verdict == "different" else (None, []))
    assert together(levels[:1], ["gen"]) is levels[0]


def trace(folder, value):
    writer = TraceWriter(folder, {"package": "test"})
    writer.init({})
    writer.step(0, {"grad/w": np.full(2, value)})
    writer.close()
    return Trace(folder)


@pytest.mark.parametrize(
    ("sides", "races", "judged"),
    [
        (("reference", "candidate"), None, ["reference", "candidate"]),
        (("reference", "candidate"), "a statistic", ["candidate"]),
        (("candidate",), None, ["candidate"]),
        ((), None, []),
    ],
)
def test_a_side_is_compared_with_itself_where_it_was_run_twice_and_does_not_race(tmp_path, sides, races, judged):
    once = SimpleNamespace(reference32=trace(tmp_path / "one", 1.0), candidate32=trace(tmp_path / "other", 2.0))
    again = {side: trace(tmp_path / side, 1.0 if side == "reference" else 2.0) for side in sides}
    found = judge_repeats(SimpleNamespace(lockstep=once, repeats=again, races=races, measured=None))
    assert [(repeat.side, repeat.unequal) for repeat in found] == [(side, 0) for side in judged]


HELD = {"inputs": {}, "prepared": {}, "initial_slots": {}}


@pytest.mark.parametrize(("known", "steps"), [({"steps": 7}, 7), ({}, None), ({"steps": "7"}, None)])
def test_a_golden_trace_says_how_many_updates_it_holds(tmp_path, known, steps):
    head = {"format": GOLDEN_FORMAT, "format_version": GOLDEN_FORMAT_VERSION}
    write_json(str(tmp_path / DESCRIPTION), {**head, "case": known, **HELD})
    assert golden_steps(tmp_path) == steps


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"format": 1}, r"got another \(format\)"),
        ({"format_version": "1"}, r"got another \(format_version\)"),
        ({"case": []}, r"got another \(case\)"),
        ({"inputs": None, "prepared": 3}, r"got another \(inputs, prepared\)"),
        ({"initial_slots": "none"}, r"got another \(initial_slots\)"),
        ({"format": "another"}, r"got another \(version\)"),
        ({"format_version": GOLDEN_FORMAT_VERSION + 1}, r"got another \(version\)"),
    ],
)
def test_a_description_that_is_no_golden_traces_is_refused_by_what_is_wrong_in_it(tmp_path, known, words):
    head = {"format": GOLDEN_FORMAT, "format_version": GOLDEN_FORMAT_VERSION, "case": {}}
    write_json(str(tmp_path / DESCRIPTION), {**head, **HELD, **known})
    with pytest.raises(GoldenError, match=words):
        golden_steps(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "Bless a case first"), ("{", "expected JSON in"), ("[]", "in format tower-parity-golden 1")],
)
def test_a_folder_without_a_description_is_no_golden_trace(tmp_path, text, words):
    if text is not None:
        (tmp_path / DESCRIPTION).write_text(text)
    with pytest.raises(GoldenError, match=words):
        golden_steps(tmp_path)
