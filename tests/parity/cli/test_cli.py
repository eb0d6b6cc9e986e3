"""The command line: its words, its help, its exit codes."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from parity import exit_codes
from parity.cli import main, record
from parity.cli.errors import CommandError
from parity.cli.output import claim_file, claim_reproduction, claimed_folder
from parity.exit_codes import MEANINGS, TABLE, ExitCode, lacks_memory
from parity.judge.result import Level, Result
from parity.trace import TraceWriter

ROOT = Path(__file__).parents[3]
VERBS = ("run", "scan", "record", "port", "replay", "compare", "map", "show", "bless", "explain", "teach", "doctor")


def ended(capsys, *words) -> tuple[int, str, str]:
    try:
        code = main(list(words))
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS)])
def test_help_loads_no_framework_and_nothing_heavy(words):
    program = (
        "import sys, parity.cli\n"
        f"try:\n    parity.cli.main({[*words, '--help']!r})\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(sorted({'numpy', 'torch', 'tensorflow', 'rich', 'pydantic', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_help_names_every_verb_its_use_and_the_exit_codes(capsys):
    code, printed, _ = ended(capsys, "--help")
    assert code == 0
    for verb in VERBS:
        assert f"\n    {verb} " in printed
    text = " ".join(printed.split())
    assert f"Exit codes: {TABLE}." in text


def test_run_offers_what_is_promised(capsys):
    printed = ended(capsys, "run", "--help")[1]
    for option in (
        "--levels",
        "--steps",
        "--towers",
        "--precision",
        "--opt-level",
        "--half-dtype",
        "--out",
        "--json",
        "--html",
        "--junit",
        "--markdown",
        "--tf-python",
        "--timeout",
        "--quiet",
        "--verbose",
    ):
        assert f"\n  {option}" in printed


@pytest.mark.parametrize(("typed", "meant"), [("comapre", "compare"), ("replya", "replay"), ("docter", "doctor")])
def test_a_misspelt_verb_is_answered_with_the_one_it_resembles(capsys, typed, meant):
    code, _, errors = ended(capsys, typed, "anything")
    assert code == 2
    assert errors.splitlines()[-1].endswith(f". Did you mean '{meant}'?")
    assert "Did you mean" not in ended(capsys, "xyzzy")[2]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--levels", "5"], "expected levels among 1, 2, 3, 4, function, float32, trajectory, mixed, got '5'"),
        (["--opt-level", "02"], "invalid choice: '02' (choose from"),
        (["--precision", "float16"], "invalid choice: 'float16' (choose from"),
        (["--timeout", "0"], "expected a positive number of seconds, got '0'"),
        (["--timeout", "nan"], "expected a positive number of seconds, got 'nan'"),
        (["--steps", "few"], "invalid int value: 'few'"),
        (["--quiet", "--verbose"], "not allowed with argument --quiet"),
    ],
)
def test_a_wrong_option_is_exit_code_2_with_what_was_expected(capsys, words, complaint):
    code, _, errors = ended(capsys, "run", "case", *words)
    assert code == 2
    assert complaint in errors.splitlines()[-1]


def test_a_replay_s_time_out_is_checked_likewise(capsys):
    code, _, errors = ended(capsys, "replay", "trace", "--timeout", "-1")
    assert code == 2
    assert errors.splitlines()[-1].endswith("expected a positive number of seconds, got '-1'")


def test_steps_and_towers_are_checked_like_the_cases_own(capsys):
    words = ["run", str(ROOT / "examples" / "digits_mlp"), "--steps", "0", "--towers", "3"]
    code, _, errors = ended(capsys, *words)
    assert code == 2
    assert "--steps: steps: expected " in errors
    assert "batch_size: expected a multiple of towers = 3" in errors


def test_out_is_not_taken_where_it_holds_other_files(capsys, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, errors = ended(capsys, "run", str(ROOT / "examples" / "digits_mlp"), "--out", str(tmp_path))
    assert code == 2
    assert f"--out: expected {tmp_path} to be empty or the folder of an earlier run, got 'thesis.tex' in it." in errors
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_json_is_refused_before_the_run_where_it_cannot_be_written(capsys, tmp_path):
    code, _, errors = ended(capsys, "run", str(ROOT / "examples" / "digits_mlp"), "--json", str(tmp_path))
    assert code == 2
    assert f"--json: expected a file that can be written at {tmp_path}, got: a folder. Name another." in errors
    assert errors.splitlines()[-1] == "verdict: incomparable"


def test_bless_refuses_a_place_for_its_trace_before_it_runs(capsys, tmp_path):
    example = str(ROOT / "examples" / "digits_mlp")
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, errors = ended(capsys, "bless", example, "--out", str(tmp_path))
    assert code == 2
    assert errors == (
        f"parity: golden: expected {tmp_path} to be empty or a golden trace, got other files. Name another.\n"
    )
    code, _, errors = ended(capsys, "bless", example, "--out", str(tmp_path / "thesis.tex"))
    assert code == 2
    assert errors == f"parity: golden: expected a folder at {tmp_path / 'thesis.tex'}, got a file. Name another.\n"


def test_a_reader_that_leaves_early_is_no_verdict(tmp_path):
    TraceWriter(str(tmp_path), {"package": "test"}, {f"fact{n}": "x" * 100 for n in range(2000)}).close()
    program = [sys.executable, "-m", "parity.cli", "show", str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout.readline().startswith(str(tmp_path).encode())
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 2


def test_a_name_that_the_terminal_cannot_write_is_written_otherwise(tmp_path):
    folder = tmp_path / "f\xfcr"
    TraceWriter(str(folder), {"package": "test"}).close()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "parity.cli", "show", str(folder)]
    done = subprocess.run(program, capture_output=True, cwd=ROOT, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"f\\xfcr: 0 steps, complete" in done.stdout


NO_VERDICT = {
    "map": ["map", "nowhere", "nowhere"],
    "map, an option mistyped": ["map", "one", "other", "--writ"],
    "show": ["show", "nowhere"],
    "bless": ["bless", "nowhere"],
    "teach": ["teach", "99"],
    "explain": ["explain", "no_such_cause"],
    "teach, a file that is a folder": ["teach", "1", "--html", "/"],
    "record": ["record", "--", "nowhere.py"],
    "replay --init": ["replay", "nowhere", "--init", "skeleton"],
    "run, an option mistyped": ["run", "case", "--level"],
}


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in NO_VERDICT.items()])
def test_a_command_that_judges_nothing_fails_without_a_verdict(capsys, words):
    code, printed, errors = ended(capsys, *words)
    assert (code, printed) == (2, "")
    assert "expected" in errors.splitlines()[-1]
    assert "verdict" not in errors


@pytest.mark.parametrize("words", [["run", "nowhere"], ["compare", "one", "other"], ["replay", "nowhere"]])
def test_a_command_that_judges_says_that_nothing_could_be_compared(capsys, words):
    code, printed, errors = ended(capsys, *words)
    assert (code, printed) == (2, "")
    assert errors.splitlines()[-1] == "verdict: incomparable"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["show", "one"],
            ["parity: stopped before it was done; every process of the run has been ended. Run it again."],
        ),
        (
            ["compare", "one", "other"],
            [
                "parity: stopped before there was a verdict; every process of the run has been ended. Run it again.",
                "verdict: incomparable",
            ],
        ),
    ],
)
def test_a_command_that_is_stopped_says_so_in_its_own_words(capsys, monkeypatch, words, said):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("parity.trace.Trace.__init__", stopped)
    code, _, errors = ended(capsys, *words)
    assert (code, errors.splitlines()) == (130, said)


@pytest.fixture
def decided(monkeypatch):
    """Lets `parity compare` find what it is told to find."""

    def decide(verdict):
        level = Level("float32", verdict, "made by hand")
        later = {name: Level(name, "not_run", "") for name in ("function", "trajectory", "mixed")}
        result = Result({**later, "float32": level}, {}, {})
        monkeypatch.setattr("parity.experiment.compare.compare_traces", lambda *arguments: result)

    return decide


@pytest.mark.parametrize(("verdict", "code"), [("same", 0), ("different", 1), ("incomparable", 2)])
def test_the_exit_code_is_the_verdicts(capsys, decided, verdict, code):
    decided(verdict)
    found, printed, _ = ended(capsys, "compare", "one", "other", "--quiet")
    assert found == code
    assert printed == f"verdict: {verdict}  one and other  (not run: function, trajectory, mixed)\n"


def test_a_bug_of_ours_is_no_difference(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def broken(*arguments):
        raise KeyError("oops")

    monkeypatch.setattr("parity.experiment.compare.compare_traces", broken)
    code, _, errors = ended(capsys, "compare", "one", "other", "--json", str(tmp_path / "r.json"))
    assert code == 4
    assert "parity: expected to finish, got KeyError: 'oops'. This is a bug here: report it." in errors
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "incomparable"
    (file,) = tmp_path.glob("parity-error-*.txt")
    assert f"parity: its traceback is in {file}\n" in errors
    assert "in broken" in file.read_text()
    assert file.read_text().endswith("KeyError: 'oops'\n")


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_lists_the_exit_codes(capsys, verb):
    text = " ".join(ended(capsys, verb, "--help")[1].split())
    assert text.endswith(
        "Exit codes: 0 same, or done; 1 different; 2 could not compare, or could not do what was asked, as with a wrong "
        "option; 3 done in part: what is left is named; 4 a bug here, with its traceback in a file; 130 interrupted, by "
        "Ctrl-C or a cancelled job."
    )


def test_every_exit_code_has_a_meaning():
    assert {code.value for code in MEANINGS} == {0, 1, 2, 3, 4, 130}
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("streams", "program", "code"),
    [
        (">&- 2>&-", "pass", 0),
        (">/dev/full", "print('text')", 2),
        (">&- 2>&-", "raise CommandError('refused')", 2),
        ("2>/dev/full", "raise CommandError('refused')", 2),
        (">/dev/full 2>/dev/full", "raise CommandError('refused')", 2),
        ("2>/dev/full", "raise KeyError('a bug')", 4),
        (">&- 2>&-", "raise KeyError('a bug')", 4),
        ("2>/dev/full", "raise KeyboardInterrupt", 130),
        (">/dev/full 2>/dev/full", "raise KeyboardInterrupt", 130),
        (">/dev/full 2>/dev/full", "return 1", 1),
    ],
)
def test_streams_that_cannot_be_written_to_do_not_say_different(tmp_path, streams, program, code):
    verb = tmp_path / "verb.py"
    verb.write_text(
        "import sys\nfrom parity.cli import main, show\nfrom parity.cli.errors import CommandError\n"
        f"def run(arguments):\n    {program}\n    return 0\n"
        "it = sys.modules['parity.cli.main']\n"
        "it.COMMANDS[:] = [each._replace(run=run) if each.name == 'show' else each for each in it.COMMANDS]\n"
        "sys.exit(main(['show', 'trace']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    # What is printed is buffered then, and Python writes it once more at its end.
    environment.pop("PYTHONUNBUFFERED", None)
    words = ["bash", "-c", f"exec {sys.executable} {verb} {streams}"]
    assert subprocess.run(words, env=environment, check=False, capture_output=True, timeout=60).returncode == code


def test_a_reader_that_leaves_early_gets_no_complaint(tmp_path):
    program = (
        "import sys\nfrom parity.cli import main\nimport parity.experiment.compare as it\n"
        "from parity.judge.result import Level, Result\n"
        "names = ('function', 'float32', 'trajectory', 'mixed')\n"
        "result = Result({n: Level(n, 'same', 'x' * 100000) for n in names}, {}, {})\n"
        "it.compare_traces = lambda *arguments: result\n"
        "sys.exit(main(['compare', 'one', 'other']))"
    )
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout.readline().startswith("verdict: same")
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 2
    assert errors == ""


def test_doctor_tells_an_interpreter_that_does_not_run(capsys):
    code, printed, _ = ended(capsys, "doctor", "--tf-python", "/none")
    assert code == 2
    assert "\nTensorFlow side            no  /none does not run\n" in printed
    assert printed.endswith("`parity run` needs what the first two lines lack.\n")


def test_doctor_gives_commands_in_one_line_each_however_narrow_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, printed, _ = ended(capsys, "doctor", "--tf-python", "/none")
    assert "\nTensorFlow side: pip install tensorflow tf_keras, or --tf-python PATH\n" in printed, (
        "a command is cut into lines"
    )


def test_doctor_finds_the_frameworks_of_this_interpreter(capsys, monkeypatch):
    monkeypatch.delenv("PARITY_TF_PYTHON", raising=False)
    code, printed, _ = ended(capsys, "doctor")
    assert code == 0
    assert "torch side                 yes torch 2." in printed
    assert "TensorFlow side            yes tensorflow 2." in printed
    assert printed.endswith("\n\n`parity run` works here.\n")


def test_out_is_emptied_of_what_an_earlier_run_left(tmp_path):
    for name in ("tf", "torch", "logs", "planted", "torch-rounded", "without-combine", "perturbed-replica-0"):
        (tmp_path / "out" / name / "free").mkdir(parents=True)
        (tmp_path / "out" / name / "free" / "trace.json").write_text('{"complete": true}')
    with claimed_folder(tmp_path / "out") as out:
        assert out == tmp_path / "out"
        assert list(out.iterdir()) == []


def test_out_is_one_runs_at_a_time(tmp_path):
    with claimed_folder(tmp_path / "out") as out:
        (out / "tf").mkdir()
        with pytest.raises(CommandError) as error, claimed_folder(out):
            pass
        assert str(error.value) == (
            f"--out: expected {out} for this run alone, got another run that writes to it. "
            "Name another folder, or wait until that has ended."
        )
        assert (out / "tf").is_dir()
    with claimed_folder(out):
        assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["replay", "{trace}", "--torch", "port:Model", "--loss", "port:loss"], ["port", "{trace}"]]
)
def test_a_folder_of_a_replay_or_a_port_is_one_runs_at_a_time(tmp_path, capsys, monkeypatch, words):
    from parity.port.source import program

    trace, out = tmp_path / "trace", tmp_path / "out"
    monkeypatch.setattr(program, "port_of", lambda *arguments: None)
    with claimed_folder(out):
        code, printed, errors = ended(capsys, *[word.format(trace=trace) for word in words], "--out", str(out))
    assert (code, printed) == (2, "")
    assert f"parity: --out: expected {out} for this run alone, got another run that writes to it." in errors
    assert list(out.iterdir()) == []


def lacking(*arguments):
    try:
        raise MemoryError
    except MemoryError:
        raise ValueError("seek of closed file") from None


def test_a_lack_of_memory_is_said_where_there_is_none_to_say_it_with(capfd, monkeypatch):
    monkeypatch.setattr(importlib.import_module("parity.cli.main"), "_failed", lacking)
    assert main(["show", "no such trace"]) == 2
    assert capfd.readouterr().err == "parity: expected memory to go on with, got none. Free some and run again.\n"


@pytest.mark.parametrize(
    ("error", "lacks"),
    [(MemoryError(), True), (OSError(12, "x"), True), (OSError(28, "x"), False), (ValueError(), False)],
)
def test_a_lack_of_memory_is_known_by_what_an_error_came_from(error, lacks):
    later = ValueError("later")
    later.__context__ = error
    assert [lacks_memory(each) for each in (error, later)] == [lacks, lacks]


TAKE = "import sys; from parity.trace import Ownership; Ownership(sys.argv[1])"


def test_a_recording_has_its_folder_from_before_its_script_starts(tmp_path, capsys, monkeypatch):
    (tmp_path / "script.py").write_text("")
    taken, out = [], str(tmp_path / "out")

    def started(command, log, environment):
        for variables in (os.environ, environment):
            words = [sys.executable, "-c", TAKE, out]
            done = subprocess.run(
                words, env={**variables, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False
            )
            taken.append(done.returncode)
        assert os.path.isdir(environment["PARITY_SIDE_FOLDER"])
        return 0

    monkeypatch.setattr(record, "_record_script", started)
    assert ended(capsys, "record", "--out", out, "--", str(tmp_path / "script.py"))[0] == 0
    assert taken == [1, 0]  # another's, and that of the script's own process


def test_the_folder_of_reproduce_is_emptied_of_an_earlier_reproduction_and_of_nothing_else(tmp_path):
    for name in ("with_tensorflow.py", "with_torch.py", "state_tf.npz", "counters.npz"):
        (tmp_path / name).write_text("old")
    assert claim_reproduction(tmp_path) == tmp_path
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.py").write_text("mine")
    with pytest.raises(
        CommandError, match=r"^--reproduce: expected .* to be empty .* got 'mine\.py' in it\. Name another"
    ):
        claim_reproduction(tmp_path)
    assert (tmp_path / "mine.py").read_text() == "mine"


def test_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CommandError, match=r"--out: expected a folder at .*, got: File exists\. Name another\."):
        claimed_folder(tmp_path / "out").__enter__()


def test_an_old_result_stays_until_a_new_one_takes_its_place(tmp_path):
    for name in ("result.json", "result.checks.npz"):
        (tmp_path / name).write_text("old")
    assert claim_file("--json", tmp_path / "result.json") == tmp_path / "result.json"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "result.json": "old",
        "result.checks.npz": "old",
    }


@pytest.mark.parametrize("option", [["--weights", "port.safetensors"], ["--step", "0"]])
def test_map_refuses_an_option_that_only_write_heeds_before_anything_starts(option, tmp_path, capsys):
    (tmp_path / "case.toml").write_text("")
    assert main(["map", str(tmp_path), *option]) == 2
    assert f"{option[0]}: expected --write DIR too, got none." in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["error return without exception set", "<function f> returned NULL without setting an exception"]
)
@pytest.mark.parametrize("short", [True, False])
def test_what_the_interpreter_cannot_say_is_a_lack_of_memory_where_there_is_none(monkeypatch, text, short):
    monkeypatch.setattr(exit_codes, "SHORT", 1 << 62 if short else 1 << 12)
    assert lacks_memory(SystemError(text)) == short
    assert not lacks_memory(SystemError("bad argument to internal function"))
