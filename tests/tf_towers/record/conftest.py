"""Runs legacy scripts, bare and recorded, each once for all tests that look at it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.forks import forking

from parity.cli import main
from parity.trace import Trace
from parity.worker import bootstrap

SCRIPTS = Path(__file__).parents[2] / "legacy_scripts"
PORTS = SCRIPTS / "ports"
TIMEOUT = 240
# TensorFlow 2 has its RNN cells and its layers from there.
MORE = {name: {"TF_USE_LEGACY_KERAS": "1"} for name in ("dropout_wrapper", "fused_norm")}


SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}


class Recorded(NamedTuple):
    """What one recorded run left."""

    code: int
    printed: str
    said: str
    out: Path

    @property
    def trace(self) -> Trace:
        return Trace(self.out, whole=False)

    @property
    def hazards(self) -> set[str]:
        return {hazard["name"] for hazard in self.trace.facts["hazards"]}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, **SETTINGS, **more}


def run(python: str, words: list[str], cwd: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python, *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        cwd=cwd,
        env=environment(**more),
        check=False,
        stdin=subprocess.DEVNULL,
    )


def run_bare(python: str, script: Path, *words: str, cwd: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return run(python, [str(script), *words], cwd, **more)


def run_recorded(python: str, script: Path, *words: str, options=("--no-shadow",), cwd: Path, **more: str) -> Recorded:
    out = cwd / f"{script.stem}.trace"
    command = [str(bootstrap.__file__), "tf_towers.record", "--out", str(out), *options, "--", str(script), *words]
    done = run(python, command, cwd, **more)
    return Recorded(done.returncode, done.stdout, done.stderr, out)


def arguments_of_served(python: str, folder: Path) -> list[str]:
    """What has served.py train one step: its checkpoint, of first values, and its batch are left in a folder."""
    random = np.random.RandomState(0)
    np.savez(folder / "in.npz", x=random.randn(6, 4), y=random.randn(6, 2))
    words = ["train", *(str(folder / name) for name in ("model.ckpt", "in.npz", "out.npz")), "float32"]
    script = Path(__file__).with_name("first_checkpoint.py")
    done = run_bare(python, script, str(SCRIPTS / "served.py"), *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return words


@pytest.fixture(scope="session")
def tf_python(tf_python: str) -> Iterator[str]:
    """Both TensorFlows; scripts run in forks, where it is imported: `this_python` starts anew."""
    with forking(tf_python, "tensorflow", **SETTINGS) as python:
        yield python


@pytest.fixture(scope="session")
def recorded(tf_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """Records a script of tests/legacy_scripts by name to its end, once per TensorFlow."""
    known: dict[str, Recorded] = {}

    def record(name: str) -> Recorded:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            saved = str(folder / "saved.npz")
            words = arguments_of_served(tf_python, folder) if name == "served" else []
            known[name] = run_recorded(
                tf_python, SCRIPTS / f"{name}.py", *words, options=(), cwd=folder, SAVE=saved, **MORE.get(name, {})
            )
        return known[name]

    return record


@pytest.fixture
def recorded_here(tf_python: str, tmp_path: Path) -> Callable[[str], Recorded]:
    """Records a script of this folder by name to its end."""
    return lambda name: run_recorded(tf_python, Path(__file__).with_name(f"{name}.py"), options=(), cwd=tmp_path)


@pytest.fixture(scope="session")
def this_python() -> str:
    """TensorFlow 2, in an interpreter that is started anew for each script."""
    return sys.executable


@pytest.fixture
def forked_torch(monkeypatch: pytest.MonkeyPatch, torch_python: str) -> None:
    """The torch side of a replay is a fork."""
    monkeypatch.setattr(sys, "executable", torch_python)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def replayed(monkeypatch, forked_torch, tmp_path):
    """Replays a trace on a port; returns exit code and result."""
    monkeypatch.chdir(PORTS)

    def replay(
        trace: Path, name: str, *losses: str, optimizer: str | None = None, model: str = "Model", levels: str = "1,2"
    ):
        out = tmp_path / "result.json"
        words = ["replay", str(trace), "--torch", f"{name}_torch:{model}", "--map", f"{name}.toml"]
        for loss in losses:
            section, equals, function = loss.rpartition("=")
            words += ["--loss", f"{section}{equals}{name}_torch:{function}"]
        words += ["--optimizer", f"{name}_torch:{optimizer}"] if optimizer else []
        words += ["--levels", levels]
        code = main([*words, "--json", str(out), "--quiet"])
        return code, json.loads(out.read_text())

    return replay
