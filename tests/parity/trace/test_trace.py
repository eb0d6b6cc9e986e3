"""Traces: written with numpy alone, read lazily, refused where they are not whole."""

import json
import platform
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from parity.trace import Trace, TraceError, TraceWriter, decode, encode, read_json, write_tensors
from parity.trace import safetensors as tensor_file
from parity.trace.safetensors import BFloat16, Headers, TensorFile, read_header

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, min_side=0)))


@given(st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda s: s != "__metadata__"), ARRAYS, max_size=4))
def test_what_is_encoded_is_decoded(tensors):
    found = decode(b"".join(bytes(part) for part in encode(tensors)))
    assert list(found) == sorted(found, key=list(tensors).index)
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_the_safetensors_library_reads_what_we_write(tmp_path):
    tensors = {"a": np.arange(6.0).reshape(2, 3), "b": np.float32(3), "c": np.arange(6).reshape(2, 3).T}
    write_tensors(tmp_path / "x.safetensors", tensors)
    found = load_file(tmp_path / "x.safetensors")
    assert set(found) == set(tensors)
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name], array)


def test_variables_come_back_in_the_order_of_writing(tmp_path):
    described = {name: {"shape": [], "dtype": "float32", "kind": "weight"} for name in ("z", "a", "m")}
    TraceWriter(tmp_path, {"package": "test"}, {}, described).close()
    assert list(Trace(tmp_path).variables) == ["z", "a", "m"]


def test_bfloat16_comes_back_as_float32(tmp_path):
    write_tensors(tmp_path / "x.safetensors", {"half": BFloat16(np.array([0x3F80, 0xC000], np.uint16))})
    file = TensorFile(tmp_path / "x.safetensors")
    assert file.dtype("half") == "bfloat16"
    assert file.read("half").tolist() == [1.0, -2.0]
    assert BFloat16([[0x3F80]]).words.dtype == np.uint16


def test_objects_are_refused_by_name(tmp_path):
    with pytest.raises(TraceError, match="expected w as a bool, integer or float array, got dtype object"):
        write_tensors(tmp_path / "x", {"w": np.array([None])})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 7, 20, 0.5, -1])
