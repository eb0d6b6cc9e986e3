"""The JSON of a result is as its schema says, and says where it comes from; the schema refuses what is not."""

import copy
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from test_report import RESULTS

from parity import __version__
from parity.case import load_case
from parity.cli import main
from parity.report import write_failure, write_json
from parity.report.html.page import as_html
from parity.report.junit import write_junit
from parity.report.markdown import as_markdown
from parity.report.provenance import digest, files_of, provenance, rows
from parity.trace import TraceWriter

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads(files("parity.report").joinpath("result.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def faults(result):
    return [f"{'/'.join(map(str, fault.path))}: {fault.message}" for fault in VALIDATOR.iter_errors(result)]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_as_the_schema_says(name, tmp_path):
    write_json(RESULTS[name](), tmp_path / "r.json")
    assert faults(json.loads((tmp_path / "r.json").read_text())) == []


def test_a_failure_is_as_the_schema_says(tmp_path):
    write_failure(ValueError("no"), tmp_path / "r.json")
    assert faults(json.loads((tmp_path / "r.json").read_text())) == []


@pytest.fixture
def compared(tmp_path):
    """What `parity compare` writes of two traces that differ."""
    for name, value in (("one", 1.0), ("two", 2.0)):
        writer = TraceWriter(tmp_path / name, {}, {"framework": "none"}, {"w": {"kind": "weight"}})
        writer.init({})
        writer.step(0, {"loss/0": np.array(1.0), "grad/w": np.full(3, value), "var/w": np.ones(3)})
        writer.close()
    words = [str(tmp_path / name) for name in ("one", "two")]
    assert main(["compare", *words, "--json", str(tmp_path / "r.json"), "--quiet"]) == 1
    return json.loads((tmp_path / "r.json").read_text())


def test_what_a_command_writes_is_as_the_schema_says_and_says_where_it_comes_from(compared):
    assert faults(compared) == []
    origin = compared["provenance"]
    assert origin["version"] == __version__ and origin["digest"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", origin["time"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda result: result.pop("verdict"),
        lambda result: result.update(verdict="equal"),
        lambda result: result["format"].update(version=2),
        lambda result: result["provenance"].pop("commit"),
        lambda result: result["first_difference"].update(step="0"),
        lambda result: result["levels"]["function"].pop("compared"),
        lambda result: result["checks"][0].update(worst_multiple="many"),
        lambda result: result["accounting"].update(skipped=-1),
    ],
)
def test_the_schema_refuses_what_is_not_a_result(spoil, compared):
    spoilt = copy.deepcopy(compared)
    spoil(spoilt)
    assert len(faults(spoilt)) >= 1


def git(folder, *words):
    identity = ["-c", "user.name=x", "-c", "user.email=x@x.x"]
    return subprocess.run(
        ["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def test_a_case_is_named_by_its_commit_and_by_the_digest_of_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["parity", "run", "a case", "--json", "x"])
    case = tmp_path / "case"
    case.mkdir()
    for file in (ROOT / "tests" / "cases" / "square").glob("*.*"):
        (case / file.name).write_bytes(file.read_bytes())
    held = files_of(load_case(case), case)
    assert sorted(path.name for path in held) == ["case.toml", "data.py", "model_tf.py", "model_torch.py"]
    assert provenance(tmp_path)["commit"] is None
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    clean = provenance(case, held)
    assert clean["commit"] == git(tmp_path, "rev-parse", "HEAD") and clean["modified"] is False
    assert clean["command"] == "parity run 'a case' --json x"
    (case / "data.py").write_text("other = 1\n")
    changed = provenance(case, held)
    assert changed["modified"] is True and changed["digest"] != clean["digest"]
    assert changed["digest"] == digest(reversed(held))
    told = dict(rows(changed))
    assert told["commit"] == f"{changed['commit'][:12]} and what is not committed"


def test_every_report_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bin/parity", "run", "a case"])
    result = RESULTS["different"]()
    result.provenance = provenance()
    command = result.provenance["command"]
    assert result.provenance["time"] in as_html(result, "x") and "How this report was made" in as_html(result, "x")
    assert as_markdown(result, "x").rstrip().endswith("</sub>") and result.provenance["time"] in as_markdown(
        result, "x"
    )
    write_junit(result, tmp_path / "r.xml", "x")
    assert f'<property name="time" value="{result.provenance["time"]}" />' in (tmp_path / "r.xml").read_text()
    assert command == "parity run 'a case'"
