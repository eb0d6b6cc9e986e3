"""The commands that run a case, on sides made of arrays: what they start, what they print, and their exit codes."""

import contextlib
import json
import subprocess
import sys

import pytest
from support.made_sides import CASE, Habits, made_case, made_sides

from parity.cli import main
from parity.experiment.power import PROBES
from parity.trace import Trace

PLAIN = Habits(backwards=True)
RUN = ("run", "--levels", "1")


class Opened(BaseException):
    """Ends a command where it opens its sides, whatever the command makes of errors."""


def opened_by(monkeypatch, open_sides):
    """Has every command open its sides by a function; `run` imports less before it does than the others."""
    for where in ("parity.worker.launch", "parity.experiment"):
        monkeypatch.setattr(f"{where}.open_sides", open_sides)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Returns a function that gives a command the made case; returns code, output, sides and what they were opened with."""
    monkeypatch.delenv("PARITY_TF_PYTHON", raising=False)

    def give(verb, *words, port=PLAIN, text=CASE):
        case, sides, opened = tmp_path / "case", made_sides(tmp_path, None, port), []
        made_case(case, text)

        @contextlib.contextmanager
        def open_sides(*asked):
            opened.append(asked)
            if asked[3:] and not asked[3]:
                sides.tf = sides.data = None
            yield sides

        opened_by(monkeypatch, open_sides)
        code = main([verb, str(case), *map(str, words)])
        return code, capsys.readouterr().out, sides, opened

    return give


@pytest.mark.parametrize(
    ("port", "code", "verdict"),
    [(PLAIN, 0, "same"), (Habits(backwards=True, loss=1.5), 1, "different")],
)
def test_a_case_is_run_and_the_exit_code_is_its_verdicts(tmp_path, command, port, code, verdict):
    found, printed, sides, opened = command(*RUN, "--json", tmp_path / "result.json", port=port)
    assert (found, json.loads((tmp_path / "result.json").read_text())["verdict"]) == (code, verdict)
    assert verdict in printed and opened == [(None, 300.0, None, True)]
    # Level 1 alone: no run under perturbation. Each side is lost with any other.
    assert not [name for name in sides.tf.runs if name.startswith(("ulp", "order", "drawn"))]
    assert [len(side.companions) for side in sides.started] == [2, 2, 2]


@pytest.mark.parametrize(
    ("words", "variable", "text", "python"),
    [
        (("--tf-python", "typed"), "shell", '[tf]\npython = "own"', "typed"),
        ((), "shell", '[tf]\npython = "own"', "shell"),
        ((), None, '[tf]\npython = "own"', "own"),
        ((), None, "[tf]", None),
    ],
)
@pytest.mark.parametrize("verb", ["run", "bless", "map"])
def test_the_interpreter_is_the_one_that_is_named_nearest_to_the_user(
    tmp_path, monkeypatch, verb, words, variable, text, python
):
    made_case(tmp_path / "case", CASE.replace("[tf]", text))
    monkeypatch.delenv("PARITY_TF_PYTHON", raising=False)
    if variable:
        monkeypatch.setenv("PARITY_TF_PYTHON", variable)

    def open_sides(named, *more):
        raise Opened(named)

    opened_by(monkeypatch, open_sides)
    with pytest.raises(Opened) as opened:
        main([verb, str(tmp_path / "case"), *words])
    assert opened.value.args == (python,)


def test_what_is_typed_stands_for_what_the_case_says(tmp_path, command):
    out = tmp_path / "kept"
    code, printed, sides, opened = command(*RUN, "--steps", 2, "--timeout", 9, "--out", out, "--quiet", "--strict")
    assert (code, printed.count("\n"), opened) == (0, 1, [(None, 9.0, out, True)])
    assert printed.startswith("verdict: same  made")
    assert [asked["steps"] for request, asked in sides.data.asked if request == "batches"] == [2]
    assert list(Trace(out / "tf" / "float64").step_numbers) == [0, 1]


def test_level_4_is_that_of_the_options(command):
    _, _, sides, _ = command("run", "--levels", "1,4", "--opt-level", "O2", "--half-dtype", "bfloat16")
    mixed = [asked["mixed"] for request, asked in sides.torch.asked if request == "prepare" and asked["mixed"]]
    assert mixed[0] == {"opt_level": "O2", "half_dtype": "bfloat16"}


def test_what_would_be_found_is_tried_on_a_right_port_alone(monkeypatch, command):
    monkeypatch.setattr("parity.experiment.power.PROBES", PROBES[-2:])
    code, printed, sides, _ = command(*RUN, "--prove")
    # The net keeps a moving statistic, so that a bug of it is planted; Adam's is not.
    planted = [asked["case"]["model"] for request, asked in sides.torch.asked if request == "prepare"]
    assert code == 0 and planted.count("mutant:Model") == 2
    assert PROBES[-1].words in printed
    _, printed, sides, _ = command(*RUN, "--prove", port=Habits(backwards=True, loss=1.5))
    assert "--prove: nothing is planted in a case whose verdict is not same" in printed
    assert "mutant:Model" not in [asked["case"]["model"] for what, asked in sides.torch.asked if what == "prepare"]


def test_bugs_cannot_be_planted_beside_a_golden_trace(tmp_path, command, capsys):
    code = main([*RUN, str(tmp_path), "--prove", "--golden", str(tmp_path)])
    assert code == 2
    assert "--prove: expected live TensorFlow, got --golden" in capsys.readouterr().err


def test_a_blessed_case_is_kept_beside_it_and_checked_without_its_reference(tmp_path, command):
    golden = tmp_path / "case" / "golden"
    code, printed, sides, opened = command("bless", "--steps", 3)
    assert (code, opened) == (0, [(None,)])
    assert f"golden trace: {golden}, 0." in printed
    assert f"parity run {tmp_path / 'case'} --golden {golden} --steps 3" in printed
    assert [len(side.companions) for side in sides.started] == [2, 2, 2]
    code, _, _, opened = command(*RUN, "--golden", golden, "--steps", 3)
    assert (code, opened) == (0, [(None, 300.0, None, False)])
    code, printed, _, _ = command("bless", "--out", tmp_path / "other", "--quiet")
    assert (code, printed.count("\n")) == (0, 1) and (tmp_path / "other" / "golden.json").is_file()


def test_a_port_that_differs_is_not_blessed(tmp_path, command):
    code, printed, _, _ = command("bless", port=Habits(backwards=True, loss=1.5))
    assert code == 1 and printed.endswith("nothing is kept: only a port that is proven can be blessed\n")
    assert not (tmp_path / "case" / "golden").exists()
    code, printed, _, _ = command("bless", "--quiet", port=Habits(backwards=True, loss=1.5))
    assert code == 1 and "nothing is kept" not in printed


def test_the_mapping_of_a_case_is_printed_as_its_tables(command):
    code, printed, sides, _ = command("map")
    assert code == 0 and "dense/kernel" in printed
    assert '"dense/kernel" = ' in printed and "dense.weight" in printed
    # It costs no step of either side.
    assert not sides.tf.runs and not sides.torch.runs


def test_a_difference_is_left_as_scripts_that_show_it_alone(tmp_path, command):
    folder = tmp_path / "shown"
    code, printed, _, _ = command(*RUN, "--reproduce", folder, port=Habits(backwards=True, loss=1.5))
    assert code == 1 and "reproduced by: python " in printed
    assert {path.suffix for path in folder.iterdir()} >= {".py"}
    code, printed, _, _ = command(*RUN, "--reproduce", folder, "--quiet", port=Habits(backwards=True, loss=1.5))
    assert "reproduced by" not in printed
    code, printed, _, _ = command(*RUN, "--reproduce", folder)
    assert code == 0 and "reproduced by" not in printed and not folder.exists()


def test_a_run_opens_its_sides_before_it_imports_what_judges_them(tmp_path):
    # The frameworks take seconds to import, on the sides' own cores: what is imported here meanwhile costs nothing.
    made_case(tmp_path / "case", CASE)
    program = (
        "import sys\n"
        "import parity.worker.launch as launch\n"
        "from parity.cli.main import main\n"
        "class Opened(BaseException): pass\n"
        "def open_sides(*asked):\n"
        "    heavy = ('judge', 'diagnose', 'locate', 'experiment', 'report')\n"
        "    print(sorted(name for name in sys.modules if name.startswith(tuple(f'parity.{each}' for each in heavy))))\n"
        "    raise Opened\n"
        "launch.open_sides = open_sides\n"
        "try:\n"
        f"    main(['run', {str(tmp_path / 'case')!r}])\n"
        "except Opened:\n"
        "    print('opened')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-2:] == ["[]", "opened"], done.stdout + done.stderr
