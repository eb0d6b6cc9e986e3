"""The page of --html: what is in it, and what it refuses to obey."""

import base64
import html
import json
import math
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_report import RESULTS, different, same

from parity.judge import Closer, Histogram, Losses, Place
from parity.judge.result import Cause, Check, FirstDifference, Level, Result
from parity.report import as_html, write_html
from parity.report.html.charts import flow_of
from parity.report.html.grid import grids, packed, shortened

EVIL = "</script><img src=x onerror=alert(1)>\"'&{{7*7}}<!--"
VOID = {"meta", "input", "br", "img"}


class Reader(HTMLParser):
    """Collects a page's elements, and complains about those that are not closed as they were opened."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.unmatched, self.words = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unmatched.append(tag)

    def handle_data(self, text):
        if not {"script", "style"} & set(self.open[-1:]):
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def evil():
    """A result in which every text that comes from outside is an attack."""
    wrong = Check("lockstep", 1, f"grad/{EVIL}", "different", 1.0, 0.1, 1.0, 1.0, EVIL)
    first = FirstDifference(wrong, "grad", EVIL, "", None)
    level = Level("function", "different", EVIL, [wrong], first, [Cause(EVIL, EVIL, EVIL, EVIL)], [EVIL])
    facts = {"framework": EVIL, "combine": EVIL, "optimizer": {"name": EVIL, EVIL: EVIL}, "variables_on": EVIL}
    pairs = [(EVIL, EVIL, EVIL, EVIL)]
    return Result({"function": level}, {**facts, "towers": 2}, {**facts, "ranks": 2, EVIL: 1}, pairs, [EVIL])


def looked_at():
    """The result that differs, with a tensor of it looked at closely, and losses."""
    result = different()
    values = Histogram(-1.0, 1.0, [0] * 23 + [7])
    worst = [Place((0, 2), 0.5, math.nan), Place((1, 1), 0.25, 0.5)]
    result.closer.append(
        Closer("function", "lockstep", 0, "grad/tower/conv1/weights", 8, 7, values, values, values, worst)
    )
    result.losses.append(Losses("function", "free", [0, 1], [2.0, 1.0], [2.0, 1.5], [0.1, 0.2]))
    return result


def data_of(page):
    return json.loads(html.unescape(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]))


def names_of(page):
    return json.loads(zlib.decompress(base64.b64decode(re.search(r'id="names">(.*?)</script>', page)[1])))


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_is_whole_and_says_what_the_terminal_says(name):
    result = RESULTS[name]()
    page = Reader(as_html(result, "convnet"))
    assert (page.open, page.unmatched) == ([], [])
    assert f"{result.verdict} convnet" in page.text
    for level in result.levels.values():
        assert level.reason in page.text
    first = result.first_difference
    assert (first is None) or f"{first.check.key} step {first.check.step}, level 1 function" in page.text
    for cause in result.causes:
        assert f"{cause.title} {cause.evidence} Fix: {cause.fix}" in page.text


def test_the_facts_that_differ_come_first_and_are_marked_in_words():
    text = Reader(as_html(different(), "x")).text
    assert "fact reference candidate differs combine sum mean differs optimizer.learning_rate" in text
    assert "No setting that both sides report differs." in Reader(as_html(Result({}, {}, {"a": 1}), "x")).text


def test_nothing_in_a_result_becomes_markup():
    text = as_html(evil(), EVIL)
    page, plain = Reader(text), Reader(as_html(different(), "x"))
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in plain.elements} | {"p"}
    assert (page.open, page.unmatched) == ([], [])
    assert "<img" not in text
    assert "49" not in page.text
    assert page.text.count("</script><img src=x onerror=alert(1)>") > 20
    assert names_of(text) == [f"grad/{EVIL}"]


def test_the_proof_that_nothing_becomes_markup_can_fail():
    text = as_html(different(), "x").replace("<title>different: x", f"<title>x</title>{EVIL}<title>x")
    assert "img" in {tag for tag, _ in Reader(text).elements}


def test_what_is_known_of_a_tensor_is_packed_with_its_cell_and_without_a_number_that_json_lacks():
    (found,) = data_of(as_html(looked_at(), "x"))["closer"]
    assert found["place"] == [0, 1, 0]
    assert (found["size"], found["finite"]) == (8, 7)
    assert found["values"] == {"low": "-1", "high": "1", "counts": [[0] * 23 + [7]] * 2}
    assert found["worst"] == [["[0, 2]", "0.5", "nan"], ["[1, 1]", "0.25", "0.5"]]


def test_the_losses_are_drawn_and_told():
    page = as_html(looked_at(), "x")
    assert "Loss, mean over the towers: level 1 function, free run" in Reader(page).text
    assert "step reference candidate absolute error tolerance 0 2 2 0 0.1 1 1 1.5 0.5 0.2" in Reader(page).text
    assert "at most 2.5 times the tolerance" in page
    assert (Reader(page).open, Reader(page).unmatched) == ([], [])


def test_the_page_opens_at_the_level_that_is_not_the_same():
    result = same()
    # As its accuracy decides, without a first difference.
    result.levels["float32"] = replace(result.levels["float32"], verdict="different")
    data = data_of(as_html(result, "x"))
    assert data["grids"][data["opened"][0]]["label"] == "2 float32: lockstep"
    assert data_of(as_html(same(), "x"))["opened"] == [0, 0, 0]


def test_the_page_may_run_its_own_script_and_load_nothing():
    page = as_html(same(), "x")
    policy = dict(Reader(page).elements[3][1])["content"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert not re.search(r'\b(src|href|action)="(?!#)', page)
    links = re.findall(r"https?://[^\s\"']+", page)
    assert set(links) <= {"http://www.w3.org/2000/svg"}


def test_a_name_that_is_no_text_is_still_written(tmp_path):
    result = Result({}, {"framework": "\udcff"}, {})
    write_html(result, tmp_path / "page.html", "\udcff")
    assert "?" in (tmp_path / "page.html").read_text("utf-8")


@given(st.floats(min_value=0.0, allow_nan=False))
def test_a_number_keeps_four_digits_and_its_range(number):
    code = int(shortened(np.array([number]))[0])
    found = float(np.array([code << 39], dtype=np.uint64).view(np.float64)[0])
    assert 0 <= code < 2**24
    if number >= 2.3e-308:  # below, float64 itself has fewer digits
        assert found == number or abs(found / number - 1) <= 6.2e-5 or math.isinf(found)
    else:
        assert abs(found - number) <= 2.0**-1035


def test_what_is_not_a_number_or_not_finite_stays_so():
    codes = shortened(np.array([np.inf, np.nan]))
    found = (codes.astype(np.uint64) << np.uint64(39)).view(np.float64)
    assert math.isinf(found[0])
    assert math.isnan(found[1])


def test_a_grid_has_a_row_for_every_tensor_in_order_and_a_column_for_every_step():
    checks = [
        Check("lockstep", step, key, "same", 1.0 + step, 8.0)
        for step in (0, 2)
        for key in ("loss/0", "grad/w", "var/w")
    ]
    checks.append(Check("lockstep", 2, "late", "incomparable", math.inf, note="the candidate has no such tensor"))
    checks.append(Check("init", 0, "var/w", "same", 0.5, 1.0))
    found = grids(Result({"function": Level("function", "same", "", checks)}, {}, {}))
    assert [grid.label for grid in found] == ["1 function: lockstep", "1 function: before training"]
    grid = found[0]
    assert (grid.keys, grid.steps) == (["loss/0", "grad/w", "var/w", "late"], [0, 2])
    assert grid.states == [("absent", ""), ("same", ""), ("incomparable", "the candidate has no such tensor")]
    assert grid.state.tolist() == [[1, 1], [1, 1], [1, 1], [0, 2]]
    assert grid.difference.tolist() == [[1, 3], [1, 3], [1, 3], [0, math.inf]]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed(grid))), dtype=np.uint8).reshape(7, 8)
    assert planes[6].tolist() == [1, 1, 1, 1, 1, 1, 0, 2]
    codes = planes[0].astype(np.uint64) | planes[1].astype(np.uint64) << 8 | planes[2].astype(np.uint64) << 16
    assert (codes << np.uint64(39)).view(np.float64).tolist() == [1, 3, 1, 3, 1, 3, 0, math.inf]


def test_runs_share_the_names_of_their_tensors_and_say_which_they_have_in_stretches():
    keys = {"lockstep": ["a", "b", "c", "d", "e"], "free": ["b", "c", "e", "late", "a"]}
    checks = [Check(run, 0, key, "same", 1.0, 8.0) for run, has in keys.items() for key in has]
    page = as_html(Result({"function": Level("function", "same", "", checks)}, {}, {}), "x")
    assert names_of(page) == ["a", "b", "c", "d", "e", "late"]
    assert [grid["keys"] for grid in data_of(page)["grids"]] == [[[0, 5]], [[1, 2], [4, 2], [0, 1]]]
    assert 'id="names"' not in as_html(Result({}, {}, {}), "x")


def test_more_notes_than_a_byte_can_tell_apart_take_two():
    checks = [Check("free", step, "loss/0", "incomparable", math.inf, note=f"note {step}") for step in range(300)]
    grid = grids(Result({"function": Level("function", "incomparable", "", checks)}, {}, {}))[0]
    assert len(zlib.decompress(base64.b64decode(packed(grid)))) == 300 * 8


@pytest.mark.parametrize(
    ("quantity", "tower", "run", "marked"),
    [
        ("grad", "", "lockstep", ["combine the towers: sum"]),
        ("tower_grad", "1", "lockstep", ["tower 1 gradients"]),
        ("act", "0.1", "lockstep", ["tower 0 forward, loss"]),
        ("loss", "7", "lockstep", ["towers 3 to 7 forward, loss"]),
        ("feed", "0", "lockstep", ["the batch, split by 8"]),
        ("var", "", "lockstep", ["apply once: Adam"]),
        ("var", "", "init", ["variables, shared, on cpu"]),
    ],
)
def test_the_drawing_marks_the_part_where_the_sides_differ_first(quantity, tower, run, marked):
    facts = {"towers": 8, "combine": "sum", "optimizer": {"name": "AdamOptimizer"}, "variables_on": "cpu"}
    first = FirstDifference(Check(run, 0, "x", "different"), quantity, "x", tower, None)
    flow = flow_of(facts, first)
    assert [" ".join(box.words) for box in flow.boxes if box.marked] == marked
    assert flow.told.count("(the first difference is made here)") == 1
    assert all(
        box.x >= 0 and box.x + box.width <= flow.width and box.y + box.height <= flow.height for box in flow.boxes
    )


def test_the_drawing_of_equal_sides_marks_nothing_and_ranks_hold_their_own_weights():
    flow = flow_of({"ranks": 2, "combine": "mean", "optimizer": {"name": "torch.optim.sgd.SGD"}}, None)
    assert not any(box.marked for box in flow.boxes)
    assert [box.words for box in flow.boxes][-3:] == [
        ("all-reduce: mean",),
        ("rank 0", "SGD step"),
        ("rank 1", "SGD step"),
    ]
    assert "weights, a copy on every rank" in flow.told
