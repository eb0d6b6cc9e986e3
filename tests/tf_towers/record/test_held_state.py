"""What is on the way to a statistic is loaded into a port and not judged, with a float64 shadow and without one."""

import shutil
from pathlib import Path

import pytest

from parity.cli import main

from .conftest import run_recorded

SCRIPT = Path(__file__).parent / "zero_debiased.py"


@pytest.mark.slow
@pytest.mark.usefixtures("forked_torch")
def test_a_port_is_proven_that_holds_what_is_on_the_way_to_a_statistic(tf_python, tmp_path, capsys):
    trace = run_recorded(tf_python, SCRIPT, options=(), cwd=tmp_path).out
    assert main(["port", str(trace), "--out", str(tmp_path / "port")]) == 0
    report = " ".join(capsys.readouterr().out.split())
    print(report)
    assert "verdict: same" in report
    assert "local_step, which is loaded and not judged" in report
    shutil.rmtree(trace / "shadow")
    assert main(["port", str(trace), "--out", str(tmp_path / "port")]) == 2
    assert "verdict: same (only float32 was judged" in capsys.readouterr().out
