"""Exercises to program: a right answer passes, each wrong one fails and is recognised, and a file that breaks is said to."""

import inspect
import re
import sys

import numpy as np
import pytest
from lesson_stage import LESSONS

from parity.cli import main
from parity.teach.exercises.catalogue import EXERCISES
from parity.teach.exercises.exercise import Case, Exercise, Wrong, mistake, starter
from parity.teach.exercises.ranks import NoProgress, on_ranks
from parity.teach.lessons import rendered_numbers, rendered_page

HEADER = "from __future__ import annotations\n\nimport numpy as np\n\n\n"
ALL = [pytest.param(number, each, id=f"{number}-{each.name}") for number, many in EXERCISES.items() for each in many]
ALL_WRONG = [
    pytest.param(number, each, wrong, id=f"{number}-{each.name}-{wrong.answer.__name__}")
    for number, many in EXERCISES.items()
    for each in many
    for wrong in each.wrong
]


def source(answer, name):
    """Returns a function as a learner's file would have it, under the name that is asked of it."""
    return re.sub(rf"^def {answer.__name__}\(", f"def {name}(", inspect.getsource(answer))


def answers(number, **instead):
    """Returns a learner's file of right answers, but for those that are named."""
    functions = [source(instead.get(each.name, each.right), each.name) for each in EXERCISES[number]]
    return HEADER + "\n\n".join(functions)


@pytest.fixture
def check(tmp_path, capfd):
    def run(number, text, *words):
        file = tmp_path / "mine.py"
        file.write_text(text, encoding="utf-8")
        code = main(["teach", str(number), "--check", str(file), *words])
        return code, capfd.readouterr()

    return run


@pytest.mark.parametrize(("number", "exercise"), ALL)
def test_the_right_answer_passes_on_the_lesson_s_numbers(number, exercise):
    assert mistake(exercise, exercise.right, rendered_numbers(number)) == ""
    assert len(exercise.wrong) >= 5
    assert all(re.fullmatch(r"[A-Z].*[^.]", each.advice) for each in exercise.wrong)


@pytest.mark.parametrize(("number", "exercise", "wrong"), ALL_WRONG)
def test_a_wrong_answer_fails_and_is_told_what_to_do(number, exercise, wrong):
    space = {}
    exec(HEADER + source(wrong.answer, exercise.name), space)
    line = mistake(exercise, space[exercise.name], rendered_numbers(number))
    assert re.fullmatch(rf"{exercise.name}, [^\n]+: expected [^\n]+, got [^\n]+\. {re.escape(wrong.advice)}\.", line)
    assert len(line) <= 400


@pytest.mark.parametrize(("number", "exercise"), ALL)
def test_an_answer_that_is_wrong_in_no_known_way_gets_the_exercise_s_advice(number, exercise):
    assert mistake(exercise, lambda *arguments: None, rendered_numbers(number)).endswith(f". {exercise.advice}.")
    starting = {}
    exec(starter([exercise]), starting)
    assert ", got None, nothing is returned. " in mistake(
        exercise, starting[exercise.name], rendered_numbers(number)
    ) or (
        exercise.name
        in ("train", "moments", "ring_all_reduce", "split", "serve", "mixed_step", "buckets", "learning_rate")
    )


@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.slow) if n > 2 else n for n in EXERCISES])
def test_the_command_passes_right_answers_and_fails_a_wrong_one(number, check):
    code, printed = check(number, answers(number))
    names = [each.name for each in EXERCISES[number]]
    assert (code, printed.out, printed.err) == (0, f"right: {', '.join(names)}\n", "")
    last = EXERCISES[number][-1]
    code, printed = check(number, answers(number, **{last.name: last.wrong[0].answer}))
    assert code == 1
    *before, line = printed.out.splitlines()
    assert before == ([f"right: {', '.join(names[:-1])}"] if names[:-1] else [])
    assert line.startswith(f"wrong: {last.name}, ") and line.endswith(f"{last.wrong[0].advice}.")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\n", "split: expected such a function in mine.py, got none. Begin with the lesson's."),
        (
            "def split(batch):\n  return (\n",
            "mine.py: expected a file that can be imported, got SyntaxError (line 2): ",
        ),
        (
            "import nothing_of_this_name\n",
            "got ModuleNotFoundError (line 1 of mine.py): No module named 'nothing_of_this_name'. Run",
        ),
        (
            "raise SystemExit(3)\n",
            "mine.py: expected a file that can be imported, got SystemExit (line 1 of mine.py): 3. Run it",
        ),
        (
            "def split(batch, towers):\n    return 1 / 0\n",
            "split, 8 examples over 2: expected a result, got ZeroDivisionError (line 2 of mine.py): division by zero. Cut",
        ),
        ("def split(batch):\n    return batch\n", "takes 1 positional argument but 2 were given. Cut"),
        ("import os\nos._exit(7)\n", "mine.py: expected answers, got a process that ended."),
        (
            "print('noise')\ndef split(batch, towers):\n    print('more')\n    return None\n",
            "split, 8 examples over 2: expected a list of 2, piece 0 to piece 1, got None, nothing is returned. Cut",
        ),
    ],
    ids=["no function", "syntax", "import", "exit", "exception", "signature", "death", "prints"],
)
def test_a_file_that_breaks_is_wrong_in_one_line(text, line, check):
    code, printed = check(1, text)
    assert code == 1
    assert printed.out.startswith("wrong: ") and printed.out.count("\n") == 1
    assert line in printed.out
    assert printed.err == ""


