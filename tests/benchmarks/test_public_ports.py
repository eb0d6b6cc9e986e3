"""The script that ports public scripts: what it takes for which verdict, and that its manifest is whole."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest
import tomllib

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = tomllib.loads((BENCHMARKS / "public_ports.toml").read_text(encoding="utf-8"))["script"]
KEYS = {"name", "kind", "repository", "commit", "command"}
OPTIONAL = {"folder", "data", "edits", "stand_ins", "python2"}


@pytest.fixture
def ports(monkeypatch):
    """The script, found for one test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("public_ports")
    monkeypatch.delitem(sys.modules, "public_ports")


@pytest.fixture
def script(tmp_path):
    """A script of one line in a checkout, and how it is listed."""
    (tmp_path / "sources" / "owner+name").mkdir(parents=True)
    (tmp_path / "sources" / "owner+name" / "train.py").write_text("size = 1024\n")
    edit = {"file": "train.py", "line": 1, "find": "1024", "replace": "8"}
    return {"name": "x", "kind": "net", "repository": "owner/name", "command": ["train.py"], "edits": [edit]}


def ported(ports, script, tmp_path, monkeypatch, *codes, text="a port\n"):
    """The outcome where the recorder, then `parity port` exit with these codes and write what they do."""
    left = list(codes)

    def run(command, place, log):
        log.write_text("parity: expected more, got less.\n")
        out = Path(command[command.index("--out") + 1])
        out.mkdir()
        if "port" in command and text:
            (out / "port.py").write_text(text)
        return left.pop(0)

    monkeypatch.setattr(ports, "_run", run)
    outcome = ports.port(script, tmp_path / "sources", tmp_path / "work", sys.executable)
    assert not left
    return outcome


@pytest.mark.parametrize(
    ("code", "text", "verdict"),
    [
        (0, "a port\n", "same"),
        (1, "a port\n", "different"),
        (2, "", "refused"),
        (2, "a port\n", "not judged"),
        (3, "a port\n", "incomplete"),
        (-1, "a port\n", "crashed"),
    ],
)
def test_what_is_written_and_could_not_be_judged_is_not_refused(
    ports, script, tmp_path, monkeypatch, code, text, verdict
):
    outcome = ported(ports, script, tmp_path, monkeypatch, 0, code, text=text)
    assert (outcome.verdict, outcome.lines) == (verdict, len(text.splitlines()))
    assert outcome.reasons == ([] if code == 0 else ["parity: expected more, got less."])
    assert (tmp_path / "work/x/checkout/train.py").read_text() == "size = 8\n"


def test_a_script_that_failed_is_recorded_anew_and_one_that_is_recorded_is_not(ports, script, tmp_path, monkeypatch):
    assert ported(ports, script, tmp_path, monkeypatch, -1).verdict == "not recorded"
    assert ported(ports, script, tmp_path, monkeypatch, 0, 0).verdict == "same"
    assert ported(ports, script, tmp_path, monkeypatch, 0).verdict == "same"


@pytest.mark.parametrize(("line", "find"), [(1, "512"), (9, "1024")])
def test_a_checkout_of_another_commit_is_said_and_not_recorded(ports, script, tmp_path, monkeypatch, line, find):
    script["edits"][0].update(line=line, find=find)
    outcome = ported(ports, script, tmp_path, monkeypatch)
    assert outcome.verdict == "not recorded"
    assert f"expected '{find}' once in line {line}" in outcome.reasons[0]


def test_the_manifest_names_each_script_once_its_commit_and_what_is_there():
    names = [script["name"] for script in SCRIPTS]
    assert len(names) == len(set(names)) >= 13
    tree = ast.parse((BENCHMARKS / "public" / "data.py").read_text(encoding="utf-8"))
    makers = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    stand_ins = {path.name for path in (BENCHMARKS / "public" / "stand_ins").iterdir() if path.suffix == ".py"}
    for script in SCRIPTS:
        assert set(script) >= KEYS and set(script) <= KEYS | OPTIONAL, script["name"]
        assert re.fullmatch("[0-9a-f]{40}", script["commit"])
        assert set(script.get("data", [])) <= makers
        assert set(script.get("stand_ins", {}).values()) <= stand_ins
    assert stand_ins == {each for script in SCRIPTS for each in script.get("stand_ins", {}).values()}
