"""Questions in the lessons' pages: to be answered before the text gives the number, and checked by the page."""

import json

import pytest
from lesson_stage import LESSONS, stored
from support.chromium import Chromium

from parity.teach.lessons import rendered_page
from parity.teach.show import steps

WITH_QUESTIONS = [number for number in LESSONS if number != 12]
ANSWER = """((words, enter) => {
  const question = document.querySelector(".predict"), input = question.querySelector("input");
  input.value = words;
  if (enter) input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  else question.querySelector("button").click();
  return question.querySelector("[role=status]").textContent;
})(%s, %s)"""


@pytest.fixture(scope="module")
def tab(chromium_path, tmp_path_factory):
    opened = Chromium(chromium_path, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.mark.parametrize("number", WITH_QUESTIONS)
def test_a_page_checks_what_was_predicted(number, tab):
    tab.requests.clear()
    tab.complaints.clear()
    tab.open(rendered_page(number))
    answer, shown = tab.evaluate(
        "(({ answer, shown }) => [Number(answer), shown])(document.querySelector('.predict').dataset)"
    )

    def say(words, enter=False):
        return tab.evaluate(ANSWER % (json.dumps(words), json.dumps(enter)))

    assert say(shown) == say(shown, enter=True) == f"Right: {shown}."
    assert say(str(answer * 1.009)) == say(str(answer * 0.991)) == f"Right: {shown}."
    more, less = sorted((answer * 1.011, answer * 0.989), reverse=True)
    assert say(str(more)) == "Not yet: it is less." and say(str(less)) == "Not yet: it is more."
    assert say(str(-answer)) == "Not yet: look at the sign."
    assert say("") == say("many") == "Write a number."
    assert (tab.complaints, tab.requests) == ([], [rendered_page(number).resolve().as_uri()])


@pytest.mark.parametrize("number", WITH_QUESTIONS)
def test_elsewhere_than_in_the_page_the_answer_stands_below_the_question(number):
    whole = "\n".join(step.body for step in steps(stored(number)))
    page = rendered_page(number).read_text(encoding="utf-8")
    assert whole.count("**Predict.**") == whole.count("*Answer:*") == page.count('<div class="predict"') == 1
    assert "```predict" not in whole and "language-predict" not in page