def test_a_file_cut_short_is_refused(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    data = b"".join(bytes(part) for part in encode({"a": np.arange(100.0)}))  # without a checksum, as others write it
    path.write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(TraceError, match="whole safetensors file"):
        TensorFile(path)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}},
        {"a": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F64", "shape": "1", "data_offsets": [0, 8]}},
        {"a": {"dtype": "F64", "shape": [True], "data_offsets": [0, 8]}},
        {"a": {"dtype": ["F64"], "shape": [1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, "8"]}},
        {
            "a": {"dtype": "F64", "shape": [1], "data_offsets": ["0", 8]},
            "b": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        },
        {"a": {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        {"a": [1]},
        [],
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(TraceError, match="whole safetensors file"):
        TensorFile(tmp_path / "x")


def test_a_header_that_is_nested_without_end_is_refused(tmp_path):
    text = b"[" * 100_000
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(TraceError, match=r"whole safetensors file, got a header that is not JSON"):
        TensorFile(tmp_path / "x")


def test_tensors_are_found_whatever_the_order_of_the_header(tmp_path):
    place = {"dtype": "F64", "shape": [1]}
    header = {"__metadata__": {"dtype": "F64"}, "late": {**place, "data_offsets": [8, 16]}}
    text = json.dumps({**header, "early": {**place, "data_offsets": [0, 8]}}).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text + struct.pack("<2d", 1.0, 2.0))
    file = TensorFile(tmp_path / "x")
    assert file.names() == ["early", "late"]
    assert (file.read("early").item(), file.read("late").item()) == (1.0, 2.0)


def test_a_header_longer_than_its_file_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(struct.pack("<Q", 2**60) + bytes(8))
    with pytest.raises(TraceError, match="a header of"):
        TensorFile(tmp_path / "x")


def test_a_header_is_read_once_as_long_as_its_file_is_the_same(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(tensor_file, "read_header", lambda *a: read.append(a[-1]) or read_header(*a))
    headers = Headers(most=3)

    def shape_in(name):
        return TensorFile(tmp_path / name, headers).shape("a")

    write_tensors(tmp_path / "x", {"a": np.zeros(2)})
    assert [shape_in("x"), shape_in("x"), len(read)] == [(2,), (2,), 1]
    write_tensors(tmp_path / "x", {"a": np.zeros(3)})
    assert [shape_in("x"), len(read)] == [(3,), 2], "it is another file now"
    write_tensors(tmp_path / "y", {"a": np.zeros(1), "b": np.zeros(1)})
    write_tensors(tmp_path / "z", {"a": np.zeros(4)})
    assert [shape_in("y"), shape_in("z"), shape_in("y"), len(read)] == [(1,), (4,), (1,), 4]
    assert [shape_in("x"), len(read)] == [(3,), 5], "so many tensors are kept and no more"
    with pytest.raises(TraceError, match="got No such file"):
        shape_in("missing")


def write(folder: Path) -> TraceWriter:
    writer = TraceWriter(folder, {"package": "test"}, {"towers": 2}, {"w": {"shape": [2]}})
    writer.init({"var/w": np.zeros(2)})
    writer.step(0, {"loss/0": np.float64(1)})
    return writer


def test_a_trace_is_complete_only_once_it_is_closed(tmp_path):
    writer = write(tmp_path)
    with pytest.raises(TraceError, match="whose writer stopped early"):
        Trace(tmp_path)
    assert Trace(tmp_path, whole=False).step_numbers == [0]
    writer.close(late=1)
    trace = Trace(tmp_path)
    assert trace.facts == {"towers": 2, "late": 1}
    assert trace.step(0).read("loss/0") == 1.0
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_a_description_that_is_nested_without_end_is_refused(tmp_path):
    write(tmp_path).close()
    (tmp_path / "trace.json").write_text("[" * 100_000)
    with pytest.raises(TraceError, match=r"expected JSON in .*trace\.json"):
        Trace(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, "expected the format 'tower-parity-trace'"),
        ({"format": "other"}, "expected the format 'tower-parity-trace'"),
        ({"facts": []}, "expected 'facts' in .* to be a dict"),
        ({"variables": None}, "expected 'variables' in .* to be a dict"),
        ({"activations": {}}, "expected 'activations' in .* to be a list"),
        ({"producer": "x"}, "expected 'producer' in .* to be a dict"),
        ({"step_numbers": 1}, "expected 'step_numbers' in .* to be a list"),
        ({"steps": "1"}, "expected 'steps' in .* to be a int"),
        ({"complete": 1}, "expected 'complete' in .* to be a bool"),
        ({"step_numbers": [-1]}, "expected step numbers from 0 in .*, got -1"),
        ({"step_numbers": [True]}, "expected step numbers from 0 in .*, got True"),
    ],
)
def test_a_description_that_is_none_of_a_trace_is_refused(tmp_path, change, said):
    write(tmp_path).close()
    meta = read_json(str(tmp_path / "trace.json"))
    (tmp_path / "trace.json").write_text(json.dumps([] if change is None else {**meta, **change}))
    with pytest.raises(TraceError, match=said):
        Trace(tmp_path)


def test_a_trace_says_who_wrote_it_and_in_which_version_of_the_format(tmp_path):
    write(tmp_path).close()
    meta = read_json(str(tmp_path / "trace.json"))
    assert (meta["format"], meta["format_version"], meta["steps"]) == ("tower-parity-trace", 1, 1)
    assert list(meta) == sorted(meta), "the same trace is the same bytes"
    assert Trace(tmp_path).producer == {
        "package": "test",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def test_a_fact_that_json_has_no_word_for_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write(tmp_path).close(worst=float("nan"))


@pytest.mark.parametrize(
    ("folders", "near"),
    [
        ([], ""),
        (["b", "a"], "a"),
        (["b", "a/float32-x", "a/batches"], "a/float32-x"),
        (["one/two/three"], ""),
    ],
)
def test_a_folder_of_traces_is_refused_with_one_that_was_probably_meant(tmp_path, folders, near):
    for folder in folders:
        write(tmp_path / "out[1]" / folder).close()
    (tmp_path / "out[1]").mkdir(exist_ok=True)
    with pytest.raises(TraceError) as error:
        Trace(tmp_path / "out[1]")
    said = str(error.value).partition("Name the folder that holds it")[2]
    assert said == (f", e.g. {tmp_path / 'out[1]' / near}." if near else ".")


def test_a_missing_step_is_named(tmp_path):
    write(tmp_path).close()
    (tmp_path / "step-000000.safetensors").unlink()
    with pytest.raises(TraceError, match="got no file for step 0"):
        Trace(tmp_path)


def test_another_format_version_is_refused(tmp_path):
    write(tmp_path).close()
    meta = read_json(str(tmp_path / "trace.json"))
    (tmp_path / "trace.json").write_text(json.dumps({**meta, "format_version": 99}))
    with pytest.raises(TraceError, match=r"expected format version 1 .* got 99"):
        Trace(tmp_path)


def test_a_writer_never_clears_a_folder_of_something_else(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(TraceError, match="got other files"):
        TraceWriter(tmp_path, {})
    assert (tmp_path / "thesis.txt").exists()
