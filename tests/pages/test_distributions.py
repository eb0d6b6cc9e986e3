"""Wheel and source distribution: what they hold, and that their commands run where there is no framework."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.machine import TF1_PACKAGES

from parity import __version__
from parity.trace import TraceWriter

ROOT = Path(__file__).parents[2]
BUILD = "from setuptools import build_meta as backend; backend.build_{}({!r})"


def test_the_page_of_the_package_index_leads_nowhere_that_is_not_there():
    text = (ROOT / "PYPI.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://)[^)]*\)|<img|^\[.*?\]:", text, re.MULTILINE) == []
    assert 'readme = "PYPI.md"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_citation_names_the_version_of_the_package():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_version_of_the_constraints_and_of_what_they_need_has_hashes():
    pinned, hashed = pins("constraints.txt"), pins("constraints.hashes.txt")
    assert {name: version for name, (version, _) in pinned.items()} == {
        name: version for name, (version, _) in hashed.items() if name in pinned
    }
    assert [name for name, (_, hashes) in hashed.items() if not hashes] == []
    extras = set(distribution("tower-parity").metadata.get_all("Provides-Extra"))
    needed = required(distribution("tower-parity").requires, set(), extras)
    assert sorted({canonicalize_name(name) for name in needed} - set(hashed)) == []


def pins(file):
    """Returns of each package that a file pins, by its canonical name, the version and the hashes."""
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"^([\w.-]+)==(\S+)(.*)$", text, re.MULTILINE)
    return {
        canonicalize_name(name): (version, re.findall(r"--hash=sha256:([0-9a-f]{64})\b", rest))
        for name, version, rest in found
    }


def test_the_image_with_tensorflow_1_has_what_the_tests_use_and_all_that_the_recorder_imports(tmp_path):
    text = (ROOT / "docker" / "tf1.Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^RUN pip install .*?((?: '[^']+')+)$", text, re.MULTILINE)[1] == "".join(
        f" '{each}'" for each in TF1_PACKAGES
    )
    copied = re.findall(r"^COPY (\S+) /opt/tower-parity/(\S+)$", text, re.MULTILINE)
    for source, place in copied:
        shutil.copytree(ROOT / source, tmp_path / place, ignore=shutil.ignore_patterns("__pycache__"))
    module = re.search(r'ENTRYPOINT \["python", "-m", "([\w.]+)"\]', text)[1]
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import {module}, runpy; print({module}.__file__); "
    program += f"sys.argv = ['x', '--help']; runpy.run_module({module!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout.startswith(str(tmp_path)) and "--skip" in done.stdout, done.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The files of a source distribution, made of what is committed or would be, and the wheel that is made of it."""
    folder = tmp_path_factory.mktemp("distributions")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")
    files = {name for name in files if name and (ROOT / name).is_file()}
    for name in files:
        (folder / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "checkout" / name)
    build("sdist", folder / "checkout", folder)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    unpacked = folder / f"tower_parity-{__version__}"
    build("wheel", unpacked, folder)
    [wheel] = folder.glob("*.whl")
    return files, unpacked, wheel


def build(kind, source, into):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD.format(kind, str(into))],
        cwd=source, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_the_source_distribution_is_the_checkout(distributions):
    files, unpacked, _ = distributions
    held = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert sorted(files - held) == []
    assert {name for name in held - files if not name.startswith(("tower_parity.egg-info/", "build/"))} == {
        "PKG-INFO",
        "setup.cfg",
    }


@pytest.mark.slow
def test_the_wheel_holds_the_packages_their_data_and_nothing_else(distributions):
    files, _, wheel = distributions
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {name for name in files if name.split("/")[0] in ("parity", "tf_towers", "torch_ddp")}
    assert held == wanted
    assert {f"{package}/py.typed" for package in ("parity", "tf_towers", "torch_ddp")} <= held


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    """An environment with the wheel, what it requires, and nothing else: no framework, and not this checkout."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", f"--python={folder / 'bin' / 'python'}", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", distributions[2]], check=True, timeout=300)
    [packages] = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(distributions[2]) as wheel:
        [metadata] = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA")]
    wanted = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    for name in required(wanted, set()):
        for top in {str(path).split("/")[0] for path in distribution(name).files if not str(path).startswith("..")}:
            if not (packages / top).exists() and top != "__pycache__":
                (packages / top).symlink_to(distribution(name).locate_file(top))
    return folder


def required(lines, names, extras=frozenset()):
    """Returns the names of what requirements need, and what that needs; of extras those that are named."""
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        meant = marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})
        if meant and requirement.name not in names:
            names.add(requirement.name)
            required(distribution(requirement.name).requires or [], names)
    return names


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    shutil.copy(ROOT / "examples" / "legacy_towers" / "train.py", folder)
    for name in ("one", "two"):
        writer = TraceWriter(
            folder / name, {"package": "made"}, {"towers": 1, "framework": "none"}, {"w": {"kind": "weight"}}
        )
        writer.init({"var/w": np.ones(3)})
        writer.step(0, {"loss/0": np.array(1.0), "grad/w": np.full(3, 0.5), "var/w": np.full(3, 0.5)})
        writer.close()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ("parity --version", 0, f"tower-parity {__version__}"),
        ("python -m parity --version", 0, f"tower-parity {__version__}"),
        ("parity teach", 0, "Ring all-reduce"),
        (
            "parity teach 1 --html {out}/lesson.html",
            0,
            "lesson 1, What a tower is; as it was measured with tensorflow ",
        ),
        ("parity show {traces}/one", 0, "grad/w"),
        (
            "parity compare {traces}/one {traces}/two --html {out}/report.html --json {out}/report.json",
            0,
            "verdict: same",
        ),
        ("parity scan {traces}/train.py", 0, "train.py"),
        ("parity explain sum_instead_of_mean", 0, "sum_instead_of_mean"),
        ("parity completion bash", 0, "_shtab_parity"),
        ("parity doctor", 2, "torch missing"),
        ("python -c 'import torch'", 1, ""),
        ("python -c 'import tensorflow'", 1, ""),
    ],
)
def test_a_command_of_the_wheel_runs_without_any_framework(words, code, printed, installed, traces, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{installed / 'bin'}{os.pathsep}{environment['PATH']}"
    command = words.format(traces=traces, out=tmp_path)
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert printed in done.stdout
    for page in re.findall(r"--html (\S+)", command):
        assert Path(page).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
