"""The pages that the package carries for readers without frameworks are those that the lessons give."""

import os
import re

import pytest
from lesson_stage import LESSONS, NUMBERS

from parity.cli import main
from parity.teach.lessons import rendered_lessons, rendered_page
from parity.teach.show import code, lesson_page, script_of, style_of

REFRESH = bool(os.environ.get("PARITY_GOLDEN"))


def blurred(page):
    """Returns a page without the digits that were measured, nor the data that its diagram is drawn from."""
    page = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)
    return re.sub(r"-?\d+([,.]\d+)*(e[-+]?\d+)?(\+\w+)?", "#", page)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_of_the_package_is_what_its_lesson_gives(number, stage):
    made = lesson_page(stage.play(number), len(LESSONS))
    if REFRESH:
        rendered_page(number).write_text(made, encoding="utf-8")
    assert blurred(rendered_page(number).read_text(encoding="utf-8")) == blurred(made)


@pytest.mark.parametrize("number", LESSONS)
def test_a_page_of_the_package_has_the_style_diagram_and_headings_of_today(number):
    lesson, page = LESSONS[number], rendered_page(number).read_text(encoding="utf-8")
    assert style_of() in page and script_of(lesson) in page
    headings = re.findall(r"^## (.+)$", lesson.source("text.md"), re.MULTILINE)
    shown = re.findall(r'<h2 id="step-\d+"><span class="step">\d+</span> (.*?)</h2>', page)
    assert len(shown) == len(headings), (
        "PARITY_GOLDEN=1 python -m pytest tests/lessons/test_rendered_lessons.py -m '' writes it"
    )
    assert "{{" not in page.partition("<script")[0]


def test_the_package_lists_its_pages_as_the_lessons_are():
    listed = [(each.number, each.title, each.about) for each in rendered_lessons()]
    assert listed == [(lesson.number, lesson.title, lesson.about) for lesson in LESSONS.values()]


@pytest.fixture
def without_lessons(monkeypatch, tmp_path):
    """A package that was installed, in a folder that is no clone."""
    monkeypatch.setattr("parity.teach.lessons.CHECKOUT", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("without_lessons")
def test_an_installed_package_lists_its_lessons_and_writes_their_pages(tmp_path, capsys):
    assert main(["teach"]) == 0
    assert "Ring all-reduce" in capsys.readouterr().out
    assert main(["teach", "4", "--html", "four.html"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("four.html: lesson 4, Ring all-reduce; as it was measured with torch ")
    assert (tmp_path / "four.html").read_bytes() == rendered_page(4).read_bytes()


@pytest.mark.usefixtures("without_lessons")
def test_an_installed_package_says_how_a_lesson_is_read_and_how_it_is_run(capsys):
    assert main(["teach", "4"]) == 2
    assert capsys.readouterr().err == (
        "parity: teach: expected the lessons, which a clone of the repository has in examples/lessons, got a package "
        "without them. Read this one: `parity teach 4 --html lesson.html`; to run it, name the folder: --lessons DIR.\n"
    )
    assert main(["teach", "99", "--html", "x.html"]) == 2
    assert f"expected a lesson from 1 to {len(LESSONS)}, got 99" in capsys.readouterr().err


def test_the_code_of_a_lesson_can_be_scrolled_from_the_keyboard():
    assert code("def f():\n    return 1\n", "x.py", ["f"]).startswith("```python")
    assert all('<pre tabindex="0">' in page for page in [rendered_page(1).read_text(encoding="utf-8")])
