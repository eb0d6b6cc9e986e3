"""What is read from a file that may be anybody's is bounded before anything is allocated, and the limit is named."""

import json
import os
import struct
import time

import numpy as np
import pytest

from parity.case import CaseError, load_case, load_mapping
from parity.cli import main
from parity.trace import Trace, TraceError, TraceWriter, decode, read_json
from parity.trace.bounded import parse_json


def record(folder):
    writer = TraceWriter(folder, {"package": "test"}, {}, {"w": {"shape": [2], "kind": "weight"}})
    writer.init({"var/w": np.ones(2, np.float32)})
    writer.step(0, {"var/w": np.ones(2, np.float32)})
    writer.close()
    return folder


@pytest.fixture(autouse=True)
def within_seconds():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", ["trace.json", "step-000000.safetensors"])
def test_a_pipe_or_a_device_in_a_traces_place_is_refused(tmp_path, name, capsys):
    for number, make in enumerate([os.mkfifo, lambda path: os.symlink("/dev/zero", path)]):
        folder = record(tmp_path / str(number))
        (folder / name).unlink()
        make(folder / name)
        assert main(["show", str(folder)]) == 2
        assert "this is a bug" not in (errors := capsys.readouterr().err).lower()
        assert "got a pipe, a device" in " ".join(errors.split()) or "got no file for step 0" in " ".join(
            errors.split()
        )


def test_a_sparse_file_is_refused_by_its_size(tmp_path, capsys):
    folder = record(tmp_path / "t")
    size = 10**12
    header = json.dumps({"var/w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    with (folder / "step-000000.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    assert main(["show", str(folder), "--step", "0"]) == 2
    assert "expected at most 68,719,476,736 bytes" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("depth, right", [(90, True), (120, False), (100_000, False)])
def test_a_trace_of_many_levels_is_refused_by_their_number(tmp_path, depth, right):
    folder = record(tmp_path / "t")
    text = json.dumps(read_json(str(folder / "trace.json"))).replace(
        '"facts": {', '"facts": {"deep": ' + "[" * depth + "]" * depth
    )
    (folder / "trace.json").write_text(text)
    if right:
        assert Trace(folder).facts["deep"]
    else:
        with pytest.raises(TraceError, match="more than 100 levels of lists and objects"):
            Trace(folder)


@pytest.mark.parametrize("digits, right", [(40, True), (41, False), (5000, False), (1_000_000, False)])
def test_a_long_integer_is_refused_by_its_digits(digits, right):
    header = '{"w": {"dtype": "U8", "shape": [0, %s], "data_offsets": [0, 0]}}' % ("1" * digits)
    whole = struct.pack("<Q", len(header)) + header.encode()
    with pytest.raises(TraceError, match="a shape for 'w' that no array can have" if right else "of at most 40"):
        decode(whole)


@pytest.mark.parametrize("size", [1, 10**39])
def test_a_name_of_many_digits_is_read_like_any(size):
    text = json.dumps({"name" + "1" * 60: size}).encode()
    assert parse_json(text) == {"name" + "1" * 60: size}
    with pytest.raises(ValueError, match="an integer of 41 digits"):
        parse_json(text[:-1] + b', "more": 1' + b"0" * 40 + b"}")


def test_a_header_of_many_integers_is_refused_before_they_are_multiplied():
    header = json.dumps({"w": {"dtype": "U8", "shape": [10**38] * 200_000, "data_offsets": [0, 1]}})
    with pytest.raises(TraceError, match="a shape for 'w' that no array can have"):
        decode(struct.pack("<Q", len(header)) + header.encode())


@pytest.mark.parametrize(
    "text, said",
    [
        ("a = " + "[" * 100_000, "levels"),
        ("a = " + "[" * 150 + "]" * 150, "more than 100 levels"),
        ("steps = " + "1" * 5000, "digits"),
    ],
)
@pytest.mark.parametrize("load", [load_case, load_mapping])
def test_toml_without_end_is_refused_in_words(tmp_path, text, said, load):
    (tmp_path / "case.toml").write_text(text)
    with pytest.raises(CaseError, match=said):
        load(tmp_path / "case.toml")


@pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
def test_a_case_that_is_no_file_is_refused(tmp_path, place, capsys):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaseError, match="expected a regular file"):
        load_mapping(tmp_path / place)
