"""Bytes of a trace that no small test reaches: large tensors, gaps between tensors, leftovers, order."""

import json
import struct

import numpy as np
import pytest

from parity.trace import TensorFile, Trace, TraceError, TraceWriter, state_after, tower_order, write_tensors
from parity.trace.reader import counters_after
from parity.trace.safetensors import decode, encode

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


@pytest.mark.parametrize("shape", [[0, 10**30], [0, 2**62, 2**62], [0, 2**60], [1] * 33])
def test_a_shape_that_no_array_can_have_is_refused(shape):
    size = int(np.prod([float(extent) for extent in shape]))
    text = json.dumps({"t": {"dtype": "F64", "shape": shape, "data_offsets": [0, 8 * size]}}).encode()
    with pytest.raises(TraceError, match="a shape for 't' that no array can have"):
        decode(struct.pack("<Q", len(text)) + text + bytes(8 * size))


@pytest.mark.parametrize("shape", [[0, 2**59], [1] * 32, [3, 0, 5]])
def test_an_empty_array_and_one_of_many_axes_are_read(shape):
    value = np.zeros(shape)
    assert decode(b"".join(bytes(piece) for piece in encode({"t": value})))["t"].shape == value.shape


@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"])
def test_tensors_begin_at_a_multiple_of_eight_bytes(name):
    prefix, header, *_ = encode({name: np.ones(3)})
    assert (len(prefix) + len(header)) % 8 == 0 and len(header) < 80


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
    assert tower_order("²") == (-1,)  # a digit to str.isdigit, and no number to int


def counted(folder, *counts, after=None, skipped=()):
    facts = {"counters_after": after}
    writer = TraceWriter(folder, {"package": "test"}, facts)
    writer.init({"var/w": np.zeros(1), "state/global_step": np.array(0)})
    for number, count in enumerate(counts):
        state = {
            "state/global_step": np.array(count),
            "state/adam_t": np.array(2 * count),
            "state/learning_rate": np.array(0.1),
        }
        state["state/skipped"] = np.array(float(number in skipped))
        left = {f"{quantity}/w": np.full(1, number + 1.0) for quantity in ("grad", "slot/m", "stat", "ema", "var")}
        writer.step(number, {**state, **left, "loss/0": np.zeros(1)})
    writer.close()
    return Trace(folder)


@pytest.mark.parametrize(
    ("step", "settings", "counters"),
    [
        (0, {}, {"global_step": 6, "adam_t": 12}),  # those before the next step
        (1, {}, {"global_step": 7}),  # one more; of others nothing is known
        (1, {"skipped": [1]}, {"global_step": 6}),
        (1, {"after": {"state/global_step": 9, "state/adam_t": 4}}, {"global_step": 9, "adam_t": 4}),
        (0, {"after": {"state/global_step": 9}}, {"global_step": 6, "adam_t": 12}),
    ],
)
def test_a_step_leaves_what_it_wrote_and_the_counters_of_the_next(tmp_path, step, settings, counters):
    found = state_after(counted(tmp_path, 5, 6, **settings), step)
    assert {name[6:]: int(value) for name, value in found.items() if name.startswith("state/")} == counters
    left = {name: float(value[0]) for name, value in found.items() if not name.startswith("state/")}
    assert left == dict.fromkeys(["slot/m/w", "stat/w", "ema/w", "var/w"], step + 1.0)


def test_counters_of_a_state_are_kept_as_the_fact_that_they_are_read_from(tmp_path):
    state = {
        "state/global_step": np.array(9),
        "section/head/state/beta1_power": np.float32(0.5),
        "state/loss_scale": np.float32(np.inf),
        "state/learning_rate": np.float32(0.1),
        "section/head/state/skipped": np.array(0.0),
        "var/w": np.ones(1),
    }
    assert counters_after(state) == {"state/global_step": 9, "section/head/state/beta1_power": 0.5}


def test_counters_of_another_step_are_not_taken_for_those_after_the_last(tmp_path):
    found = state_after(counted(tmp_path, 5, after={"state/global_step": 9, "state/adam_t": 4}))
    assert (found["state/global_step"], found["state/adam_t"]) == (9, 4)
    assert found["state/global_step"].dtype == np.int64


def test_without_a_step_the_state_is_that_before_the_first(tmp_path):
    assert set(state_after(counted(tmp_path))) == {"var/w", "state/global_step"}
    with pytest.raises(TraceError, match=r"\(0 to 1\), got 2"):
        state_after(counted(tmp_path / "two", 5, 6), 2)
