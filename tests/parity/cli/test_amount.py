"""How much a command prints: nothing but the verdict, or everything; and how far it is, on a terminal only."""

import argparse
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parity.cli import main
from parity.cli.output import add_amount
from parity.experiment.power import Power
from parity.report import show_power
from parity.trace import TraceWriter

ROOT = Path(__file__).parents[3]


@pytest.fixture
def two_traces(tmp_path):
    """Two traces of 3 steps that are the same."""
    for name in ("one", "other"):
        writer = TraceWriter(
            tmp_path / name,
            {"framework": "numpy"},
            {"towers": 1, "precision": "float32"},
            {"w": {"shape": [2], "dtype": "float32", "kind": "weight"}},
        )
        writer.init({"var/w": np.ones(2, np.float32)})
        for step in range(3):
            writer.step(step, {"loss/0": np.float32(1.0), "var/w": np.full(2, step, np.float32)})
        writer.close()
    return [str(tmp_path / "one"), str(tmp_path / "other")]


def on_a_terminal(arguments):
    """Runs `parity` with a terminal for its output; returns the exit code and all that was written there."""
    ours, its = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    process = subprocess.Popen(
        [sys.executable, "-m", "parity.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        env={**kept, "TERM": "xterm", "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
    )
    os.close(its)
    written = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # a terminal ends so, once nobody holds its other side
            break
        if not part:
            break
        written += part
    os.close(ours)
    return process.wait(timeout=60), written.decode()


def test_a_terminal_gets_colours_and_progress_and_a_pipe_gets_neither(two_traces):
    code, shown = on_a_terminal(["compare", *two_traces])
    assert code == 0
    assert "\x1b[" in shown
    assert "judge steps" in shown
    done = subprocess.run(
        [sys.executable, "-m", "parity.cli", "compare", *two_traces],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_quiet_shows_the_verdict_alone_on_a_terminal_too(two_traces):
    code, shown = on_a_terminal(["compare", "--quiet", *two_traces])
    assert code == 0
    assert "judge steps" not in shown
    assert shown.count("\n") == 1


def test_verbose_says_more(two_traces, capsys):
    main(["compare", *two_traces])
    usual = capsys.readouterr().out
    main(["compare", "--verbose", *two_traces])
    assert "Worst tensors" not in usual
    assert "Worst tensors of level float32" in capsys.readouterr().out


def test_quiet_and_verbose_exclude_each_other(capsys):
    parser = argparse.ArgumentParser()
    add_amount(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--quiet", "--verbose"])
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "compare", "replay", "bless"])
def test_every_verb_that_reports_takes_them_and_the_files_of_a_report(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    shown = capsys.readouterr().out
    assert "--quiet" in shown
    assert "--verbose" in shown
    assert ("--strict" in shown) == (verb != "bless")
    assert verb == "bless" or all(
        f"--{name} " in shown for name in ("html", "json", "junit", "markdown", "tensorboard")
    )


def test_what_planted_bugs_showed_is_one_line_where_little_is_asked_for(capsys):
    show_power(Power([], 5, 0), quiet=True)
    assert capsys.readouterr().out == (
        "0 of 0 planted bugs found, 0 called by their name; 0 false alarms in 5 clean repeats\n"
    )
