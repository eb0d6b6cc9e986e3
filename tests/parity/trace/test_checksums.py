"""A file of a trace that is not what was written is called damaged, whichever bit of it it is."""

import collections
import json
import re
import shutil
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

from parity.experiment.compare import compare_traces
from parity.experiment.perturbed import PerturbedFile
from parity.judge import fast_metrics
from parity.judge.fast_metrics import fused_norms
from parity.trace import (
    DamagedError,
    Forward,
    ForwardOp,
    RecordedGraph,
    TensorFile,
    Trace,
    TraceWriter,
    check_folder,
    encode,
    read_graph,
    read_json,
    reader,
    safetensors,
    write_forward,
    write_graph,
    write_json,
    write_tensors,
)
from parity.trace import checksum as of_files
from parity.trace.checksum import (
    HELD_AT_ONCE,
    LEAST_AHEAD,
    MAPPED_AT_ONCE,
    ROW,
    Checksum,
    Following,
    Part,
    check_ahead,
    check_file,
)

VARIABLES = {"w": {"shape": [5], "dtype": "float32", "kind": "weight"}}
DAMAGED = r"this file is damaged: expected the checksum \S+ of (\S+), got [0-9a-f]{8}\. .*record it again"


@pytest.fixture(autouse=True)
def nothing_is_known_of_any_file(monkeypatch):
    # Files of one name and size are written within one tick of the file system's clock here.
    monkeypatch.setattr(of_files, "_FAULTS", collections.OrderedDict())


def write(folder: Path, moved: float = 0.0) -> Path:
    """Writes a trace with all kinds of files that are read."""
    writer = TraceWriter(folder, {"package": "test"}, {"towers": 1, "precision": "float32"}, VARIABLES)
    value = np.arange(1, 6, dtype=np.float32) * np.float32(1 + moved)
    writer.init({"var/w": value})
    for number in range(2):
        weights = value * np.float32(0.9 - number)
        writer.step(number, {"state/global_step": np.array(number), "grad/w": value, "var/w": weights})
    writer.close()
    node = {"name": "w", "op": "VariableV2"}
    write_graph(folder, RecordedGraph({"node": [node]}, {"var/w": "w"}, []))
    write_forward(folder / "forward", 0, "0", [(ForwardOp("a", "Relu", [], [], [2], {}), np.ones(2))])
    return folder


