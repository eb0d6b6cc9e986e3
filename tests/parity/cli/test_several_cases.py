"""`parity run` of several cases: a line for each, one summary, one exit code, one report; a stand-in runs them here."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from parity.cli import main
from parity.cli.batch import Outcome, command, label_of, processes, worst_code
from parity.cli.main import build_parser

ROOT = Path(__file__).parents[3]
# In the place of `parity`: ends as the name of its case says, and writes the reports that it is asked for.
STAND_IN = """
import json, os, sys, time
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
case = os.path.basename(words[1])
code = {"same": 0, "broken": 2, "crash": 4}.get(case.split("_")[0], 1)
open("started", "a").write(" ".join(words) + chr(10))
if case.startswith("slow"):
    time.sleep(60)
first = {"step": 3, "key": "grad/w|x", "lines": {"candidate": {"file": "port.py", "line": 7}, "reference": None}}
result = {"verdict": {0: "same", 2: "incomparable"}.get(code, "different"), "error": None, "causes": []}
if code == 1:
    result.update(first_difference=first, causes=[{"title": "sum instead of mean", "fix": "sum: 100%, too"}])
if code == 2:
    result.update(error={"message": "case: expected more. Do it."})
if code != 4:
    open(option("--json"), "w").write(json.dumps(result))
    open(option("--markdown"), "w").write("### of " + case)
    open(option("--junit"), "w").write('<testsuites><testsuite name="x" tests="4"><testcase/></testsuite></testsuites>')
