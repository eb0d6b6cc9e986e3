"""The recipe for continuous integration, docs/ci.md: what the page shows are the files, and these run line by line."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
MARKED = re.search(r"## In the port's own tests\n.*?```python\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.mark.parametrize("name", ["parity.yml", "check.sh"])
def test_the_page_shows_the_files(name):
    assert f"\n{(CI / name).read_text(encoding='utf-8')}```\n" in PAGE


def steps():
    return yaml.safe_load((CI / "parity.yml").read_text(encoding="utf-8"))["jobs"]["parity"]["steps"]


def test_the_workflow_uploads_what_its_steps_write_whatever_they_find():
    *_, last = steps()
    assert last["if"] == "${{ !cancelled() }}"
    commands = " ".join(step["run"] for step in steps() if "run" in step)
    for pattern in last["with"]["path"].split():
        assert pattern.replace("parity-*.html", "parity.html") in commands


def test_the_workflow_starts_only_actions_of_github_itself():
    assert {step["uses"].partition("@")[0] for step in steps() if "uses" in step} == {
        "actions/checkout",
        "actions/setup-python",
        "actions/upload-artifact",
    }


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with two ports of one script, a golden trace each, and a test: as the page has them made."""
    folder = tmp_path_factory.mktemp("repository")
    square = folder / "cases" / "square"
    shutil.copytree(ROOT / "tests" / "cases" / "square", square, ignore=shutil.ignore_patterns("__pycache__"))
    done = shell(folder, "parity bless cases/square --steps 2 --quiet", folder)
    assert done.returncode == 0, done.stderr
    shutil.copytree(square, folder / "cases" / "wide", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "test_port.py").write_text(MARKED, encoding="utf-8")
    return folder


def shell(folder, command, home):
    """Runs a command as a step of a job does, with `pip` and `parity` of this environment."""
    tools = home / ".tools"
    tools.mkdir(exist_ok=True)
    for name, text in (
        ("parity", f'exec "{sys.executable}" -m parity.cli "$@"'),
        ("python", f'exec "{sys.executable}" "$@"'),
        ("pip", f'echo "$@" >> "{tools}/installed"'),  # nothing is installed from a network
    ):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    environment |= {"PATH": f"{tools}{os.pathsep}{environment['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"GITHUB_STEP_SUMMARY": str(tools / "summary.md"), "GITHUB_WORKSPACE": str(folder)}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_every_line_of_the_workflow_runs_and_a_port_that_is_right_passes(repository):
    for step in steps():
        if "run" in step:
            done = shell(repository, step["run"], repository)
            assert done.returncode == 0, done.stdout + done.stderr
    assert "tower-parity[torch]" in (repository / ".tools" / "installed").read_text()
    result = json.loads((repository / "parity.json").read_text())
    assert {name: case["verdict"] for name, case in result["cases"].items()} == {
        "cases-square": "same",
        "cases-wide": "same",
    }
    assert len(list(ElementTree.parse(repository / "parity.xml").getroot())) == 2
    assert (repository / "parity-cases-square.html").is_file() and "✅" in (
        repository / ".tools" / "summary.md"
    ).read_text()
    assert ElementTree.parse(repository / "tests.xml").getroot()[0].get("tests") == "1"


@pytest.mark.slow
def test_a_port_that_differs_fails_the_step_and_is_annotated_at_its_line(repository, tmp_path):
    shutil.copytree(repository, tmp_path / "broken", ignore=shutil.ignore_patterns(".tools", "parity*", "tests.xml"))
    port = tmp_path / "broken" / "cases" / "wide" / "model_torch.py"
    source = port.read_text()
    port.write_text(source.replace("self.second(first).tanh()", "self.second(first).sigmoid()"))
    [command] = [step["run"] for step in steps() if "parity run" in step.get("run", "")]
    done = shell(tmp_path / "broken", command, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    line = next(place for place, text in enumerate(source.splitlines(), 1) if "self.second(first)" in text)
    assert (
        f"::error file=cases/wide/model_torch.py,line={line},title=parity%3A different::step 0, act/0/second"
        in done.stdout
    )
    assert "2 cases: 1 same, 1 different; " in done.stdout
    assert "cases-wide" in (tmp_path / ".tools" / "summary.md").read_text()
    plain = shell(tmp_path / "broken", f"bash {CI / 'check.sh'}", tmp_path)
    assert plain.returncode == 1 and "a port differs: parity.md says where and why" in plain.stdout
