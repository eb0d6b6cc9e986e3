"""A folder that a trace is written to: what of an older trace goes, and what else there is stays."""

import os

import pytest

from parity.trace import TraceError
from parity.trace.writer import FORMAT, clear_trace

UNIQUE = "0123456789abcdef" * 2


def trace_at(folder, *more):
    """An older trace, with other files and folders beside it; a name that ends in a slash is a folder."""
    folder.mkdir(parents=True)
    (folder / "trace.json").write_text(f'{{"format": "{FORMAT}"}}')
    for name in more:
        if name.endswith("/"):
            (folder / name).mkdir(parents=True)
        else:
            (folder / name).write_text("x")
    return folder


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_that_is_not_there_is_made_with_those_above_it(tmp_path):
    clear_trace(str(tmp_path / "a" / "b"))
    assert left(tmp_path) == ["a", "a/b"]
    clear_trace(str(tmp_path / "a" / "b"))
    assert left(tmp_path) == ["a", "a/b"]


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        *((name, True) for name in ("init.safetensors", "step-000000.safetensors", "step-1234567.safetensors")),
        *((name, True) for name in ("graph.json", "shadow.json", "trace.json.part", f"trace.json.{UNIQUE}.part")),
        (f"step-000001.safetensors.{UNIQUE}.part", True),
        *((name, False) for name in ("step-00000.safetensors", "step-000000.safetensors.bak", "notes.txt", "init")),
        *((name, False) for name in ("my-init.safetensors", f"trace.json.{UNIQUE[1:]}.part", "traceXjson")),
    ],
)
def test_what_a_trace_is_made_of_goes_and_what_lies_beside_it_stays(tmp_path, name, goes):
    folder = trace_at(tmp_path / "t", name)
    clear_trace(str(folder))
    assert left(folder) == ([] if goes else [name])


@pytest.mark.parametrize("described", [None, "{}", '{"format": "another"}', FORMAT])
def test_what_is_no_trace_is_refused_and_nothing_of_it_goes(tmp_path, described):
    (tmp_path / "init.safetensors").write_text("x")
    if described is not None:
        (tmp_path / "trace.json").write_text(described)
    before = left(tmp_path)
    with pytest.raises(TraceError, match=r"expected an empty folder or an older trace at .*, got other files"):
        clear_trace(str(tmp_path))
    assert left(tmp_path) == before


def test_a_shadow_goes_with_its_folders_and_those_of_other_files_stay(tmp_path):
    folder = trace_at(tmp_path / "t")
    trace_at(folder / "shadow", "init.safetensors", "free/", "spread/")
    (folder / "shadow" / "free" / "step-000000.safetensors").write_text("x")
    (folder / "shadow" / "spread" / "notes.txt").write_text("x")
    clear_trace(str(folder))
    assert left(folder) == ["shadow", "shadow/spread", "shadow/spread/notes.txt"]
    (folder / "shadow" / "spread" / "notes.txt").unlink()
    (folder / "shadow" / "trace.json").write_text(f'"{FORMAT}"')
    (folder / "trace.json").write_text(f'"{FORMAT}"')
    clear_trace(str(folder))
    assert left(folder) == []


def test_folders_that_are_no_shadow_and_links_stay(tmp_path):
    away = trace_at(tmp_path / "away", "init.safetensors")
    folder = trace_at(tmp_path / "t", "shadow/", "other/", "init.safetensors/")
    (folder / "shadow" / "init.safetensors").write_text("x")  # no trace
    trace_at(folder / "own")
    clear_trace(str(folder))
    expected = ["init.safetensors", "other", "own", "own/trace.json", "shadow", "shadow/init.safetensors"]
    assert left(folder) == expected
    linked = trace_at(tmp_path / "linked")
    os.symlink(away, linked / "shadow", target_is_directory=True)
    clear_trace(str(linked))
    assert (linked / "shadow").is_symlink() and left(away) == ["init.safetensors", "trace.json"]


@pytest.mark.parametrize("where", ["shadow/forward/main/3", "forward/main/0"])
def test_recorded_passes_go_too_so_that_another_trace_can_be_written_there(tmp_path, where):
    folder = trace_at(tmp_path / "t")
    if where.startswith("shadow"):
        trace_at(folder / "shadow")
    trace_at(folder / where, "init.safetensors", "step-000003.safetensors", "forward.json", "forward.json.part")
    clear_trace(str(folder))
    assert left(folder) == []
    clear_trace(str(folder))


def test_a_folder_of_that_name_with_other_files_stays(tmp_path):
    folder = trace_at(tmp_path / "t", "forward/")
    (folder / "forward" / "notes.txt").write_text("x")
    clear_trace(str(folder))
    assert left(folder) == ["forward", "forward/notes.txt"]
