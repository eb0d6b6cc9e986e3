"""Bytes of a trace that no small test reaches: large tensors, gaps between tensors, leftovers, order."""

import json
import struct

import numpy as np
import pytest

from parity.trace import TensorFile, Trace, TraceError, TraceWriter, tower_order, write_tensors
from parity.trace.tensor_file import decode

MIB = 1 << 20


@pytest.mark.parametrize("size", [MIB - 4, MIB, MIB + 4])
def test_a_tensor_is_the_same_whether_it_is_mapped_alone_or_with_its_file(tmp_path, size):
    draw = np.random.default_rng(size)
    tensors = {name: draw.integers(0, 2**31, size // 4, np.int32) for name in ("var/a", "var/b", "var/c")}
    write_tensors(tmp_path / "t.safetensors", tensors)
    file = TensorFile(tmp_path / "t.safetensors")
    for name, value in tensors.items():
        np.testing.assert_array_equal(file.read(name), value)


def whole(offsets, length):
    header = {
        f"t{n}": {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        for n, (begin, end) in enumerate(offsets)
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(length)


@pytest.mark.parametrize(
    ("offsets", "length", "why"),
    [
        ([(0, 4), (2, 6)], 6, "offsets 2..6"),  # over each other
        ([(0, 4), (0, 4)], 4, "offsets 0..4"),
        ([(0, 4), (5, 8)], 8, "offsets 5..8"),  # with a byte between
        ([(1, 4)], 4, "offsets 1..4"),
        ([(0, 4), (4, 8)], 9, "where its header speaks of"),  # with a byte behind
        ([(0, 4), (4, 8)], 7, "where its header speaks of"),
    ],
)
def test_every_byte_belongs_to_one_tensor(offsets, length, why):
    with pytest.raises(TraceError, match=why):
        decode(whole(offsets, length))
    assert len(decode(whole([(0, 4), (4, 8)], 8))) == 2


def write(folder, steps, close=True):
    writer = TraceWriter(folder, {"package": "test"})
    writer.init({"var/w": np.zeros(1)})
    for number in steps:
        writer.step(number, {"var/w": np.full(1, float(number))})
    if close:
        writer.close()


def test_a_trace_that_is_written_anew_keeps_no_step_of_the_old_one(tmp_path):
    write(tmp_path / "t", range(4))
    (tmp_path / "t" / "step-000009.safetensors.part").write_bytes(b"half")
    write(tmp_path / "t", range(2), close=False)
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "init.safetensors",
        "step-000000.safetensors",
        "step-000001.safetensors",
        "trace.json",
    ]
    assert Trace(tmp_path / "t", whole=False).step_numbers == [0, 1]


def test_steps_of_a_trace_that_was_left_early_come_in_the_order_of_their_numbers(tmp_path, monkeypatch):
    write(tmp_path / "t", [12, 3, 1_000_000, 7], close=False)
    listed = ["step-000012.safetensors", "step-000003.safetensors", "trace.json", "step-1000000.safetensors"]
    monkeypatch.setattr("os.listdir", lambda folder: [*listed, "step-000007.safetensors"])
    assert Trace(tmp_path / "t", whole=False).step_numbers == [3, 7, 12, 1_000_000]


def test_towers_are_counted_as_numbers():
    towers = ["10", "9", "0.10", "0.9", "2", "0", "1"]
    assert sorted(towers, key=tower_order) == ["0", "0.9", "0.10", "1", "2", "9", "10"]
    assert tower_order("") == ()
