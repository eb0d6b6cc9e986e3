"""The pages of the lessons in a real browser: silent, drawn anew at every change, from the keyboard too."""

import json
import re

import pytest
from lesson_stage import LESSONS, NUMBERS
from support.chromium import Chromium

from parity.teach.show import lesson_page

pytestmark = pytest.mark.usefixtures("chromium_path")  # before the lessons are played
# Every shape has numbers for its place, and no words run out of the picture.
WRONG = """(() => {
  const picture = document.getElementById("picture"), frame = picture.viewBox.baseVal, wrong = [];
  if (/NaN|undefined|Infinity|null/.test(picture.innerHTML)) wrong.push("no number in " + picture.innerHTML);
  for (const each of picture.querySelectorAll("text, rect, line, polyline")) {
    const box = each.getBBox();
    if (box.x < -1 || box.y < -1 || box.x + box.width > frame.width + 1 || box.y + box.height > frame.height + 1)
      wrong.push(each.outerHTML);
  }
  const words = document.getElementById("told").textContent + document.getElementById("rows").textContent;
  if (/NaN|undefined|null/.test(words)) wrong.push(words);
  return wrong;
})()"""
# Puts a control to its n-th position, as a person would, and returns what the page then says.
CHANGE = """((name, to) => {
  const slider = document.getElementById(name);
  const input = slider || document.querySelectorAll(`input[name="${name}"]`)[to];
  if (slider) { slider.value = to; slider.dispatchEvent(new Event("input")); }
  else input.click();
  return document.getElementById("told").textContent + document.getElementById("picture").innerHTML;
})(%s, %s)"""
CONTROLS = """[...document.querySelectorAll("#controls > label input")].map((input) =>
  [input.id, [input.min, (Number(input.min) + Number(input.max)) / 2, input.max]])
  .concat([...document.querySelectorAll("#controls fieldset")].map((field) => {
    const inputs = [...field.querySelectorAll("input")];
    return [inputs[0].name, inputs.map((_, at) => at)];
  }))"""


@pytest.fixture(scope="module")
def tab(chromium_path, tmp_path_factory):
    opened = Chromium(chromium_path, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def write(stage, number, folder):
    path = folder / f"{number}.html"
    path.write_text(lesson_page(stage.play(number), len(LESSONS)), encoding="utf-8")
    return path


@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_is_silent_and_its_diagram_moves_with_every_control(number, stage, tab, tmp_path):
    path = write(stage, number, tmp_path)
    tab.complaints.clear()
    tab.requests.clear()
    tab.open(path)
    assert tab.evaluate(WRONG) == []
    controls = tab.evaluate(CONTROLS)
    assert len(controls) >= 1
    for name, places in controls:
        seen = set()
        for place in places:
            seen.add(tab.evaluate(CHANGE % (json.dumps(name), json.dumps(place))))
            assert tab.evaluate(WRONG) == [], (name, place)
        assert len(seen) > 1, f"{name} changes nothing"
    assert (tab.complaints, tab.requests) == ([], [path.resolve().as_uri()])


def test_a_page_is_worked_from_the_keyboard_and_tells_a_screen_reader(stage, tab, tmp_path):
    tab.open(write(stage, 2, tmp_path))
    before = tab.evaluate("document.getElementById('told').textContent")
    tab.evaluate("document.getElementById('towers').focus()")
    tab.ask("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", windowsVirtualKeyCode=39)
    tab.ask("Input.dispatchKeyEvent", type="keyUp", key="ArrowRight", windowsVirtualKeyCode=39)
    after = tab.until(f"document.getElementById('told').textContent !== {json.dumps(before)} && told.textContent")
    assert "the sum over 5 towers" in after
    tree = tab.ask("Accessibility.getFullAXTree")["nodes"]
    roles = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if "role" in node}
    assert ("image", after) in roles
    assert any(role == "slider" and name.startswith("Towers") for role, name in roles)
    assert ("radio", "sum") in roles
    assert any(role == "status" for role, _ in roles)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_stand_out_from_their_ground_in_light_and_dark(dark, stage, chromium_path, tmp_path, tmp_path_factory):
    tab = Chromium(chromium_path, tmp_path_factory.mktemp("profile"), dark=dark)
    try:
        tab.open(write(stage, 1, tmp_path))
        ink, ground = tab.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.getElementById('diagram')).backgroundColor]"
        )
    finally:
        tab.close()
    light, dim = sorted((luminance(ink), luminance(ground)), reverse=True)
    assert (luminance(ground) < 0.2) == dark
    assert (light + 0.05) / (dim + 0.05) >= 7  # WCAG 2.2, level AAA


def luminance(colour):
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# Lines that run along the top of the chart, which begins at 14, as a clipped explosion did.
LEAVING = """(() => {
  const picture = document.getElementById("picture");
  const points = (each) => each.getAttribute("points").split(" ").map((point) => point.split(",").map(Number));
  const lines = [...picture.querySelectorAll("polyline:not(.line-axis)")].map(points);
  return { flat: lines.filter((points) => points.length > 2 && points.slice(-2).every(([, y]) => y === 14)).length,
    triangles: picture.querySelectorAll("polygon").length,
    words: [...picture.querySelectorAll("text")].map((each) => each.textContent) };
})()"""


@pytest.mark.parametrize(
    ("number", "changes"),
    [(2, {"towers": 8, "rate": 0.6}), (11, {"towers": 3, "rule": 1})],
)
def test_a_loss_that_explodes_leaves_the_chart_in_a_triangle_and_is_no_plateau(number, changes, stage, tab, tmp_path):
    tab.open(write(stage, number, tmp_path))
    for name, place in changes.items():
        tab.evaluate(CHANGE % (json.dumps(name), json.dumps(place)))
    seen = tab.evaluate(LEAVING)
    assert seen["triangles"] >= 1 and not seen["flat"]
    assert any("leaves the chart upwards, " in words for words in seen["words"])
    powers = [words for words in seen["words"] if re.fullmatch(r"10*|[1-9]0{0,2}(,000)+|0\.0*1|1e[+-]\d+", words)]
    assert powers, seen["words"]  # the axis is marked


def test_the_diagram_of_the_ring_counts_the_bytes_that_were_measured(stage, tab, tmp_path):
    tab.open(write(stage, 4, tmp_path))
    numbers = stage.play(4).numbers
    for way in numbers["ways"]:
        told = tab.evaluate(CHANGE % ('"chunks"', way["chunks"]))
        assert f"{numbers['most']} ranks, {way['chunks']} chunks" in told
        assert f"the busiest rank sends {shown(way['busiest'], numbers)};" in told
        assert f"as long as its fullest link, take {shown(way['waits'], numbers)}." in told
    for size in numbers["sizes"]:
        tab.evaluate(CHANGE % ('"chunks"', size))
        sent = {rank["sent"] for rank in numbers["runs"][str(size)]}
        assert f"the busiest rank sends {shown(sent.pop(), numbers)};" in tab.evaluate(CHANGE % ('"ranks"', size))
        assert not sent


def shown(count, numbers):
    return f"{count / numbers['size']:.4g} tensors, {count:,} B"
