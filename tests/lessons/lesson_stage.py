"""Plays every lesson once for all tests: on both TensorFlows where it uses TensorFlow."""

import html
import re
import sys

import pytest

from parity.teach.lessons import find_lessons, lessons_folder, pick, rendered_lessons, rendered_numbers, rendered_page
from parity.teach.play import Played, Players, play

LESSONS = {lesson.number: lesson for lesson in find_lessons(lessons_folder())}
SLOW = {12, 15, 16, 17}  # whole comparisons, or many ranks: more than two seconds each


def in_tiers(numbers):
    """Returns numbers of lessons as parameters of a test that runs them."""
    return [pytest.param(number, marks=pytest.mark.slow) if number in SLOW else number for number in numbers]


NUMBERS = in_tiers(LESSONS)


class Remembering(Players):
    """Players who do not measure again what does not depend on the TensorFlow."""

    def __init__(self, tf_python, folder, others):
        super().__init__(tf_python, folder)
        self.others, self.begun = others, {}

    def begin(self, name, lesson, arguments):
        if self.others and name == "torch":
            return self.others.begin(name, lesson, arguments)
        key = (name, lesson.number)
        if key not in self.begun:
            self.begun[key] = super().begin(name, lesson, arguments)
        return self.begun[key]


class Stage:
    """Plays lessons when they are asked for, each once per TensorFlow."""

    def __init__(self, folder):
        self.folder, self.players, self.done = folder, {}, {}

    def play(self, number, tf_python=sys.executable):
        lesson = LESSONS[number]
        python = tf_python if lesson.parts() != ["torch"] else sys.executable
        if (number, python) not in self.done:
            self.done[number, python] = play(lesson, self._players(python))
        return self.done[number, python]

    def _players(self, python):
        if python not in self.players:
            others = None if python == sys.executable else self._players(sys.executable)
            folder = self.folder / str(len(self.players))
            self.players[python] = Remembering(python, folder, others)
        return self.players[python]

    def close(self):
        for players in self.players.values():
            players.close()


class Numbers(dict):
    """Numbers that were read from JSON, whose keys are texts there."""

    def __missing__(self, key):
        if isinstance(key, str):
            raise KeyError(key)
        return self[str(key)]


def stored(number):
    """Returns a lesson as the run that wrote its page played it: no framework is needed."""

    def named(value):
        if isinstance(value, dict):
            return Numbers({key: named(each) for key, each in value.items()})
        return [named(each) for each in value] if isinstance(value, list) else value

    page = rendered_page(number).read_text(encoding="utf-8")
    claims = re.findall(r"<li>(.*?)</li>", page.partition('id="claims"')[2].partition("</ul>")[0], re.DOTALL)
    frameworks = pick(rendered_lessons(), number).frameworks.split(" and ")
    numbers = named(rendered_numbers(number))
    return Played(LESSONS[number], numbers, {html.unescape(each): True for each in claims}, frameworks)
