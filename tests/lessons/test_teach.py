"""`parity teach`: what it lists, shows, writes and refuses."""

import contextlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lesson_stage import LESSONS

from parity.cli import main
from parity.teach.lessons import TeachError, lessons_folder
from parity.teach.play import open_players, play
from parity.teach.show import code, exponent, lesson_page, number, pause, percent, show_lesson

ROOT = Path(__file__).parents[2]


def test_without_a_number_it_lists_the_lessons(capsys):
    assert main(["teach"]) == 0
    printed = capsys.readouterr().out
    for lesson in LESSONS.values():
        assert f"\n{lesson.number} " in printed
        assert lesson.title in printed
    assert "`parity teach 1` runs the first" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], f"teach: expected a lesson from 1 to {len(LESSONS)}, got 99. `parity teach` lists them."),
        (["--html", "x.html"], "teach: expected the number of a lesson for --html, got none. Name one."),
        (["1", "--open"], "teach: expected --html FILE for --open, got none. Name the file to write and open."),
        (["--lessons", "/"], "teach: expected lessons in /, got none. Name the folder examples/lessons of a clone."),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line(words, message, capsys):
    assert main(["teach", *words]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"parity: {message}\n")


def test_an_installed_package_says_where_lessons_are(monkeypatch, tmp_path):
    monkeypatch.setattr("parity.teach.lessons.CHECKOUT", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TeachError, match=r"got a package without them. Run in a clone, or name the folder: --lessons"):
        lessons_folder()
    (tmp_path / "examples" / "lessons" / "01_x").mkdir(parents=True)
    (tmp_path / "examples" / "lessons" / "01_x" / "text.md").write_text("# X\n\nAbout it.\n")
    assert lessons_folder() == tmp_path / "examples" / "lessons"


def test_a_lesson_is_shown_step_by_step_and_can_be_left(stage, capsys):
    played = stage.play(1)
    show_lesson(played, lambda: False)
    first = capsys.readouterr().out
    assert "1 of 5: Split" in first
    assert "Combine" not in first
    show_lesson(played, lambda: True)
    whole = capsys.readouterr().out
    assert whole.startswith("Lesson 1: What a tower is\nwith tensorflow ")
    assert "4 of 5: Apply" in whole
    assert "What this run has shown" in whole
    assert all(f"holds {sentence[:40]}" in whole for sentence in played.claims)


def test_it_waits_for_nobody_where_nobody_sits(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: pytest.fail("it waited"))
    assert pause()


def test_at_a_terminal_it_waits_for_enter_and_ends_at_control_d():
    program = "from parity.teach.show import pause; print(pause(), pause())"
    ours, theirs = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, close_fds=True
        )
        os.close(theirs)
        os.write(ours, b"\n\x04")
        shown = b""
        with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
            while part := os.read(ours, 4096):
                shown += part
        assert child.wait(timeout=60) == 0
    finally:
        os.close(ours)
    assert b"Enter goes on, Ctrl-D ends" in shown
    assert b"True False" in shown


def test_the_page_is_written_whole_and_loads_nothing(stage):
    played = stage.play(1)
    page = lesson_page(played, 12)
    assert "lesson 1 of 12" in page
    assert "default-src 'none'; style-src 'sha256-" in page
    assert 'src="' not in page
    assert page.count("<section") == page.count("</section>")
    for sentence in played.claims:
        assert sentence.replace("'", "&#39;") in page


@pytest.fixture
def small_lesson(tmp_path):
    """A lesson of its own, whose part and claim a test fills in; returns a function that writes it."""

    def write(part, findings):
        folder = tmp_path / "lessons" / "01_small"
        folder.mkdir(parents=True)
        shutil.copy(LESSONS[1].folder / "diagram.js", folder)
        (folder / "text.md").write_text("# Small <b>\n\nAbout & so on.\n\n## One\n\n{{ torch.x|n }} <i>raw</i>\n")
        (folder / "torch_part.py").write_text(f"import torch\n\n\ndef measure(**arguments):\n    {part}\n")
        (folder / "lesson.py").write_text(f"ARGUMENTS = {{}}\n\n\ndef findings(torch):\n    return {findings}\n")
        return tmp_path / "lessons"

    return write


