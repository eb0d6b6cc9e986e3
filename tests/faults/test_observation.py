"""What is left of a command is seen, and what is whole is taken for whole."""

import os
import subprocess
import sys

import numpy as np
import pytest

from parity.trace import TraceWriter

from .observation import false_claims, partial_files, processes_left, temporary_left

if sys.platform != "linux":
    pytest.skip("looks for left processes in /proc; runs on Linux", allow_module_level=True)


def test_a_process_that_outlives_its_command_is_seen_until_it_ends():
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env={**os.environ, "FAULTS_MARK": "mark-of-this-test"},
    )
    [found] = processes_left("mark-of-this-test", 0.2)
    assert "sys.stdin.read()" in found
    process.stdin.close()
    assert processes_left("mark-of-this-test", 20) == []
    process.wait()


def test_temporary_files_are_seen_but_for_those_that_are_meant(tmp_path):
    for name in ("parity-abc", "torchinductor_user"):
        (tmp_path / name).mkdir()
    (tmp_path / "mapping-x.toml").touch()
    assert temporary_left(tmp_path) == ["parity-abc"]
    assert temporary_left(tmp_path / "missing") == []


def test_files_without_a_name_of_their_own_are_seen(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("a/x.safetensors.part", "a/step.unfinished", ".hidden", "a/whole.json"):
        (tmp_path / name).touch()
    assert partial_files(tmp_path) == [".hidden", "a/step.unfinished", "a/x.safetensors.part"]


@pytest.fixture
def trace(tmp_path):
    writer = TraceWriter(tmp_path / "trace", {"package": "made"})
    writer.init({"var/x": np.ones(3)})
    for number in range(2):
        writer.step(number, {"var/x": np.full(3, number + 2.0)})
    assert false_claims(tmp_path) == []  # it says itself that it is not complete
    writer.close()
    return tmp_path / "trace"


def test_a_trace_that_is_whole_is_no_false_claim(trace):
    assert false_claims(trace.parent) == []


def test_a_trace_without_a_step_is_a_false_claim(trace):
    (trace / "step-000001.safetensors").unlink()
    [found] = false_claims(trace.parent)
    assert found.startswith("trace/trace.json: says")


def test_a_trace_with_a_step_cut_short_or_damaged_is_a_false_claim(trace):
    path = trace / "step-000001.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + b"\xff", b""):
        path.write_bytes(damaged)
        [found] = false_claims(trace.parent)
        assert "says that it is complete" in found


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("result.json", '{"verdict": "incomparable"}'),
        ("result.html", "<html><body></body></html>\n"),
        ("result.xml", "<testsuite><testcase/></testsuite>"),
        ("port.py", "def loss(model, x):\n    return (model(x))"),
    ],
)
def test_a_text_that_is_cut_short_is_a_false_claim(tmp_path, name, whole):
    (tmp_path / name).write_text(whole)
    assert false_claims(tmp_path, 2) == []
    for cut in (whole.rstrip()[:-1], ""):
        (tmp_path / name).write_text(cut)
        assert len(false_claims(tmp_path, 2)) == 1


@pytest.mark.parametrize(("code", "count"), [(0, 0), (1, 1), (2, 1), (130, 1), (None, 0), (-9, 0)])
def test_a_verdict_that_the_exit_code_does_not_say_is_a_false_claim(tmp_path, code, count):
    (tmp_path / "result.json").write_text('{"verdict": "same"}')
    assert len(false_claims(tmp_path, code)) == count


def test_a_checkpoint_that_does_not_answer_to_its_name_is_a_false_claim(tmp_path):
    from torch_ddp.checkpoint.files import write_whole

    path = write_whole(tmp_path, 3, {"progress": {"step": 3}})
    assert false_claims(tmp_path) == []
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert false_claims(tmp_path) == [f"{path.name}: has not the digest of its name"]
    path.write_bytes(whole)
    path.rename(path.with_name(path.name.replace("0003", "0004")))
    [found] = false_claims(tmp_path)
    assert found.endswith("is of another step")