def read_all(folder: Path) -> None:
    """Reads every file of a trace as its readers do."""
    trace = Trace(folder)
    for file in (trace.init(), *map(trace.step, trace.step_numbers)):
        for name in file.names():
            file.read(name)
    read_graph(folder)
    Forward(folder / "forward").value(0)
    Trace(folder / "forward").init()


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def bits_of(folder: Path) -> list[tuple[Path, int]]:
    """Lists all files below a folder with the number of bits before each one's end."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    ends = np.cumsum([8 * path.stat().st_size for path in files])
    return list(zip(files, map(int, ends), strict=True))


def at(listed: list[tuple[Path, int]], number: int) -> tuple[Path, int]:
    before = 0
    for path, end in listed:
        if number < end:
            return path, number - before
        before = end
    raise AssertionError(number)


def found_of_flips(folder: Path, count: int, seed: int, read: Callable[[Path], None]) -> collections.Counter[str]:
    """Flips bits of a trace one at a time; returns how often which answer was given by `read`, and comparing then."""
    one, other = write(folder / "one"), write(folder / "other", 1e-8)
    listed, found = bits_of(one), collections.Counter()
    assert compare_traces(one, other).verdict == "same"
    for number in np.random.default_rng(seed).choice(listed[-1][1], count, replace=False).tolist():
        path, bit = at(listed, number)
        of_files._FAULTS.clear()
        flip(path, bit)
        try:
            read(one)
            found[f"{compare_traces(one, other).verdict} ({path.name}, bit {bit})"] += 1
        except DamagedError as error:
            found["damaged" if re.search(DAMAGED, str(error))[1] == str(path) else f"another file than {path}"] += 1
        flip(path, bit)
    return found


def test_each_of_a_hundred_flipped_bits_is_called_damage(tmp_path):
    assert found_of_flips(tmp_path, 100, 1, read_all) == {"damaged": 100}


@pytest.mark.slow
def test_each_of_a_thousand_flipped_bits_is_called_damage(tmp_path):
    assert found_of_flips(tmp_path, 1000, 2, read_all) == {"damaged": 1000}


@pytest.fixture
def all_files_are_large(monkeypatch):
    monkeypatch.setattr(reader, "LEAST_AHEAD", 1)
    monkeypatch.setattr(safetensors, "LEAST_BYTES_ALONE", 1)


def read_others(folder: Path) -> None:
    """Reads what comparing two traces does not."""
    read_graph(folder)
    Forward(folder / "forward").value(0)
    Trace(folder / "forward").init()


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_each_flipped_bit_of_what_is_checked_while_it_is_judged_is_called_damage(tmp_path, all_files_are_large, count):
    assert found_of_flips(tmp_path, count, 3, read_others) == {"damaged": count}


def test_a_step_that_is_checked_while_it_is_judged_is_read_once(tmp_path, monkeypatch, all_files_are_large):
    read, as_it_is = [], Checksum.map
    monkeypatch.setattr(
        Checksum, "map", lambda self, file, *rest: read.append(file.name) or as_it_is(self, file, *rest)
    )
    one, other = write(tmp_path / "one"), write(tmp_path / "other", 1e-8)
    assert compare_traces(one, other).verdict == "same"
    assert read == []
    assert len(of_files._FAULTS) == 6  # the state before the first step and two steps, of both
    assert set(of_files._FAULTS.values()) == {""}


def test_damage_is_told_before_what_it_leads_to(tmp_path, all_files_are_large):
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    path = one / "step-000000.safetensors"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"grad/w", b"\x00rad/w"))
    with pytest.raises(DamagedError, match="step-000000"):
        compare_traces(one, other)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("size", [1, ROW - 1, 3 * ROW + 5, 300 * ROW + 11])
def test_a_file_of_which_parts_were_taken_in_any_order_has_its_checksum(tmp_path, monkeypatch, size, cores):
    monkeypatch.setattr(of_files, "_cores", lambda: cores)
    monkeypatch.setattr(of_files, "_SECOND_CORE", of_files._SecondCore())
    monkeypatch.setattr(of_files, "check_file", lambda path: None)
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": np.random.default_rng(size).integers(0, 256, size, np.uint8), "b": np.ones(9)})
    data = np.memmap(path, np.uint8, "r")
    for parts in ([(-72 - size, -72)], [(-72, None), (-72 - size, -72), (-72, None)], []):
        of_files._FAULTS.clear()
        following = Following(str(path))
        for begin, end in parts:
            following.take(np.asarray(data[begin:end]), len(data) + begin)
        following.settle()
        assert list(of_files._FAULTS.values()) == [""]


@pytest.mark.parametrize("head", [0, 8, ROW - 8])
def test_a_part_is_summed_by_rows_whatever_was_read_of_it_before(head):
    data = np.random.default_rng(head).integers(0, 256, head + 7 * ROW + 3, np.uint8)
    expected = data[head : head + 7 * ROW].view(np.uint64).reshape(7, -1).sum(axis=1)
    for counts in ([], [len(data)], [1, len(data) // 2, len(data) // 2, len(data)], range(0, len(data), 999)):
        part = Part(data, head, np.zeros(7, np.uint64))
        for count in counts:
            part.read_to(count)
        part.read()
        np.testing.assert_array_equal(part._sums, expected)


def test_what_is_judged_is_summed_while_it_is_judged(monkeypatch):
    one = np.random.default_rng(0).standard_normal(400_000).astype(np.float32)  # 5 groups of blocks, and some
    rows = one.nbytes // ROW
    parts, summed = [Part(each.view(np.uint8), 0, np.zeros(rows, np.uint64)) for each in (one, one * 1)], []
    reduce = np.subtract
    monkeypatch.setattr(fast_metrics.np, "subtract", lambda *rest: (summed.append(parts[1]._summed), reduce(*rest)))
    with_parts = fused_norms(one, one * 1, None, parts)
    assert [round(count * ROW / (8 * 9984 * 4), 1) for count in summed] == [0, 0.9, 1.9, 3, 4]
    assert with_parts == fused_norms(one, one * 1)
    assert {part._summed for part in parts} == {40 * 9984 * 4 // ROW}


def test_a_part_is_of_the_array_that_its_bytes_are_and_of_no_other():
    data = np.zeros(48, np.uint8)
    array = data.view(np.float32).reshape(3, 4)
    part = Part(data, 0, np.zeros(0, np.uint64))
    assert part.is_of(array)
    assert part.is_of(array.reshape(4, 3))
    for other in (array.T, array[:2], array[1:], array.copy(), array.astype(np.float64)):
        assert not part.is_of(other)


def write_large(folder: Path) -> Path:
    """Writes a trace whose weights are mapped one by one, behind bytes that leave them at no multiple of 8."""
    weights = np.random.default_rng(0).standard_normal((700, 1000)).astype(np.float32)
    variables = {name: {"shape": [700, 1000], "dtype": "float32", "kind": "weight"} for name in "vw"}
    writer = TraceWriter(folder, {"package": "test"}, {"towers": 1, "precision": "float32"}, variables)
    writer.init({"var/v": weights, "var/w": weights})
    writer.step(
        0, {"grad/v": weights, "state/skipped": np.array(False), "grad/w": weights, "var/v": weights, "var/w": weights}
    )
    writer.close()
    return folder


@pytest.mark.parametrize("cores", [1, 2])
def test_large_tensors_are_checked_as_they_are_judged_on_any_number_of_cores(tmp_path, monkeypatch, cores):
    monkeypatch.setattr(of_files, "_cores", lambda: cores)
    monkeypatch.setattr(of_files, "_SECOND_CORE", of_files._SecondCore())
    monkeypatch.setattr(Checksum, "map", None)  # whole files are read by themselves where they do not agree
    one, other = write_large(tmp_path / "one"), write_large(tmp_path / "other")
    assert compare_traces(one, other).verdict == "same"
    monkeypatch.undo()
    path = other / "step-000000.safetensors"
    for bit in np.random.default_rng(1).integers(8 * 1000, 8 * path.stat().st_size, 20).tolist():
        of_files._FAULTS.clear()
        flip(path, bit)
        with pytest.raises(DamagedError, match=re.escape(str(path))):
            compare_traces(one, other)
        flip(path, bit)


def test_a_thread_that_has_not_begun_is_not_waited_for(tmp_path, monkeypatch):
    held, begun = threading.Event(), threading.Event()
    core = of_files._SecondCore()
    monkeypatch.setattr(of_files, "_cores", lambda: 2)
    monkeypatch.setattr(of_files, "_SECOND_CORE", core)
    core.give(SimpleNamespace(read=lambda: (begun.set(), held.wait(60))))
    assert begun.wait(60)
    core._given.clear()  # so that it is not busy, only late
    one, other = write_large(tmp_path / "one"), write_large(tmp_path / "other")
    assert compare_traces(one, other).verdict == "same"
    assert not held.is_set()
    held.set()


def test_a_file_that_another_one_took_the_place_of_meanwhile_is_read_by_itself(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": np.ones(9)})
    following = Following(str(path))
    write_tensors(path, {"a": np.zeros(9)})
    following.settle()
    assert [identity[1] for identity in of_files._FAULTS] == [path.stat().st_ino]


def test_what_is_checked_while_it_is_read_counts_at_the_end(tmp_path, all_files_are_large):
    folder = write(tmp_path / "one")
    path = folder / "step-000001.safetensors"
    flip(path, 8 * (path.stat().st_size - 4))
    trace = Trace(folder)
    with pytest.raises(DamagedError, match="step-000001"), trace.following():
        trace.step(0).read("var/w")
        trace.settle()
        trace.step(1).read("var/w")
    with pytest.raises(DamagedError, match="step-000001"):
        trace.step(1)


def test_every_single_bit_of_the_smallest_files_counts(tmp_path):
    tensors, described = tmp_path / "x.safetensors", tmp_path / "x.json"
    write_tensors(tensors, {"w": np.ones(1, np.float32)})
    write_json(described, {"steps": 1})
    for path, read in ((tensors, lambda: TensorFile(tensors)), (described, lambda: read_json(str(described)))):
        read()
        for bit in range(8 * path.stat().st_size):
            flip(path, bit)
            of_files._FAULTS.clear()
            with pytest.raises(DamagedError, match="this file is damaged"):
                read()
            flip(path, bit)


@pytest.mark.parametrize(("bit", "verdict"), [(0, "same"), (30, "different")])
def test_the_proof_that_flips_are_seen_can_fail(tmp_path, monkeypatch, bit, verdict):
    monkeypatch.setattr(of_files, "_parted", lambda data: ("", data))  # as of a file without a checksum
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    path = one / "step-000001.safetensors"
    flip(path, 8 * (path.stat().st_size - 4) + bit)  # of the last weight, its lowest and its highest bit but the sign's
    assert compare_traces(one, other).verdict == verdict


def test_the_checksum_of_a_file_of_one_row_is_that_of_zlib():
    checksum = Checksum()
    checksum.update(b"tower")
    assert checksum.digits() == f"{zlib.crc32(b'tower'):08x}"


@pytest.mark.parametrize("size", [0, 1, ROW - 1, ROW, ROW + 1, HELD_AT_ONCE, 3 * HELD_AT_ONCE + 7])
def test_the_checksum_is_that_of_the_rows_however_the_bytes_are_cut(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    words = np.frombuffer(data + bytes(-size % ROW), "<u8").reshape(-1, ROW // 8)
    expected = f"{zlib.crc32(data[:ROW] + words[1:].sum(axis=1).tobytes()):08x}"
    for cut in (100, 1 + size // 3, 1 + size):
        checksum = Checksum()
        for begin in range(0, size, cut):
            checksum.update(data[begin : begin + cut])
        assert checksum.digits() == expected


@pytest.mark.parametrize("word", [0, 2**64 - 1, 2**63, 0x0123456789ABCDEF])
def test_a_flipped_bit_of_a_row_that_is_summed_counts_however_far_its_sum_carries(word):
    data = np.zeros(2 * ROW, np.uint8)
    data[ROW : ROW + 8] = np.frombuffer(word.to_bytes(8, "little"), np.uint8)
    found = set()
    for bit in (None, *range(64)):
        flipped = data.copy()
        if bit is not None:
            flipped[ROW + 8 + bit // 8] ^= 1 << bit % 8
        checksum = Checksum()
        checksum.update(flipped.tobytes())
        found.add(checksum.digits())
    assert len(found) == 65


@pytest.mark.parametrize("size", [1, 100, ROW, ROW + 1, MAPPED_AT_ONCE - 1, MAPPED_AT_ONCE, MAPPED_AT_ONCE + ROW + 5])
@pytest.mark.parametrize("beginning", [b"", b"tower"])
def test_the_checksum_of_a_mapped_file_is_that_of_its_bytes(tmp_path, size, beginning):
    data = np.random.default_rng(size).bytes(size)
    (tmp_path / "x").write_bytes(data)
    taken = beginning[:size]
    one, other = Checksum(), Checksum()
    one.update(taken + data[len(taken) :])
    with open(tmp_path / "x", "rb") as file:
        other.map(file, size, taken)
    assert one.digits() == other.digits()


def test_the_checksum_of_written_files_stays_what_it_is(tmp_path):
    write_tensors(tmp_path / "x.safetensors", {"w": np.arange(3, dtype=np.float32)})
    write_json(tmp_path / "x.json", {"steps": 1})
    assert b'{"__metadata__":{"__checksum__":"sum-crc32:' in (tmp_path / "x.safetensors").read_bytes()[8:]
    assert json.loads((tmp_path / "x.json").read_text()).keys() == {"__checksum__", "steps"}
    assert read_json(str(tmp_path / "x.json")) == {"steps": 1}
    assert load_file(tmp_path / "x.safetensors")["w"].tolist() == [0, 1, 2]


def test_pages_that_changed_places_are_seen(tmp_path):
    path, page = tmp_path / "x.safetensors", 4096
    write_tensors(path, {"w": np.random.default_rng(0).standard_normal(10 * page)})
    data = bytearray(path.read_bytes())
    data[page : 2 * page], data[5 * page : 6 * page] = data[5 * page : 6 * page], data[page : 2 * page]
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=DAMAGED):
        TensorFile(path)


def test_a_trace_without_checksums_is_read(tmp_path):
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    for path in (path for path in one.rglob("*") if path.is_file()):
        if path.suffix == ".json":
            path.write_text(json.dumps(read_json(str(path))))
        else:
            tensors = load_file(path)
            path.write_bytes(b"".join(bytes(part) for part in encode(tensors)))
    read_all(one)
    assert compare_traces(one, other).verdict == "same"


def test_a_file_is_read_in_full_once_in_a_process_as_long_as_it_is_the_same(tmp_path, monkeypatch):
    read, as_it_is = [], Checksum.map
    monkeypatch.setattr(
        Checksum, "map", lambda self, file, *rest: (read.append(file.name), as_it_is(self, file, *rest))
    )
    path = str(tmp_path / "x.safetensors")
    write_tensors(path, {"w": np.ones(1)})
    for _ in range(2):
        check_file(path)
    assert read == [path]
    write_tensors(path, {"w": np.ones(2)})
    check_file(path)
    assert read == [path, path]


def test_of_so_many_files_is_known_whether_they_are_whole_and_of_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(of_files, "MOST_CHECKED", 2)
    for number in range(4):
        write_tensors(tmp_path / f"{number}.safetensors", {"w": np.ones(1)})
        check_file(str(tmp_path / f"{number}.safetensors"))
    assert [Path(identity[0]).name for identity in of_files._FAULTS] == ["2.safetensors", "3.safetensors"]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_large_step_is_checked_while_the_one_before_it_is_read(tmp_path, damaged):
    writer = TraceWriter(tmp_path / "t", {"package": "test"})
    for number in range(2):
        writer.step(number, {"var/w": np.zeros(LEAST_AHEAD, np.uint8)})
    writer.close()
    if damaged:
        flip(tmp_path / "t" / "step-000001.safetensors", 8 * LEAST_AHEAD)
    trace = Trace(tmp_path / "t")
    trace.step(0)  # says nothing of the next one
    for thread in list(of_files._AHEAD.values()):
        thread.join()
    assert [bool(fault) for fault in of_files._FAULTS.values()] == [False, damaged]
    if damaged:
        with pytest.raises(DamagedError, match="step-000001"):
            trace.step(1)
    else:
        trace.step(1)
    assert not of_files._AHEAD


def test_a_step_that_is_not_there_is_told_by_who_asks_for_it(tmp_path):
    check_ahead(str(tmp_path / "step-000001.safetensors"))
    with pytest.raises(FileNotFoundError):
        check_file(str(tmp_path / "step-000001.safetensors"))


def test_a_folder_is_as_whole_as_each_of_its_files(tmp_path):
    folder = write(tmp_path / "golden")
    check_folder(folder)
    for path in (folder / "forward" / "step-000000.safetensors", folder / "trace.json"):
        copy = tmp_path / path.name
        shutil.copytree(folder, copy)
        flip(copy / path.relative_to(folder), 1000)
        with pytest.raises(DamagedError, match=re.escape(path.name)):
            check_folder(copy)


def test_of_what_is_in_memory_nothing_is_checked_while_it_is_read(tmp_path):
    """Files that stand for others, made again or changed, are judged as those are that were written."""
    file = PerturbedFile(SimpleNamespace(_entries={}), {"grad/w": np.ones(4)})
    assert file.part_of(file.read("grad/w")) is None
