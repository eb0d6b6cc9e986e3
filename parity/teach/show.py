"""Shows lessons: in a terminal, step by step, or as one page that opens from disk."""

import ast
import html
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from parity.report.atomic import appearing
from parity.report.html.template import page_file, render
from parity.teach.exercises.catalogue import EXERCISES
from parity.teach.exercises.exercise import starter
from parity.teach.lessons import Lesson, RenderedLesson, TeachError
from parity.teach.play import Played


class Step(NamedTuple):
    """One step of a lesson: a heading, and what stands below it as Markdown."""

    heading: str
    body: str


def steps(played: Played, checked: bool = False) -> list[Step]:
    """Returns the text of a lesson, step by step, with this run's numbers in it.

    Args:
      played: a lesson with its numbers.
      checked: whether questions are written for a page that checks the answers, and not with theirs below them.

    Raises:
      jinja2.UndefinedError: the text asks for a number that the lesson does not find.
    """
    from jinja2 import Environment, StrictUndefined

    # Markdown, not HTML: who turns it into HTML escapes it.
    environment = Environment(autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(n=number, e=exponent, percent=percent, mib=megabytes)
    template = environment.from_string(played.lesson.source("text.md"))
    names = {
        **played.numbers,
        "frameworks": " and ".join(played.frameworks),
        "predict": _question_to_check if checked else _question_with_answer,
        "code": lambda file, *names: code(played.lesson.source(file), file, names),
    }
    if played.lesson.number in EXERCISES:
        names["exercise"] = exercise_text(played.lesson.number)
    whole = template.render(names)
    # [in front, heading, body, heading, body, ...]: what stands in front of the first heading is the title.
    found = re.split(r"^## (.+)$", whole, flags=re.MULTILINE)
    return [Step(found[at].strip(), found[at + 1].strip()) for at in range(1, len(found), 2)]


def code(source: str, file: str, names: Iterable[str]) -> str:
    """Returns functions and classes of a file as a fenced block, so that a text shows the very lines that ran.

    Raises:
      TeachError: the file has no such function or class.
    """
    nodes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found = []
    for name in names:
        if name not in nodes:
            raise TeachError(f"text: expected a function {name} in {file}, got none. Fix the lesson's text.")
        found.append(ast.get_source_segment(source, nodes[name]))
    return "```python\n" + "\n\n\n".join(text for text in found if text) + "\n```"


def _question_with_answer(question: str, answer: float) -> str:
    return f"**Predict.** {question}\n\n*Answer:* {number(answer)}."


def _question_to_check(question: str, answer: float) -> str:
    return f"```predict\n{json.dumps([question, answer, number(answer)])}\n```"


def _form(block: re.Match[str], numbers: Iterator[int]) -> str:
    """Returns a question as a page has it: a field, a button, and the answer for who has no script."""
    question, answer, shown = (html.escape(str(each)) for each in json.loads(html.unescape(block[1])))
    name = f"predict-{next(numbers)}"
    return (
        f'<div class="predict" data-answer="{answer}" data-shown="{shown}"><p><label for="{name}"><strong>Predict.</strong> '
        f'{question}</label></p><p><input id="{name}" type="text" inputmode="decimal" autocomplete="off" size="12"> '
        f'<button type="button">Check</button></p><p role="status"></p>'
        f"<details><summary>Show the answer</summary><p>{shown}</p></details></div>"
    )


def exercise_text(number: int) -> str:
    """Returns how an answer to a lesson's exercise is checked, and a file to begin with, as Markdown."""
    check = f"`parity teach {number} --check mine.py`"
    return (
        f"Write this file with numpy alone, as `mine.py`; {check} says in one line what is wrong with it.\n\n"
        f"```python\n{starter(EXERCISES[number])}```"
    )


def number(value: Any, digits: int = 5) -> str:
    """Returns a number, or a list of them, in a few digits."""
    if isinstance(value, (list, tuple)):
        return ", ".join(number(item, digits) for item in value)
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}"


def exponent(value: float) -> str:
    """Returns a small number as a power of ten, and zero as 0."""
    return f"{value:.1e}" if value else "0"


def percent(value: float) -> str:
    """Returns a fraction in per cent."""
    return f"{100 * value:.3g} %"


def megabytes(value: float) -> str:
    """Returns bytes in MiB."""
    return f"{value / 2**20:.3g} MiB"


