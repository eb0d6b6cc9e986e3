"""A part of a trace that is there and refused is a note in the report; what is missing, or was never finished, is none."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.diagnosis import outliving
from parity.experiment.layers import KeptPasses, locate_first
from parity.experiment.replay.free_run import train_freely
from parity.experiment.replay.refused_parts import OF_A_SHADOW, refused_parts
from parity.experiment.replay.session import _shadow
from parity.experiment.replay.skeleton import _ops
from parity.judge.result import Check, FirstDifference
from parity.port.tower.shapes import shapes_of
from parity.trace import MissingError, RecordedGraph, Trace, TraceError, TraceWriter, read_graph, read_json

REFUSED = {"format": "of somebody else"}


def write(folder, closed=True):
    writer = TraceWriter(folder, {"package": "test"}, {"towers": 1})
    writer.init({})
    writer.step(0, {"loss/0": np.float64(1)})
    if closed:
        writer.close()
    return folder


@pytest.fixture
def trace(tmp_path):
    return Trace(write(tmp_path / "t"))


def leave(path, found=REFUSED):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found if isinstance(found, str) else json.dumps(found))


def test_of_a_trace_without_parts_nothing_is_said(trace, tmp_path):
    assert refused_parts(trace) == []
    write(tmp_path / "t" / "shadow" / "aside", closed=False)
    assert refused_parts(trace) == [], "the shadow was killed before it was done"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("graph.json", REFUSED, "graph: expected the format"),
        ("shadow.json", "no JSON", "trace: expected JSON"),
        ("shadow.json", "[]", "trace: expected an object"),
        *((f"shadow/{each}/trace.json", REFUSED, "trace: expected the format") for each in OF_A_SHADOW),
    ],
)
def test_a_part_that_is_refused_is_named_with_the_reason(trace, tmp_path, name, text, says):
    leave(tmp_path / "t" / name, text)
    [note] = refused_parts(trace)
    assert note.startswith(f"done without, as if it were not there: {says}")
    assert str(tmp_path / "t" / name) in note


def test_a_shadow_that_is_refused_is_not_called_missing(trace, tmp_path):
    assert "the trace has no float64 shadow" in _shadow(trace)[1]
    leave(tmp_path / "t" / "shadow" / "trace.json")
    assert _shadow(trace) == (
        None,
        f"its float64 shadow is refused: {refusal(lambda: Trace(tmp_path / 't' / 'shadow'))}",
    )


def refusal(look):
    with pytest.raises(TraceError) as caught:
        look()
    assert not isinstance(caught.value, MissingError)
    return str(caught.value)


def test_a_spread_that_is_refused_is_why_there_is_no_free_run(trace, tmp_path, monkeypatch):
    monkeypatch.setattr("parity.experiment.replay.free_run.RecordedSide", lambda *_: SimpleNamespace(freely=None))
    replayed = SimpleNamespace(part=SimpleNamespace(trace=trace), has_program=False)
    shadow = SimpleNamespace(directory=str(tmp_path / "t" / "shadow"))
    assert "its float64 shadow has none" in train_freely(replayed, shadow, tmp_path, "free")[1]
    leave(tmp_path / "t" / "shadow" / "spread" / "trace.json")
    assert train_freely(replayed, shadow, tmp_path, "free")[1].startswith("trace: expected the format")


def test_a_pass_that_is_refused_ends_the_search_for_the_layer_with_a_note(trace, tmp_path, monkeypatch):
    monkeypatch.delenv("PARITY_DEBUG", raising=False)
    first = FirstDifference(Check("free", 0, "loss/0", "different", 1.0), "loss", "", "0", None)
    passes = KeptPasses(trace, trace)

    def located():
        return outliving(lambda: locate_first(first, passes, None, trace, "free"))

    assert located() == (None, [])
    folder = tmp_path / "t" / "forward" / "0"
    folder.mkdir(parents=True)
    assert located() == (None, []), "the pass was not finished"
    leave(folder / "forward.json")
    found, [note] = located()
    assert found is None
    assert note.startswith("the search for causes did not finish: forward: expected the format")
    assert "please report it" not in note


def test_ops_and_shapes_are_not_guessed_where_what_says_them_is_refused(trace, tmp_path):
    assert _ops(trace, None) == []
    leave(tmp_path / "t" / "graph.json")
    refusal(lambda: _ops(trace, None))
    graph = RecordedGraph({"node": []}, {}, [])
    assert shapes_of(trace, graph) == {}
    leave(tmp_path / "t" / "shadow" / "forward" / "main" / "0" / "forward.json")
    refusal(lambda: shapes_of(trace, graph))


def test_what_is_missing_is_told_from_what_cannot_be_read(tmp_path):
    for look in (lambda: Trace(tmp_path), lambda: read_graph(tmp_path)):
        with pytest.raises(MissingError):
            look()
    (tmp_path / "graph.json").mkdir()
    refusal(lambda: read_graph(tmp_path))
    assert read_json(str(write(tmp_path / "t") / "trace.json"))["complete"]
