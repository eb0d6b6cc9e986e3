"""Broken traces given to `compare`, `show` and `map`: one message that names the file, and exit code 2."""

import json
import shutil

import numpy as np
import pytest
from support.traces import VARIABLES, record

from parity.cli import main
from parity.trace import TraceWriter


@pytest.fixture
def traces(tmp_path):
    return record(tmp_path / "one"), record(tmp_path / "other")


def refused(capsys, *words) -> str:
    assert main([str(word) for word in words]) == 2
    errors = capsys.readouterr().err
    assert (errors.splitlines()[-1] == "verdict: incomparable") == (words[0] == "compare")
    assert "Traceback" not in errors
    return errors


def test_facts_are_shown_as_a_person_writes_them(tmp_path, capsys):
    facts = {"optimizer": {"name": "Adam", "centered": False}, "devices": [], "slots": ["m", "v"]}
    TraceWriter(str(tmp_path), {"package": "test"}, facts, VARIABLES).close()
    assert main(["show", str(tmp_path)]) == 0
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line for line in shown if line.split(":")[0].strip() not in ("numpy", "package", "python")] == [
        "  devices: none",
        "  optimizer.centered: no",
        "  optimizer.name: Adam",
        "  slots: m, v",
    ]


def test_two_whole_traces_are_the_same(traces, capsys):
    assert main(["compare", *map(str, traces)]) == 0
    assert capsys.readouterr().out.startswith("verdict: same  ")


def test_a_difference_is_exit_code_1(traces, tmp_path, capsys):
    assert main(["compare", str(traces[0]), str(record(tmp_path / "doubled", scale=2.0))]) == 1
    assert "First difference: step 0, grad/kernel" in capsys.readouterr().out


def test_a_trace_whose_writer_stopped_is_not_compared(traces, tmp_path, capsys):
    stopped = record(tmp_path / "stopped", close=False)
    for pair in ((traces[0], stopped), (stopped, traces[0])):
        errors = refused(capsys, "compare", *pair)
        assert f"expected {stopped} to be complete, got a trace whose writer stopped early. Record it again." in errors


def test_a_trace_whose_writer_stopped_is_shown_as_that(tmp_path, capsys):
    assert main(["show", str(record(tmp_path / "stopped", steps=2, close=False))]) == 0
    assert "2 steps, its writer stopped early" in capsys.readouterr().out


DAMAGED = "trace: this file is damaged: expected the checksum "


@pytest.mark.parametrize(
    ("size", "said"), [(0, "expected {} to be a whole"), (5, "expected {} to be a whole"), (40, DAMAGED), (-1, DAMAGED)]
)
def test_a_step_file_cut_short_is_named(traces, capsys, size, said):
    file = traces[1] / "step-000001.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:size])
    for words in (["compare", *traces], ["show", traces[1], "--step", "1"]):
        refusal = refused(capsys, *words)
        assert said.format(file) in refusal and str(file) in refusal


@pytest.mark.parametrize(
    "name", ["trace.json", "init.safetensors", "step-000000.safetensors", "step-000001.safetensors"]
)
@pytest.mark.parametrize("side", [0, 1])
def test_one_flipped_bit_is_told_with_the_file_and_what_to_do(traces, capsys, tmp_path, name, side):
    file, result = traces[side] / name, tmp_path / "result.json"
    content = bytearray(file.read_bytes())
    content[-9] ^= 1
    file.write_bytes(content)
    told = refused(capsys, "compare", *traces, "--json", result)
    found = json.loads(result.read_text())
    assert found["verdict"] == "incomparable"
    for text in (told, found["error"]["message"]):
        assert DAMAGED in text and f" of {file}, got " in text and "record it again" in text


def test_a_missing_step_file_is_named(traces, capsys):
    (traces[1] / "step-000001.safetensors").unlink()
    assert "to hold 3 steps, got no file for step 1. Record it again." in refused(capsys, "compare", *traces)


def test_a_description_cut_short_is_named(traces, capsys):
    file = traces[1] / "trace.json"
    file.write_text(file.read_text()[:40])
    for words in (["compare", *traces], ["show", traces[1]], ["map", *traces]):
        assert DAMAGED in refused(capsys, *words)


def test_a_folder_that_is_no_trace_is_named(traces, tmp_path, capsys):
    errors = refused(capsys, "compare", traces[0], tmp_path / "nothing")
    assert "nothing to be a trace, got no trace.json in it. Name the folder that holds it." in errors


def test_traces_that_start_from_other_weights_are_told_so_and_others_are_not(traces, tmp_path, capsys):
    note = (
        "note: the two start from other values of 1 of 1 variables, first of kernel: what differs later may follow from "
        "that alone; start both from the same checkpoint"
    )
    elsewhere = record(tmp_path / "elsewhere", start=(1.0, 2.0, 4.0))
    assert main(["compare", str(traces[0]), str(elsewhere)]) == 1
    assert note in " ".join(capsys.readouterr().out.split())
    assert main(["compare", *map(str, traces)]) == 0
    assert "the two start from" not in capsys.readouterr().out


def test_of_a_folder_of_traces_one_is_named(traces, tmp_path, capsys):
    for name in ("again", "float32"):
        record(tmp_path / "run" / "tf" / name, steps=1)
    assert (
        f"expected {tmp_path / 'run'} to be a trace, got no trace.json in it. "
        f"Name the folder that holds it, e.g. {tmp_path / 'run' / 'tf' / 'float32'}."
    ) in refused(capsys, "show", tmp_path / "run")


def test_a_trace_with_fewer_steps_cannot_be_compared_and_the_step_is_named(traces, tmp_path, capsys):
    assert main(["compare", str(traces[0]), str(record(tmp_path / "short", steps=2))]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith("verdict: incomparable  ")
    assert "First tensor that cannot be compared: step 2, loss/0" in printed
    assert "the candidate has no step 2" in printed
    assert "record both sides with as many steps" in printed


def test_traces_without_a_step_in_common_cannot_be_compared_and_the_first_step_is_named(traces, tmp_path, capsys):
    assert main(["compare", str(traces[0]), str(record(tmp_path / "none", steps=0))]) == 2
    printed = capsys.readouterr().out
    assert "First tensor that cannot be compared: step 0, loss/0" in printed
    assert "the candidate has no step 0" in printed


def test_a_step_that_was_not_recorded_is_refused(traces, capsys):
    assert "show: expected a step among [0, 1, 2] of " in refused(capsys, "show", traces[0], "--step", "9")


def test_the_json_of_a_failed_comparison_replaces_that_of_an_earlier_one(traces, tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main(["compare", *map(str, traces), "--json", str(file)]) == 0
    assert json.loads(file.read_text())["verdict"] == "same"
    shutil.rmtree(traces[1])
    refused(capsys, "compare", *traces, "--json", file)
    result = json.loads(file.read_text())
    assert result["verdict"] == "incomparable"
    assert {level["verdict"] for level in result["levels"].values()} == {"not_run"}
    assert result["error"]["message"].startswith("trace: expected ")
    assert result["checks"] == []


def test_variables_that_do_not_join_are_listed(traces, tmp_path, capsys):
    other = TraceWriter(str(tmp_path / "alien"), {}, {}, {"w": {"shape": [7], "dtype": "float32", "kind": "weight"}})
    other.init({"var/w": np.zeros(7, np.float32)})
    other.close()
    errors = refused(capsys, "map", traces[0], tmp_path / "alien")
    assert "kernel [3]" in errors
