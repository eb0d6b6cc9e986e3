"""What a trace says of itself is checked when it is opened, with its type: whoever reads a fact later need not ask."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.traces import record

from parity.experiment.compare import compare_traces
from parity.experiment.sides.densify import DenseTrace
from parity.trace import Trace, TraceError, TraceWriter, parse_key, read_json, state_after
from parity.trace.arrays import dense_rows
from parity.trace.description import fault_of_answer, is_shape


def described(folder, change):
    record(folder)
    meta = read_json(str(folder / "trace.json"))
    change(meta)
    (folder / "trace.json").write_text(json.dumps(meta))
    return Trace(folder)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("facts", "towers", "2"),
        ("facts", "towers", -1),
        ("facts", "towers", 10**19),
        ("facts", "ranks", True),
        ("facts", "combine", ["mean"]),
        ("facts", "optimizer", "Adam"),
        ("facts", "slots", [1]),
        ("facts", "hazards", [{"evidence": "a"}]),
        ("facts", "hazards", [{"name": "a"}]),
        ("facts", "racing", "w"),
        ("facts", "run_of_step", [0, -1]),
        ("facts", "losses", ["loss:0"]),
        ("facts", "sections", {"head": []}),
        ("facts", "sections", {"head": {"optimizer": 3}}),
        ("facts", "counters_after", {"state/global_step": "3"}),
        ("variables", "kernel", []),
        ("variables", "kernel", {"shape": 3}),
        ("variables", "kernel", {"shape": [2**62, 2**62]}),
        ("variables", "kernel", {"shape": [1] * 33}),
        ("variables", "kernel", {"shape": [3], "kind": "buffer"}),
        ("variables", "kernel", {"shape": [3], "dtype": 32}),
        ("variables", "kernel", {"shape": [3], "use": ["MatMul"]}),
    ],
)
def test_a_fact_or_a_variable_of_another_type_is_refused(tmp_path, where, name, value):
    with pytest.raises(TraceError, match=r"got something else\. Record it again"):
        described(tmp_path / "trace", lambda meta: meta[where].update({name: value}))


def test_facts_that_nobody_reads_may_be_anything_and_those_that_are_not_known_may_be_none(tmp_path):
    facts = {"own": None, "towers": None, "optimizer": None, "losses": None, "hazards": None}
    found = described(tmp_path / "trace", lambda meta: meta["facts"].update(facts)).facts
    assert found["own"] is None and not ({*facts} - {"own"}) & {*found}


def test_a_trace_whose_slots_are_not_known_is_compared(tmp_path):
    sides = [described(tmp_path / side, lambda meta: meta["facts"].update(slots=None)) for side in ("a", "b")]
    assert compare_traces(*(Path(each.directory) for each in sides)).verdict == "same"


@pytest.mark.parametrize("numbers", [[0, 0], [1, 0], [0, 1.0], [0, "1"]])
def test_steps_that_do_not_ascend_are_refused(tmp_path, numbers):
    with pytest.raises(TraceError, match="expected step numbers from 0"):
        described(tmp_path / "trace", lambda meta: meta.update(step_numbers=numbers))


def test_a_file_that_only_looks_like_a_step_is_none(tmp_path):
    folder = record(tmp_path / "trace", steps=2, close=False)
    for name in ("step-x.safetensors", "step-٣٣٣٣٣٣.safetensors", "step--00001.safetensors"):
        (folder / name).write_bytes(b"")
    assert Trace(folder, whole=False).step_numbers == [0, 1]


@pytest.mark.parametrize(("shape", "right"), [([], True), ([0, 2**58], True), ([2**58], True), ([2**59], False)])
def test_a_shape_is_one_that_numpy_can_describe(shape, right):
    assert is_shape(shape) is right
    if right:
        np.broadcast_to(np.zeros((), np.complex64), shape)


@pytest.mark.parametrize("text", ["", "what/x", "grad", "grad/", "slot/m", "feed/0", "section/a/what/x"])
def test_a_name_of_no_tensor_is_refused_as_a_traces_fault(text):
    with pytest.raises(TraceError):
        parse_key(text)


def test_a_tensor_that_a_file_lacks_is_named(tmp_path):
    file = Trace(record(tmp_path / "trace")).step(0)
    for ask in (file.read, file.shape, file.dtype):
        with pytest.raises(TraceError, match=r"expected 'grad/none' in .*step-000000\.safetensors, got no such tensor"):
            ask("grad/none")


ROWS, PLACES = np.ones((2, 3), np.float32), np.array([0, 3])


@pytest.mark.parametrize(
    ("values", "places", "shape"),
    [
        (ROWS, np.array([0, 4]), (4, 3)),
        (ROWS, np.array([-1, 0]), (4, 3)),
        (ROWS, np.array([0.0, 1.0]), (4, 3)),
        (ROWS, np.array([0]), (4, 3)),
        (ROWS, PLACES, (4, 2)),
        (ROWS, PLACES, ()),
        (ROWS, PLACES, (10**15, 3)),
        (np.float32(1.0), PLACES, (4,)),
    ],
)
def test_rows_that_a_table_does_not_have_are_refused(values, places, shape):
    with pytest.raises(TraceError, match=r"trace: expected (rows|a table)"):
        dense_rows(np.asarray(values), places, shape)


@pytest.mark.parametrize(
    ("described_as", "held", "said"),
    [([4, 3], (4, 3), ""), ([400, 3], (4, 3), "in the shape"), ([2**30, 3], None, "in the shape")],
)
def test_a_table_is_as_large_as_the_variable_that_the_trace_holds(tmp_path, described_as, held, said):
    writer = TraceWriter(tmp_path / "t", {"package": "test"}, {}, {"table": {"shape": described_as, "kind": "weight"}})
    writer.init({"var/table": np.ones(held, np.float32)} if held else {})
    writer.step(0, {"grad/table.values": ROWS, "grad/table.indices": PLACES})
    writer.close()
    file = DenseTrace(tmp_path / "t").step(0)
    if said:
        with pytest.raises(TraceError, match=said):
            file.read("grad/table")
    else:
        assert file.read("grad/table").sum() == 6


@pytest.mark.parametrize("value", [[[1], [1, 2]], 10**30])
def test_a_counter_after_the_last_step_that_its_dtype_cannot_hold_is_refused(tmp_path, value):
    writer = TraceWriter(tmp_path / "t", {"package": "test"}, {"counters_after": {"state/global_step": value}})
    writer.init({})
    writer.step(0, {"state/global_step": np.array(0)})
    writer.close()
    with pytest.raises(TraceError, match="'counters_after' to hold state/global_step as int64"):
        state_after(Trace(tmp_path / "t"))


ANSWER = {"facts": {"ranks": 2}, "variables": {"w": {"shape": [2, 3], "dtype": "float32", "kind": "weight"}}}


@pytest.mark.parametrize(
    ("answer", "values", "fault"),
    [
        ({}, {"slot/m/w": [0.0, 1], "var/w": [0.5] * 6, "stat/elsewhere": []}, ""),
        ({"facts": None}, {}, "'facts'"),
        ({"facts": {"ranks": "2"}}, {}, "the fact 'ranks'"),
        ({"variables": {"w": []}}, {}, "the variable 'w'"),
        ({"variables": {"w": {"shape": [2, 3], "dtype": "float32"}}}, {}, "the variable 'w' with shape, dtype, kind"),
        ({}, [], "a dict of names"),
        ({}, {"slot/m/w": [0.0, 1.0, 2.0]}, "2 numbers for 'slot/m/w'"),
        ({}, {"var/w": [0.5] * 5}, "6 numbers for 'var/w'"),
        ({}, {"var/w": ["0.5"] * 6}, "numbers for 'var/w'"),
        ({}, {"var/w": 0.5}, "numbers for 'var/w'"),
    ],
)
def test_an_answer_of_a_side_is_kept_as_it_was_given(answer, values, fault):
    found = fault_of_answer({**ANSWER, **answer}, values)
    assert found.startswith(fault) and bool(found) == bool(fault)
