"""Files that a user names: links are followed, devices written to, and nothing is lost where a command fails."""

import json
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from test_report import same

from parity.cli import main
from parity.report import write_html, write_junit, write_markdown
from parity.report.atomic import appearing
from parity.trace import TraceWriter

KINDS = ["json", "html", "junit", "markdown"]


def record(folder, scale=1.0):
    variables = {"w": {"shape": [2], "dtype": "float32", "kind": "weight"}}
    writer = TraceWriter(folder, {"package": "test"}, {"towers": 1, "precision": "float32"}, variables)
    writer.init({"var/w": np.ones(2, np.float32)})
    writer.step(0, {"grad/w": scale * np.ones(2, np.float32), "var/w": np.ones(2, np.float32)})
    writer.close()
    return folder


@pytest.fixture
def traces(tmp_path):
    return [str(record(tmp_path / "one")), str(record(tmp_path / "other"))]


@pytest.mark.parametrize("why", [OSError(28, "No space left on device", "page"), MemoryError()])
def test_a_report_that_was_written_goes_where_the_command_fails_and_cannot_say_so_in_it(
    tmp_path, traces, monkeypatch, capsys, why
):
    from parity.report import failure

    def full(*arguments, **options):
        raise why

    monkeypatch.setattr("parity.report.write_html", full)
    monkeypatch.setattr(failure, "write_json", full)
    files = [str(tmp_path / name) for name in ("result.json", "page.html")]
    assert main(["compare", *traces, "--json", files[0], "--html", files[1]]) == 2
    assert not (tmp_path / "result.json").exists()
    assert "parity: --json: expected to write" in capsys.readouterr().err


def test_a_lack_of_memory_is_the_machines_and_no_bug(tmp_path, traces, monkeypatch, capsys):
    def lacking(*arguments, **options):
        raise MemoryError("Unable to allocate 1 GiB")

    monkeypatch.setattr("parity.report.write_html", lacking)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert main(["compare", *traces, "--html", str(tmp_path / "page.html")]) == 2
    errors = capsys.readouterr().err
    assert "parity: expected memory to go on with, got Unable to allocate 1 GiB. Free some and run again." in errors
    assert "bug" not in errors


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path, traces, kind):
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "report").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "held" / "report")
    main(["compare", *traces, f"--{kind}", str(link)])
    assert link.is_symlink()
    assert (tmp_path / "held" / "report").read_text() != "old"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["whole", "failing"])
def test_a_pipe_is_written_to_and_stays_one(tmp_path, traces, kind, given):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    main(["compare", *(traces if given == "whole" else ["nowhere", "nowhere"]), f"--{kind}", str(pipe)])
    reader.join(10)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(read[0]) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other", "pipe"]


def test_a_device_stays_one(traces):
    main(["compare", *traces, *(word for kind in KINDS[:1] for word in (f"--{kind}", "/dev/null"))])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_a_report_on_standard_output_is_whole_there(tmp_path, traces, name):
    command = [sys.executable, "-m", "parity.cli", "compare", *traces, "--quiet", "--json", name]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    result, end = json.JSONDecoder().raw_decode(ended.stdout)
    behind = ended.stdout[end:]
    assert result["error"] is None
    assert ("verdict:" in behind) == (name != "-")
    assert ("verdict:" in ended.stderr) == (name == "-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_file_stays_until_its_place_is_taken(tmp_path, kind, monkeypatch):
    report = tmp_path / "report"
    report.write_text("old")
    report.chmod(0o640)
    seen = []
    monkeypatch.setattr("parity.experiment.compare.compare_traces", lambda *rest: seen.append(report.read_text()))
    main(["compare", "one", "other", f"--{kind}", str(report)])
    assert seen == ["old"]
    # The command failed, and the report says so: nothing old is read as new.
    assert report.read_text() != "old"
    assert stat.S_IMODE(report.stat().st_mode) == 0o640


def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(KeyError), appearing(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_html, write_junit, write_markdown])
def test_a_report_that_cannot_be_finished_leaves_the_old_one_and_no_part(write, tmp_path, monkeypatch):
    path = tmp_path / "report"
    path.write_text("old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write(same(), path, "x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("into", ["one", "other", ".", "one/in"])
def test_map_writes_into_no_folder_that_it_reads(tmp_path, traces, capsys, into):
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    assert main(["map", *traces, "--write", str(tmp_path / into)]) == 2
    assert "--write: expected a folder of its own" in capsys.readouterr().err
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_a_trace_is_written_over_a_trace_and_over_nothing_else(tmp_path, traces, capsys):
    into = record(tmp_path / "into")
    kept = ["model.safetensors", "step-1.safetensors", "notes.part", "shadow/mine.txt", "runs"]
    (into / "shadow").mkdir()
    for name in kept[:-1]:
        (into / name).write_text("mine")
    (into / "runs").mkdir()
    assert main(["map", *traces, "--write", str(into)]) == 0
    assert all((into / name).exists() for name in kept)
    assert not (into / "step-000000.safetensors").exists()


def test_a_folder_whose_index_is_no_traces_is_left_alone(tmp_path, traces, capsys):
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "trace.json").write_text('{"events": []}')
    (tmp_path / "into" / "init.safetensors").write_text("mine")
    assert main(["map", *traces, "--write", str(tmp_path / "into")]) == 2
    assert (tmp_path / "into" / "init.safetensors").read_text() == "mine"