print("verdict: " + result["verdict"])
print("a traceback", file=sys.stderr)
sys.exit(code)
"""
COMMAND = STAND_IN.replace("{", "{{").replace("}", "}}")  # it is a format


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Returns a function that runs cases by their names, and options; returns the code, and what is printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "COMMAND", COMMAND)

    def give(*words):
        for word in words:
            if word.startswith("cases/"):
                (tmp_path / word).mkdir(parents=True, exist_ok=True)
                (tmp_path / word / "port.py").touch()
        code = main(["run", *words])
        return code, capsys.readouterr().out

    return give


def started():
    return [line.split() for line in Path("started").read_text().splitlines()]


def test_each_case_has_a_line_and_all_have_a_summary_and_the_exit_code_that_weighs_most(run):
    code, printed = run("cases/same", "cases/other", "cases/broken")
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert code == 1
    assert lines[0].startswith("same cases-same ") and lines[0].endswith(" s")
    assert lines[1].startswith("different cases-other ")
    assert lines[1].endswith(" step 3, grad/w|x: sum instead of mean")
    assert lines[2].startswith("incomparable cases-broken ") and lines[2].endswith(" case: expected more. Do it.")
    assert lines[3].startswith("3 cases: 1 same, 1 different, 1 incomparable; ") and lines[3].endswith("exit code 1")
    assert run("cases/same", "cases/same_too", "--quiet")[1].startswith("2 cases: 2 same; ")
    assert run("cases/same", "cases/broken")[0] == 2
    assert run("cases/other", "cases/crash")[0] == 4


def test_one_file_of_each_kind_says_it_of_all_cases(run, tmp_path):
    run("cases/same", "cases/other", "cases/crash", "--json", "r.json", "--junit", "r.xml", "--markdown", "r.md")
    result = json.loads(Path("r.json").read_text())
    assert (result["verdict"], result["exit_code"]) == ("different", 4)
    assert {name: case["verdict"] for name, case in result["cases"].items()} == {
        "cases-same": "same",
        "cases-other": "different",
        "cases-crash": "incomparable",
    }
    assert result["cases"]["cases-crash"]["error"]["message"] == "a traceback"
    suites = ElementTree.parse("r.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["parity cases-same", "parity cases-other", "parity cases-crash"]
    assert suites[2].get("errors") == "1" and suites[2][0][0].get("message") == "a traceback"
    text = Path("r.md").read_text()
    assert "| cases-same | ✅ same |  |\n" in text
    assert "| cases-other | ❌ different | step 3, grad/w\\|x: sum instead of mean |\n" in text
    assert "<details><summary>cases-other</summary>\n\n### of other\n\n</details>" in text and "of same" not in text


def test_json_on_standard_output_is_alone_there(tmp_path):
    program = f"from parity.cli.batch import processes; processes.COMMAND = {COMMAND!r}\n"
    program += "import sys; from parity.cli import main; sys.exit(main(['run', 'same', 'same_too', '--json', '-']))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"] == "same"
    assert "2 cases: 2 same" in done.stderr


def test_after_a_failure_no_more_are_started_and_that_is_said(run):
    code, printed = run("cases/other", "cases/same", "cases/same_too", "--fail-fast")
    assert code == 1 and len(started()) == 1
    assert printed.count("not run ") == 2 and "1 different, 2 not run; " in printed
    Path("started").unlink()
    run("cases/same", "cases/other", "--fail-fast")
    assert len(started()) == 2


def test_options_are_each_cases_and_places_are_its_own(run):
    words = "--levels 1 --steps 2 --strict --timeout 60 --golden golden --out out --html page.html --reproduce small"
    run("cases/same", "cases/other", *words.split(), "-j", "2")
    for words in started():
        name = words[1].rpartition("/")[2]
        assert words[:3] == ["run", f"cases/{name}", "--quiet"]
        options = dict(zip(words, [*words[1:], ""], strict=True))
        assert (options["--levels"], options["--steps"], options["--timeout"]) == ("function", "2", "60.0")
        assert "--strict" in words and "--prove" not in words and "--annotations" not in words
        assert options["--golden"] == f"cases/{name}/golden"
        assert options["--out"] == f"out/cases-{name}" and options["--reproduce"] == f"small/cases-{name}"
        assert options["--html"] == f"page-cases-{name}.html"
        build_parser().parse_args(words)  # which ends the test where it is no command


def test_no_option_is_lost_among_several_cases():
    known = {"case", "jobs", "fail_fast", "levels", "golden", "html", "annotations", "quiet", "verbose", "verb", "run"}
    known.add("since")  # of one case alone, and refused of several
    known |= {*command.VALUES, *command.FLAGS, *command.FOLDERS, *command.REPORTS_OF_ALL}
    assert {*vars(build_parser().parse_args(["run", "a", "b"]))} == known
    arguments = build_parser().parse_args(["run", "a", "b", "--budget", "3GB", "--quick", "--opt-level", "O1"])
    words = command.words_of(arguments, Path("a"), "a")
    again = build_parser().parse_args(words)
    assert (again.budget, again.quick, again.opt_level) == (3 * 10**9, True, "O1")


def test_what_differs_is_annotated_at_the_line_of_the_port_or_else_at_the_case(run, monkeypatch):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    _, printed = run("cases/same", "cases/other", "cases/broken", "--annotations")
    marks = [line for line in printed.splitlines() if line.startswith("::")]
    assert marks == [
        "::error file=cases/other/port.py,line=7,title=parity%3A different::"
        "step 3, grad/w|x: sum instead of mean.%0AFix: sum: 100%25, too",
        "::error file=cases/broken/case.toml,line=1,title=parity%3A incomparable::case: expected more. Do it.",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cases/same", "cases/same"], "run: expected each case once, got 'cases-same' twice. Leave one out."),
        (
            ["cases/same", "cases/b", "--html", "-"],
            "--html: expected a file, got standard output for the pages of several cases. Name a file.",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(run, words, message, capsys):
    assert main(["run", *words]) == 2
    assert f"parity: {message}\n" in capsys.readouterr().err
    assert not Path("started").exists()


def test_a_command_that_is_ended_ends_its_cases(tmp_path):
    program = f"from parity.cli.batch import processes; processes.COMMAND = {COMMAND!r}\n"
    program += "import sys; from parity.cli import main; sys.exit(main(['run', 'slow', 'slow_too', '-j', '2']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not (tmp_path / "started").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    process.stderr.close()


def test_names_and_weights_of_cases():
    assert label_of(Path("cases/a")) == "cases-a" and label_of(Path("../x/case.toml")) == "x-case"
    codes = [(0, 0), (2, 0), (1, 2), (4, 1), (130, 4)]
    for heavy, light in codes:
        assert worst_code([Outcome("a", light, {}), Outcome("b", heavy, {}), Outcome("c", None, {})]) == heavy
    assert worst_code([Outcome("a", -9, {}), Outcome("b", 1, {})]) == 4  # killed