PAGE_WIDTH = 100  # columns of prose, however wide the terminal is


def list_lessons(lessons: Sequence[Lesson | RenderedLesson]) -> None:
    """Prints number, title and subject of every lesson."""
    from rich.markup import escape

    from parity.report.plain_table import PlainTable
    from parity.report.view import print_trimmed

    table = PlainTable("lesson", "", "")
    for lesson in lessons:
        table.add_row(str(lesson.number), f"[bold]{escape(lesson.title)}[/]", escape(lesson.about))
    print_trimmed(_console(), table)
    print("\n`parity teach 1` runs the first; `parity teach 1 --html lesson.html` writes it as a page with a diagram.")


def show_lesson(played: Played, wait: Callable[[], bool]) -> None:
    """Prints a lesson.

    Args:
      played: with its numbers.
      wait: called between two steps; false ends the lesson.
    """
    from rich.markdown import Markdown
    from rich.markup import escape
    from rich.padding import Padding
    from rich.rule import Rule

    console = _console()
    lesson = played.lesson
    console.print(f"[bold]Lesson {lesson.number}: {escape(lesson.title)}[/]")
    console.print(f"with {', '.join(played.frameworks)}\n", style="dim")
    found = steps(played)
    for place, step in enumerate(found, 1):
        console.print(Rule(f"{place} of {len(found)}: {step.heading}", align="left"))
        console.print(Markdown(step.body, code_theme="ansi_light"))
        console.print()
        if place < len(found) and not wait():
            return
    console.print(Rule("What this run has shown", align="left"))
    for sentence in played.claims:
        console.print(Padding(f"[green]holds[/] {escape(sentence)}", (0, 0, 0, 2)))
    console.print(f"\nTo play with it: `parity teach {lesson.number} --html lesson.html --open`")


def pause() -> bool:
    """Waits for Enter where somebody sits at a terminal; returns False at Ctrl-D and Ctrl-C."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        input("Enter goes on, Ctrl-D ends … ")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
    return True


@contextmanager
def busy() -> Iterator[Callable[[str], None]]:
    """Yields a function that tells what is being done: on stderr, at a terminal only."""
    from parity.console import open_console

    console = open_console(error=True)
    if not console.is_terminal:
        yield lambda what: None
        return
    with console.status("starting") as status:
        yield lambda what: status.update(what)


def _console() -> Any:
    from parity.console import open_console

    return open_console(width=min(PAGE_WIDTH, open_console().width))


def write_lesson(played: Played, path: Path, count: int) -> None:
    """Writes the page to `path`, whole or not at all.

    Args:
      played: a lesson with its numbers.
      path: the HTML file to make.
      count: how many lessons there are.
    """
    page = lesson_page(played, count).encode("utf-8")
    with appearing(path) as file:
        file.write(page)


def lesson_page(played: Played, count: int) -> str:
    """Returns the page; nothing in it may load or send anything."""
    style, script = style_of(), script_of(played.lesson)
    return render(
        page_part("lesson.html"),
        style,
        script,
        lesson=played.lesson,
        count=count,
        steps=_with_forms([(step.heading, html_of(step.body)) for step in steps(played, checked=True)]),
        claims=list(played.claims),
        frameworks=played.frameworks,
        numbers=played.numbers,
    )


def _with_forms(texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    numbers = itertools.count(1)
    block = re.compile(r'<pre tabindex="0"><code class="language-predict">(.*?)</code></pre>', re.DOTALL)
    return [(heading, block.sub(lambda match: _form(match, numbers), body)) for heading, body in texts]


def style_of() -> str:
    """Returns the style of a lesson's page."""
    return page_part("lesson.css")


def script_of(lesson: Lesson) -> str:
    """Returns the script of a lesson's page, its diagram."""
    return "\n".join([page_part("kit.js"), page_part("predict.js"), lesson.source("diagram.js")])


def html_of(markdown: str) -> str:
    """Returns Markdown as HTML; markup in it stays text."""
    from markdown_it import MarkdownIt

    page = str(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))
    # What is wider than its card scrolls, from the keyboard too.
    page = page.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    return page.replace("<pre>", '<pre tabindex="0">')


def page_part(name: str) -> str:
    """Returns the text of a file of `parity/teach/page`."""
    return page_file("parity.teach", name)