def test_a_file_that_does_not_end_is_ended(check):
    code, printed = check(1, "def split(batch, towers):\n    while True:\n        pass\n", "--timeout", "5")
    assert (code, printed.out) == (
        1,
        "wrong: mine.py: expected answers, got nothing within 5 s; it was ended. Look for an endless loop, "
        "or allow more with --timeout.\n",
    )


def test_what_cannot_be_checked_is_said_in_one_line(tmp_path, capsys):
    assert main(["teach", "6", "--check", __file__]) == 2
    those = ", ".join(map(str, EXERCISES))
    assert capsys.readouterr().err == (
        f"parity: teach: expected a lesson with an exercise for --check, got 6. These have one: {those}.\n"
    )
    missing = tmp_path / "none.py"
    assert main(["teach", "1", "--check", str(missing)]) == 2
    assert capsys.readouterr().err == (
        f"parity: teach: expected a Python file for --check, got {missing}. Write it, and name it.\n"
    )
    assert main(["teach", "99", "--check", __file__]) == 2
    assert f"expected a lesson from 1 to {len(LESSONS)}, got 99" in capsys.readouterr().err


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_has_the_text_of_its_exercise(number):
    text, page = LESSONS[number].source("text.md"), rendered_page(number).read_text(encoding="utf-8")
    assert ("{{ exercise }}" in text) == ("## To program" in text) == (number in EXERCISES)
    for each in EXERCISES.get(number, ()):
        assert f"def {each.name}(" in page and f"parity teach {number} --check mine.py" in page


def test_checking_needs_neither_framework():
    import subprocess

    program = (
        "import sys; import parity.teach.exercises.child, parity.teach.exercises.check; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow')))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_ranks_add_up_and_broadcast_and_their_bytes_are_counted():
    def be(rank):
        rank.send(np.ones(rank.rank + 1))
        return rank.recv().size, rank.all_reduce(np.array(rank.rank)), rank.broadcast(np.array(7 + rank.rank))

    results = on_ranks(be, 3)
    assert [tuple(map(int, each)) for each in results.values] == [(3, 3, 7), (1, 3, 7), (2, 3, 7)]
    assert results.sent == [8, 16, 24]


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda rank: rank.recv(), NoProgress, "all wait, rank 0 in recv, rank 1 in recv"),
        (lambda rank: rank.rank or rank.all_reduce(1), NoProgress, "all wait, rank 0 in all_reduce"),
        (lambda rank: rank.recv() if rank.rank else 1 / 0, ZeroDivisionError, "division by zero"),
    ],
    ids=["all receive", "one stays away", "one fails"],
)
def test_ranks_that_wait_for_each_other_or_fail_end(function, error, words):
    with pytest.raises(error, match=words):
        on_ranks(function, 2)


def double(x):
    """Returns twice x."""
    return 2 * x


@pytest.mark.parametrize(
    ("expected", "answer", "line"),
    [
        (np.arange(3.0), lambda x: np.arange(3.0) * (1 + 9e-10), ""),
        (
            np.arange(3.0),
            lambda x: np.arange(3.0) * (1 + 2e-9),
            "double, a case: expected 0, 1, 2, got 0, 1.000000002, 2.000000004.",
        ),
        (np.arange(9.0), lambda x: np.arange(9.0) + 1, "expected 0, 1, 2, 3, 4, 5 …, got 1, 2, 3, 4, 5, 6 …. Think"),
        (np.arange(9.0), lambda x: np.r_[np.arange(8.0), 9.0], "expected … 6, 7, 8, got … 6, 7, 9. Think"),
        (np.array(True), lambda x: False, "expected True, got False"),
        (np.ones(2), lambda x: "words", "expected 1, 1, got a str"),
        (np.ones(2), lambda x: [[1], [1, 2]], "expected 1, 1, got a list of 2"),
        ([np.ones(1)] * 2, lambda x: [[1.0], [2.0]], "expected item 1 to be 1, got 2"),
        ({"a": np.ones(1), "b": np.ones(1)}, lambda x: 5, "expected a and b, a tuple, got 5"),
        ({"a": np.ones(1), "b": np.ones(1)}, lambda x: ([1], [np.nan]), "expected b to be 1, got nan"),
    ],
)
def test_a_difference_is_said_with_what_was_expected_and_what_came(expected, answer, line):
    cases = [Case("a case", lambda f: f(1), expected)]
    exercise = Exercise(double, lambda numbers: cases, "Think again", [Wrong(lambda x: np.full(2, 7.0), "Not seven")])
    found = mistake(exercise, answer, {})
    assert line in found and bool(found) == bool(line)


def test_a_wrong_answer_that_fits_all_cases_is_named_before_one_that_fits_the_first():
    cases = [Case("one", lambda f: f(1), np.array(2)), Case("two", lambda f: f(2), np.array(4))]
    wrong = [Wrong(lambda x: 1, "Constant"), Wrong(lambda x: x, "Not doubled")]
    exercise = Exercise(double, lambda numbers: cases, "Think again", wrong)
    assert mistake(exercise, lambda x: x, {}) == "double, one: expected 2, got 1. Not doubled."
    assert mistake(exercise, lambda x: 1, {}) == "double, one: expected 2, got 1. Constant."
