"""The page of a recorded graph in a real browser: it opens in silence, boxes open and close, keys move, search finds."""

import pytest
from support.chromium import Chromium
from support.made_graph import FACTS, op, recorded

from parity.cli.show import explain_hazard
from parity.report.towers import graph_as_html
from parity.trace.graph import RecordedGraph


@pytest.fixture
def tab(chromium_path, tmp_path):
    opened = Chromium(chromium_path, tmp_path / "profile")
    yield opened
    opened.close()


def written(path, graph, facts=FACTS):
    path.write_text(graph_as_html(graph, facts, "trace", explain_hazard), encoding="utf-8")
    return path


FOCUS = "document.activeElement.getAttribute('aria-label')"
COUNT = "document.querySelectorAll('.box').length"


def test_the_graph_works_from_keyboard_and_mouse_and_asks_for_nothing(tab, tmp_path):
    path = written(tmp_path / "graph.html", recorded())
    tab.open(path)
    closed = tab.evaluate(COUNT)
    # The same layer of both towers stands in one row, the combination below them and the update below that.
    rows = tab.evaluate(
        "boxes.filter(({ node }) => node.label === 'conv' && node.part === 'forward').map(({ x, y }) => [x, y])"
    )
    assert len(rows) == 2 and rows[0][1] == rows[1][1] and rows[0][0] < rows[1][0]
    parts = "['shared', 'forward', 'backward', 'combination', 'update']"
    top = "Math.min(...boxes.filter(({ node }) => node.part === part).map(({ y }) => y))"
    tops = tab.evaluate(f"{parts}.map((part) => {top})")
    assert tops == sorted(tops)

    tab.evaluate("choose(boxes.find(({ node }) => node.label === 'conv' && node.part === 'forward').node, true)")
    assert tab.evaluate(FOCUS) == "conv, group of 2 ops, Forward pass, tower 0"
    tab.press("Enter")
    assert tab.evaluate(COUNT) == closed + 2
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    tab.press("ArrowDown")
    assert tab.evaluate(FOCUS) == "axis, Const, Forward pass, tower 0"
    tab.press("Escape")
    assert tab.evaluate(COUNT) == closed and tab.evaluate(FOCUS).startswith("conv, group")
    tab.press("ArrowRight")
    assert tab.evaluate(FOCUS) == "conv, group of 2 ops, Forward pass, tower 1"
    before = tab.evaluate("place.k")
    tab.press("+")
    assert tab.evaluate("place.k") > before
    tab.press("0")

    # What is searched for is opened, chosen and explained, with the hazard that names it.
    tab.evaluate(
        "document.getElementById('find').value = 'conv/w'; search(); document.querySelector('#matches button').click()"
    )
    panel = " ".join(tab.evaluate("document.getElementById('details').innerText").split())
    assert panel.startswith(
        "conv/w part Variables op VariableV2 device /cpu:0 variable var/conv/w Hazards sum_not_mean"
    )
    assert (
        tab.evaluate("document.querySelectorAll('.edge.chosen').length") >= 2
    )  # its read, and the update that writes it
    assert tab.evaluate("document.querySelector('.hazard-name').textContent") == "\u26a0 sum_not_mean"

    conv = "boxes.find(({ node }) => node.label === 'conv' && node.part === 'forward').element.getBoundingClientRect()"
    x, y = tab.evaluate(f"drawing.scrollIntoView(); (({{ x, y, height }}) => [x + 20, y + height / 2])({conv})")
    open_now = tab.evaluate(COUNT)
    tab.click(x, y)
    assert tab.evaluate(COUNT) == open_now + 2
    tab.evaluate(
        "document.getElementById('view').value = 'line'; document.getElementById('view').dispatchEvent(new Event('change'))"
    )
    assert "no line of the script" in tab.evaluate("boxes.map(({ node }) => node.label).join()")
    assert tab.complaints == [] and tab.requests == [path.resolve().as_uri()], (tab.complaints, tab.requests)


def test_thousands_of_ops_open_as_far_as_a_browser_draws_them(tab, tmp_path):
    nodes = [
        op(
            f"block_{n // 50}/layer_{n // 5}/op_{n}",
            "Add",
            *([f"block_{(n - 1) // 50}/layer_{(n - 1) // 5}/op_{n - 1}"] * (n > 0)),
        )
        for n in range(8000)
    ]
    values = {"loss/0": f"{nodes[-1]['name']}:0"}
    graph = RecordedGraph(
        {"node": nodes},
        {},
        [{"values": {name: {"tensor": tensor, "dtype": "float32"} for name, tensor in values.items()}}],
    )
    tab.open(written(tmp_path / "graph.html", graph, {}))
    assert tab.evaluate(COUNT) <= 100
    tab.evaluate("openAll(); 0")
    assert 1000 < tab.evaluate(COUNT) <= 3000
    assert "Opened as far as 3,000 boxes" in tab.evaluate("document.getElementById('status').textContent")
    tab.evaluate("closeAll(); draw(); reveal(7999); 0")
    assert tab.evaluate(FOCUS) == "op_7999, Add, Forward pass, tower 0"
    assert tab.complaints == []
