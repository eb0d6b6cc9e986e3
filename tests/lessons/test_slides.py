"""Lessons as slides: one file that asks for nothing, turned by keys, legible by everybody."""

import json
from importlib.resources import files

import pytest
from lesson_stage import LESSONS, stored
from support.chromium import Chromium

from parity.teach.show import steps
from parity.teach.slides import LINES, slides, slides_page, write_slides

EVERY = [pytest.param(number, marks=pytest.mark.slow) if number > 1 else number for number in LESSONS]
SHOWN = "JSON.stringify([...document.querySelectorAll('.slide')].filter((each) => !each.hidden).map((each) => each.id))"


@pytest.fixture(scope="module", params=[(1400, False), (400, True)], ids=["1400-light", "400-dark"])
def tab(request, chromium_path, tmp_path_factory):
    width, dark = request.param
    opened = Chromium(chromium_path, tmp_path_factory.mktemp("profile"), dark=dark)
    opened.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    yield opened
    opened.close()


def write(number, folder):
    path = folder / f"slides-{number}.html"
    write_slides(stored(number), path, len(LESSONS))
    return path


def press(tab, key):
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key=key)
    return json.loads(tab.evaluate(SHOWN))


@pytest.mark.parametrize("number", EVERY)
def test_slides_ask_for_nothing_and_pass_axe(number, tab, tmp_path):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    path = write(number, tmp_path)
    tab.complaints.clear()
    tab.requests.clear()
    tab.open(path)
    assert (tab.complaints, [each.partition("#")[0] for each in tab.requests]) == ([], [path.resolve().as_uri()])
    tab.evaluate("document.querySelectorAll('.slide').forEach((each) => { each.hidden = false; }); 0")
    tab.evaluate(f"{axe}; 0")
    found = (
        "axe.run(document).then((f) => JSON.stringify(f.violations.map((v) => v.id + v.nodes.map((n) => n.target))))"
    )
    assert json.loads(tab.evaluate(found)) == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_keys_turn_the_slides(tab, tmp_path):
    tab.open(write(1, tmp_path))
    count = tab.evaluate("document.querySelectorAll('.slide').length")
    assert json.loads(tab.evaluate(SHOWN)) == ["slide-1"]
    assert press(tab, "ArrowLeft") == ["slide-1"]
    assert [press(tab, key) for key in ("ArrowRight", "PageDown", " ")] == [["slide-2"], ["slide-3"], ["slide-4"]]
    assert press(tab, "PageUp") == ["slide-3"]
    assert press(tab, "End") == press(tab, "ArrowRight") == [f"slide-{count}"]
    assert tab.evaluate("document.getElementById('place').textContent") == f"{count} of {count}"
    assert tab.evaluate("location.hash") == f"#slide-{count}"
    assert tab.evaluate("document.activeElement.id") == f"slide-{count}"
    assert press(tab, "Home") == ["slide-1"]
    tab.evaluate("document.getElementById('on').click(); 0")
    assert json.loads(tab.evaluate(SHOWN)) == ["slide-2"]


@pytest.mark.parametrize("number", LESSONS)
def test_the_slides_have_the_whole_lesson_and_are_short(number):
    played = stored(number)
    made = slides(played)
    whole = "".join("".join(slide.body.split()) for slide in made)
    assert all("".join(step.body.split()) in whole for step in steps(played))
    prose = [slide for slide in made if not any(mark in slide.body for mark in ("```", "\n|", "\n- "))]
    assert all(len(slide.body) <= LINES * 90 for slide in prose)
    page = slides_page(played, len(LESSONS))
    assert page.count('class="slide"') == len(made)
    assert 'src="' not in page and "default-src 'none'; style-src 'sha256-" in page
