"""Where `parity replay` leaves its traces, what it hands on, and what it ends with: with a replay that answers at once."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from parity import report
from parity.cli import replay


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Runs the command's frame around a replay that answers at once; returns the status and what was called."""
    calls = []
    result = SimpleNamespace(exit_code=3, strict_exit_code=4)
    for name in ("claim_report_files", "write_report_files"):
        monkeypatch.setattr(replay, name, lambda *given, name=name: calls.append((name, given[1:])))
    monkeypatch.setattr(report, "report", lambda *given: calls.append(("report", given)))

    def run(out=None, strict=False):
        given = {"trace": tmp_path / "trace", "out": out, "strict": strict, "quiet": True, "verbose": False}
        arguments = SimpleNamespace(**given)

        def replayed(asked, folder, tick):
            assert asked is arguments and folder.is_dir() and callable(tick)
            calls.append(("replayed", folder))
            return result

        return replay._judged(arguments, replayed), calls, result

    return run


@pytest.mark.parametrize(("strict", "status"), [(False, 3), (True, 4)])
def test_files_are_claimed_before_the_run_and_written_behind_it(judged, tmp_path, strict, status):
    out = tmp_path / "kept" / "here"
    found, calls, result = judged(out, strict)
    trace = str(tmp_path / "trace")
    assert found == status and out.is_dir()
    assert calls == [
        ("claim_report_files", ()),
        ("replayed", out),
        ("write_report_files", (result, trace)),
        ("report", (result, trace, True, False)),
    ]


def test_traces_that_nobody_asked_for_lie_in_a_folder_of_its_own_that_goes(judged):
    _, calls, _ = judged()
    folder = next(given for name, given in calls if name == "replayed")
    assert isinstance(folder, Path) and folder.name.startswith("parity-replay-") and not folder.exists()
