"""What a scan writes, for people, CI and programs: nothing of the source in it is more than text."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

from parity.cli import main
from parity.scan.output import annotations
from parity.scan.output.html import as_page
from parity.scan.output.sarif import as_sarif
from parity.scan.output.terminal import source_lines
from parity.scan.result import Place
from parity.scan.rule_pages import rule_pages, write_rule_pages
from parity.scan.rules import SCAN_RULES
from parity.scan.scan import scan

ROOT = Path(__file__).parents[3]
BASE = (Path(__file__).parent / "fixtures" / "base.txt").read_text(encoding="utf-8")
SUMMED = BASE.replace("tf.reduce_mean(tf.stack([g for g, _ in pairs]), 0)", "tf.add_n([g for g, _ in pairs])")


@pytest.fixture
def script(tmp_path):
    def written(source=SUMMED, name="train.py"):
        path = tmp_path / name
        path.write_text(source, encoding="utf-8", errors="surrogateescape")
        return path

    return written


def ended(capsys, *words):
    code = main(["scan", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_finding_has_its_line_a_caret_and_what_to_do(capsys, script):
    code, out, _ = ended(capsys, script())
    assert code == 1
    assert re.search(r"train.py:18:5: error TP101 gradients-summed: ", out)
    assert "    for pairs in zip(*tower_grads):\n    ^~~~" in out
    assert "    under DDP: DistributedDataParallel averages" in out
    assert "    port: Multiply each rank's loss by the world size" in out
    assert "-- " + str(script()) + " --num_gpus=2" in out
    assert out.endswith("1 file, 49 lines: 1 place that builds towers; 1 error, 0 warnings, 0 notes\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), 1), (("--fail-on", "error"), 1), (("--fail-on", "never"), 0), (("--quiet",), 1)],
)
def test_the_exit_code_depends_on_the_level(capsys, script, words, expected):
    assert ended(capsys, script(), *words)[0] == expected


def test_notes_fail_only_where_they_are_asked_to(capsys, script):
    path = script(BASE.replace("[train_op, mean_loss]", "[train_op, loss]"))
    assert [ended(capsys, path, "--fail-on", level)[0] for level in ("error", "warning", "note")] == [0, 0, 1]


def test_what_cannot_be_read_is_exit_code_2(capsys, script, tmp_path):
    path = script("x = 1\n<<<<<<< HEAD\n", "broken.py")
    code, out, _ = ended(capsys, path, tmp_path / "missing.py")
    assert code == 2
    assert "broken.py:2: not read: is not all Python, neither 2 nor 3" in out
    assert "missing.py: not read: is not there" in out


def test_json_on_standard_output_is_json_alone(capsys, script):
    program = "import sys; from parity.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "scan", str(script()), "--json", "-"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    found = json.loads(done.stdout)
    assert done.returncode == 1
    (finding,) = found["findings"]
    assert (finding["rule"], finding["line"], finding["hazards"]) == ("TP101", 18, ["sum_not_mean"])
    assert found["effort"][0]["size"] == "S"
    assert found["counts"] == {"note": 0, "warning": 0, "error": 1}


def test_a_comment_leaves_a_finding_out(capsys, script):
    line = "    for pairs in zip(*tower_grads):"
    for comment, expected in (
        (f"{line}  # parity: ignore[TP101]", 0),
        (f"{line}  # parity: ignore", 0),
        (f"    # parity: ignore[TP102, TP101]\n{line}", 0),
        (f"{line}  # parity: ignore[TP102]", 1),
        (f"    x = 1  # parity: ignore[TP101]\n{line}", 1),
    ):
        assert ended(capsys, script(SUMMED.replace(line, comment)))[0] == expected, comment


def test_a_baseline_leaves_out_what_is_known_wherever_it_moves(capsys, script, tmp_path):
    known = tmp_path / "known.json"
    assert ended(capsys, script(), "--json", known)[0] == 1
    assert ended(capsys, script("# moved\n\n" + SUMMED), "--baseline", known)[0] == 0
    again = SUMMED.replace(
        "def main(_):",
        SUMMED[SUMMED.index("def combine") : SUMMED.index("def main")].replace("combine(", "merge(") + "def main(_):",
    )
    both = again.replace("combine(tower_grads), global_step=step)", "merge(tower_grads), global_step=step)")
    assert ended(capsys, script(both), "--baseline", known)[0] == 0  # the same line of the same file
    assert (
        ended(
            capsys,
            script(SUMMED.replace("for pairs in", "for every in").replace("pairs", "every")),
            "--baseline",
            known,
        )[0]
        == 1
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"findings": [1]}', '{"findings": [{"fingerprint": 3}]}'])
def test_a_baseline_that_is_none_is_refused(capsys, script, tmp_path, text):
    (tmp_path / "known.json").write_text(text)
    code, _, errors = ended(capsys, script(), "--baseline", tmp_path / "known.json")
    assert code == 2
    assert "--baseline: expected what `parity scan --json` wrote at " in errors


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_a_baseline_without_an_end_is_refused_and_not_waited_for(capsys, script, tmp_path, make):
    make(tmp_path / "known.json")
    code, _, errors = ended(capsys, script(), "--baseline", tmp_path / "known.json")
    assert code == 2
    assert "got another file. Write it anew." in errors


def test_sarif_is_as_github_takes_it(script):
    log = as_sarif(scan([script()]))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(SCAN_RULES)
    (result,) = run["results"]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (rule["id"], result["ruleId"], result["level"]) == ("TP101", "TP101", "error")
    assert re.fullmatch(r"[0-9a-f]{24}", result["partialFingerprints"]["parityScan/v1"])
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (18, 5)
    assert region["endColumn"] > region["startColumn"]
    for each in run["tool"]["driver"]["rules"]:
        assert re.match(r"[a-z]+:", each["helpUri"])
        assert each["fullDescription"]["text"]
        assert each["help"]["markdown"].startswith(f"# {each['id']}")
    assert run["invocations"][0]["executionSuccessful"]


TEXT = {"type": "string", "minLength": 1}
MESSAGE = {
    "type": "object",
    "properties": {"text": TEXT, "markdown": TEXT},
    "required": ["text"],
    "additionalProperties": False,
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
NUMBER = {"type": "integer", "minimum": 1}


def _object(required, **properties):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


ARTIFACT = _object(
    ["uri"], uri={**TEXT, "pattern": r"^[\x21-\x7e]+$", "not": {"pattern": r"%(?![0-9A-Fa-f]{2})"}}, uriBaseId=TEXT
)
REGION = _object(
    ["startLine"],
    startLine=NUMBER,
    startColumn=NUMBER,
    endLine=NUMBER,
    endColumn=NUMBER,
    snippet=_object(["text"], text={"type": "string"}),
)
LOCATION = _object(
    ["physicalLocation"], physicalLocation=_object(["artifactLocation"], artifactLocation=ARTIFACT, region=REGION)
)
# Of SARIF 2.1.0 (sections 3.13 to 3.58 of the standard) what `parity scan` writes, with what GitHub requires of it:
# no other names, a message and one location of each result, at most 20 tags, a precision that it knows.
# The OASIS schema itself is not kept here, for its licence; logs of the scan had no error by it (draft 4, 2.1.0).
SARIF = _object(
    ["version", "$schema", "runs"],
    **{"$schema": {**TEXT, "pattern": "sarif-2[.]1[.]0"}, "version": {"const": "2.1.0"}},
    runs={
        "type": "array",
        "minItems": 1,
        "maxItems": 20,
        "items": _object(
            ["tool", "results"],
            tool=_object(
                ["driver"],
                driver=_object(
                    ["name", "rules"],
                    name=TEXT,
                    version=TEXT,
                    semanticVersion={**TEXT, "pattern": r"^\d+[.]\d+[.]\d+"},
                    informationUri={**TEXT, "pattern": "^[a-z]+:"},
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": _object(
                            ["id", "shortDescription", "fullDescription", "help"],
                            id={**TEXT, "maxLength": 255},
                            name={**TEXT, "maxLength": 255},
                            shortDescription=_object(["text"], text={**TEXT, "maxLength": 1024}),
                            fullDescription=_object(["text"], text={**TEXT, "maxLength": 1024}),
                            help=MESSAGE,
                            helpUri={**TEXT, "pattern": "^[a-z]+:"},
                            defaultConfiguration=_object(["level"], level=LEVEL),
                            properties=_object(
                                [],
                                tags={"type": "array", "items": TEXT, "maxItems": 20, "uniqueItems": True},
                                precision={"enum": ["very-high", "high", "medium", "low"]},
                            ),
                        ),
                    },
                    notifications={"type": "array", "items": _object(["id"], id=TEXT, shortDescription=MESSAGE)},
                ),
            ),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            originalUriBaseIds={"type": "object", "additionalProperties": _object([], uri=TEXT, description=MESSAGE)},
            invocations={
                "type": "array",
                "items": _object(
                    ["executionSuccessful"],
                    executionSuccessful={"type": "boolean"},
                    toolExecutionNotifications={
                        "type": "array",
                        "items": _object(
                            ["message"],
                            descriptor=_object(["id"], id=TEXT),
                            level=LEVEL,
                            message=MESSAGE,
                            locations={"type": "array", "items": LOCATION},
                        ),
                    },
                ),
            },
            results={
                "type": "array",
                "maxItems": 25000,
                "items": _object(
                    ["ruleId", "message", "locations", "partialFingerprints"],
                    ruleId=TEXT,
                    ruleIndex={"type": "integer", "minimum": 0},
                    level=LEVEL,
                    message=MESSAGE,
                    locations={"type": "array", "minItems": 1, "maxItems": 1, "items": LOCATION},
                    partialFingerprints={"type": "object", "minProperties": 1, "additionalProperties": TEXT},
                ),
            },
        ),
    },
)


def errors_of_sarif(log):
    return [each.json_path for each in Draft202012Validator(SARIF).iter_errors(json.loads(json.dumps(log)))]


def test_what_is_written_keeps_to_sarif():
    logs = [as_sarif(scan([ROOT / "tests" / "legacy_scripts"])), as_sarif(scan([Path(__file__)]))]
    assert len(logs[0]["runs"][0]["results"]) > 20
    assert [errors_of_sarif(log) for log in logs] == [[], []]


def test_sarif_that_is_none_is_seen(script):
    log = as_sarif(scan([script("x = 1\n<<<<<<< HEAD\n")]))
    assert errors_of_sarif(log) == []
    log["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["level"] = "fatal"
    log["runs"][0]["results"] = [{"ruleId": "TP101", "locations": []}]
    log["runs"][0]["tool"]["driver"]["rules"][0]["properties"]["precision"] = "perfect"
    assert len(errors_of_sarif(log)) == 5


def test_a_relative_path_in_sarif_is_one(script, monkeypatch, tmp_path):
    script(name="a b.py")
    monkeypatch.chdir(tmp_path)
    place = as_sarif(scan([Path("a b.py")]))["runs"][0]["results"][0]["locations"][0]["physicalLocation"][
        "artifactLocation"
    ]
    assert place == {"uri": "a%20b.py", "uriBaseId": "SRCROOT"}


def test_what_was_not_read_is_in_sarif_too(script):
    run = as_sarif(scan([script("x = 1\n<<<<<<< HEAD\n")]))["runs"][0]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    assert not run["invocations"][0]["executionSuccessful"]


def test_junit_has_a_case_for_each_rule(capsys, script, tmp_path):
    ended(capsys, script(), "--junit", tmp_path / "report.xml", "--quiet")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (str(len(SCAN_RULES)), "1", "0")
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == ["TP101 gradients-summed"]


def test_annotations_mark_lines(capsys, script):
    code, out, _ = ended(capsys, script(), "--annotations")
    assert code == 1
    (line,) = out.splitlines()
    assert re.match(r"::error file=[^,:]*train.py,line=18,col=5,title=TP101 [^:]*::the gradients of", line)


@pytest.fixture
def hostile(script):
    line = "            tower_grads.append(grads)"
    getter = 'custom_getter="<script>|`\x1b[31m\u202e@x"'
    new = f"{line}\n            with tf.variable_scope(tf.get_variable_scope(), {getter}):\n                pass"
    name = "a<script>`|%0A::error::\x1b[31m,x.py"
    return scan([script(SUMMED.replace(line, new), name)])


def test_text_of_the_source_is_text_on_the_page(hostile):
    page = as_page(hostile)
    assert {each.rule for each in hostile.findings} == {"TP101", "TP604"}
    assert page.count("<script>") == 1
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page


def test_text_of_the_source_is_text_in_a_terminal(capsys, hostile):
    code, out, _ = ended(capsys, *hostile.roots)
    assert code == 1
    assert not re.search("[\x1b\u202e]", out)
    assert "\\x1b" in out


def test_text_of_the_source_is_text_in_markdown_and_annotations(capsys, hostile, tmp_path):
    ended(capsys, *hostile.roots, "--markdown", tmp_path / "report.md", "--quiet")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "\x1b" not in text
    # Code is text in Markdown as it is; all else is escaped.
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert "<script>" not in prose.replace("\\<", "")
    assert "@x" not in text.replace("@\u200bx", "")
    for line in annotations(hostile):
        assert line.count("::") == 2
        assert "\n" not in line


def test_a_long_line_is_cut_around_what_is_meant():
    text = "x = [" + "1, " * 300 + "here, " + "2, " * 300 + "]"
    column = text.index("here") + 1
    line, caret = source_lines(Place("a.py", 1, column, column + 4, text))
    assert len(line) <= 110
    assert line[caret.index("^") : caret.index("^") + 4] == "here"
    assert caret.strip() == "^~~~"


def test_escapes_move_the_caret():
    text = "\tx\x1b = here"
    column = text.index("here") + 1
    line, caret = source_lines(Place("a.py", 1, column, column + 4, text))
    assert line[caret.index("^") :] == "here"


def test_the_pages_are_the_rules_own_text():
    """Where this fails: `python -m parity.scan.rule_pages docs`."""
    written = rule_pages(ROOT / "docs")
    assert {path: path.read_text(encoding="utf-8") for path in written} == written
    assert set((ROOT / "docs" / "rules").glob("*.md")) == {path for path in written if path.parent.name == "rules"}


def test_pages_of_rules_that_are_gone_are_removed(tmp_path):
    (tmp_path / "rules.md").write_text("# Rules\n\nText.\n\n## Old\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "TP000.md").write_text("old")
    write_rule_pages(tmp_path)
    assert len(list((tmp_path / "rules").iterdir())) == len(SCAN_RULES)
    assert (tmp_path / "rules.md").read_text().startswith("# Rules\n\nText.\n\n## Gradients\n")