def test_html_writes_the_page_and_says_so(small_lesson, tmp_path, capsys):
    lessons = small_lesson("return {'x': torch.ones(2)}", "{'torch': torch}, {'it is one': torch['x'] == [1.0, 1.0]}")
    page = tmp_path / "pages" / "one.html"
    assert main(["teach", "1", "--lessons", str(lessons), "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}: lesson 1, Small <b>; 1 claims hold\n"
    text = page.read_text(encoding="utf-8")
    assert "<p>1, 1 &lt;i&gt;raw&lt;/i&gt;</p>" in text
    assert "<h1>Small &lt;b&gt;</h1>" in text


@pytest.mark.parametrize(("found", "said"), [(True, ""), (False, "no browser was found here: open the file in one\n")])
def test_open_opens_the_page_or_says_that_it_cannot(found, said, stage, monkeypatch, tmp_path, capsys):
    page, opened = tmp_path / "one.html", []
    monkeypatch.setattr("parity.teach.play.play", lambda lesson, players, tell: stage.play(lesson.number))
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or found)
    assert main(["teach", "1", "--html", str(page), "--open"]) == 0
    assert capsys.readouterr().out == f"{page}: lesson 1, What a tower is; 5 claims hold\n{said}"
    assert opened == [page.as_uri()]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_out_is_a_positive_number(seconds, capsys):
    with pytest.raises(SystemExit):
        main(["teach", "1", "--timeout", seconds])
    assert f"expected a positive number of seconds, got {seconds!r}" in capsys.readouterr().err


def test_an_interpreter_without_the_framework_is_told_what_to_install(tmp_path, capsys):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    assert main(["teach", "1", "--tf-python", str(bare)]) == 2
    shown = capsys.readouterr().err
    assert "No module named 'tensorflow'. Install it there (pip install tensorflow tf_keras)" in " ".join(shown.split())


def test_a_claim_that_does_not_hold_ends_the_lesson(small_lesson, capsys):
    lessons = small_lesson("return {'x': torch.ones(2)}", "{'torch': torch}, {'it is two': torch['x'] == [2.0, 2.0]}")
    assert main(["teach", "1", "--lessons", str(lessons)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "parity: lesson 1: expected to find that it is two; this run's numbers say otherwise. "
        "Compare the frameworks' versions with constraints.txt, and report it.\n"
    )


def test_a_part_that_fails_shows_its_traceback(small_lesson, capsys):
    lessons = small_lesson("raise RuntimeError('no such luck')", "{}, {}")
    assert main(["teach", "1", "--lessons", str(lessons)]) == 2
    shown = capsys.readouterr().err
    assert "torch_part.py" in shown
    assert "no such luck" in shown


def test_a_part_that_hangs_is_ended(small_lesson):
    from parity.teach.lessons import find_lessons
    from parity.worker.failures import SideFailed

    lessons = find_lessons(small_lesson("__import__('time').sleep(600)", "{}, {}"))
    with (
        open_players(None, silence=4.0) as players,
        pytest.raises(SideFailed, match=r"expected a heartbeat within 4 s of 'measure'"),
    ):
        play(lessons[0], players)


def test_code_is_quoted_from_the_file_that_ran():
    source = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    assert code(source, "x.py", ["two"]) == "```python\ndef two():\n    return 2\n```"
    with pytest.raises(TeachError, match=r"text: expected a function three in x.py, got none. Fix the lesson's text."):
        code(source, "x.py", ["three"])


def test_numbers_are_shown_in_a_few_digits():
    assert number([0.123456789, 2, 1e-9]) == "0.12346, 2, 1e-09"
    assert number(1234567) == "1,234,567"
    assert (exponent(0.0), exponent(1.234e-16)) == ("0", "1.2e-16")
    assert percent(0.125) == "12.5 %"
