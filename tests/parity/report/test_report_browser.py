"""The page of --html in a real browser: it opens in silence, clicks, keys, filters, colours, and size."""

import time

import numpy as np
import pytest
from support.chromium import Chromium
from test_report import RESULTS, different, same
from test_report_page import EVIL, evil, looked_at

from parity.diagnose.catalogue import CAUSES
from parity.judge import Closer, Histogram, Losses, Place
from parity.judge.result import Check, FirstDifference, Level, Result
from parity.report import write_html


@pytest.fixture
def chromium(chromium_path, tmp_path):
    opened = []

    def start(**options):
        opened.append(Chromium(chromium_path, tmp_path / f"profile{len(opened)}", **options))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def shown(tab):
    return " ".join(tab.evaluate("document.getElementById('tensor').innerText").split())


def silent(tab, path):
    return tab.complaints == [] and tab.requests == [path.resolve().as_uri()]


@pytest.mark.parametrize("name", RESULTS)
def test_a_browser_opens_the_page_in_silence_at_the_first_difference(name, tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(RESULTS[name](), path, "convnet")
    tab = chromium()
    tab.open(path)
    first = RESULTS[name]().first_difference
    assert (first.check.key if first else "loss/0") in shown(tab)
    assert (" of this level " in shown(tab)) == bool(first)
    assert silent(tab, path), (tab.complaints, tab.requests)


def test_a_click_on_a_cell_opens_that_tensor(tmp_path, chromium):
    path = tmp_path / "page.html"
    checks = [
        Check("lockstep", step, f"grad/{name}", "same", 10.0 ** -(step + place), 1.0)
        for step in range(5)
        for place, name in enumerate("abcdef")
    ]
    write_html(Result({"function": Level("function", "same", "", checks)}, {}, {}), path, "x")
    tab = chromium()
    tab.open(path)
    # The third row, the second step: the row is 21 pixels high below a head of 23.
    x, y = tab.evaluate(
        "(() => { const box = document.getElementById('heat'); box.scrollIntoView();"
        " const frame = box.getBoundingClientRect(), cell = document.getElementById('now').getBoundingClientRect();"
        " return [cell.x + 1.5 * cell.width, frame.y + 23 + 2.5 * 21]; })()"
    )
    tab.click(x, y)
    assert shown(tab).startswith("grad/c step 1 verdict same difference 0.001 tolerance 1 ratio 0.001 times")
    assert tab.evaluate("document.querySelectorAll('#tensor circle').length") == 5
    assert "at most 0.01 times the tolerance, at step 0" in tab.evaluate(
        "document.querySelector('#tensor svg').getAttribute('aria-label')"
    )


def test_an_opened_tensor_shows_how_its_values_are_spread_and_where_they_are_furthest_apart(tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(looked_at(), path, "x")
    tab = chromium()
    tab.open(path)
    assert "Values at step 0" in shown(tab)
    assert "8 values, 1 not finite and left out" in shown(tab)
    assert "Largest differences place reference candidate [0, 2] 0.5 nan [1, 1] 0.25 0.5" in shown(tab)
    assert tab.evaluate("document.querySelectorAll('#tensor svg.bars').length") == 2
    assert tab.evaluate("document.querySelectorAll('#tensor .bars rect').length") == 24 * 3
    tab.evaluate("document.getElementById('heat').focus()")
    tab.press("ArrowUp")
    tab.press("Enter")
    assert "Values Not kept: only those of the first tensors that differ" in shown(tab)
    assert tab.evaluate("document.querySelectorAll('polyline.reference').length") == 1
    assert silent(tab, path), (tab.complaints, tab.requests)


def test_a_link_to_a_tensor_and_a_step_opens_them_in_this_report_and_in_the_next(tmp_path, chromium):
    def written(name, shift):
        keys = ["grad/a&b=c#d", *(f"grad/{place}" for place in range(shift)), "var/w"]
        checks = [Check("lockstep", step, key, "same", 0.5, 1.0) for step in range(3) for key in keys]
        levels = {name: Level(name, "same", "", checks) for name in ("function", "float32")}
        write_html(Result(levels, {}, {}), tmp_path / name, "x")
        return tmp_path / name

    tab = chromium()
    tab.open(written("one.html", 0))
    tab.evaluate(
        "document.getElementById('run').value = 1; document.getElementById('run').dispatchEvent(new Event('change'))"
    )
    tab.until("document.documentElement.dataset.drawn && document.getElementById('tensor').innerText.includes('a&b')")
    tab.evaluate("document.getElementById('heat').focus()")
    for key in ("ArrowRight", "Enter"):
        tab.ask("Input.dispatchKeyEvent", type="keyDown", key=key)
    link = tab.until("location.hash")
    assert link == tab.evaluate("document.querySelector('#tensor a').hash")
    # The next report has more tensors: the link names this one, not its place.
    path = written("two.html", 5)
    tab.ask("Page.navigate", url=path.resolve().as_uri() + link)
    tab.until("location.pathname.endsWith('two.html') && document.documentElement?.dataset.drawn")
    assert shown(tab).startswith("grad/a&b=c#d step 1 ")
    assert tab.evaluate("document.getElementById('run').value") == "1"
    tab.evaluate("location.hash = '#run=1+function%3A+lockstep&step=2&tensor=var/w'")
    tab.until("document.getElementById('tensor').innerText.startsWith('var/w')")
    assert "step 2" in shown(tab) and tab.complaints == []
    tab.evaluate(
        "location.hash = '#terms'"
    )  # another place of the page, or a tensor that is not there, changes nothing
    assert shown(tab).startswith("var/w step 2 ")


def test_a_cause_has_its_page_in_the_report(tmp_path):
    result = different()
    path = tmp_path / "page.html"
    write_html(result, path, "x")
    page = path.read_text(encoding="utf-8")
    known = [cause.name for cause in result.causes if cause.name in CAUSES]
    assert known
    for name in known:
        assert f'<details id="cause-{name}">' in page and CAUSES[name].meaning[1:40] in page
        assert f"<code>parity explain {name}</code>" in page


def test_the_map_works_from_the_keyboard_and_is_a_grid_to_a_screen_reader(tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(different(), path, "x")
    tab = chromium()
    tab.open(path)
    tab.evaluate("document.getElementById('heat').focus()")
    now = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert tab.evaluate(f"{now}.textContent") == "step 0: different, 1.07e+13 times the tolerance"
    tab.press("ArrowUp")
    assert tab.evaluate(f"{now}.textContent") == "step 0: same, 0.01 times the tolerance"
    assert tab.evaluate(f"{now}.parentNode.firstChild.textContent") == "loss/0"
    tab.press("n")
    assert tab.evaluate(f"{now}.closest('[role=row]').getAttribute('aria-rowindex')") == "3"
    tab.press("Home", modifiers=2)
    tab.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "tensor"
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("loss/0, step 0: same")
    tab.press("Escape")
    assert tab.evaluate("document.activeElement.id") == "heat"
    tree = tab.ask("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in tree if not node["ignored"]]
    assert roles.count("grid") == 1
    assert {"row", "rowheader", "gridcell", "columnheader"} <= set(roles)
    assert silent(tab, path)


def test_the_filters_leave_the_rows_that_were_asked_for(tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(different(), path, "x")
    tab = chromium()
    tab.open(path)
    rows = "Array.from(document.querySelectorAll('#heat [role=rowheader]'), (name) => name.textContent)"
    tab.evaluate("document.getElementById('only').click()")
    assert tab.evaluate(rows) == ["grad/tower/conv1/weights"]
    tab.evaluate("document.getElementById('only').click()")
    tab.evaluate(
        "(() => { const at = document.getElementById('filter'); at.value = 'LOSS';"
        " at.dispatchEvent(new Event('input')); })()"
    )
    assert tab.evaluate(rows) == ["loss/0"]
    assert tab.evaluate("document.getElementById('count').textContent") == "1 of 2 tensors"
    tab.evaluate(
        "(() => { const at = document.getElementById('filter'); at.value = 'no such';"
        " at.dispatchEvent(new Event('input')); })()"
    )
    assert tab.evaluate(rows) == []
    tab.evaluate(
        "(() => { const at = document.getElementById('filter'); at.value = '';"
        " document.getElementById('run').value = 1;"
        " document.getElementById('run').dispatchEvent(new Event('change')); })()"
    )
    assert tab.until("document.getElementById('tensor').innerText.startsWith('var/')")
    assert tab.evaluate(rows) == ["var/tower/conv1/weights"]
    assert silent(tab, path)


def test_names_that_attack_are_shown_and_not_run(tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(evil(), path, EVIL)
    tab = chromium()
    tab.open(path)
    assert tab.evaluate("document.images.length") == 0
    assert f"grad/{EVIL}" in shown(tab)
    assert silent(tab, path), (tab.complaints, tab.requests)


def test_the_proof_that_a_page_is_silent_can_fail(tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(same(), path, "x")
    path.write_text(
        path.read_text().replace("</main>", "<img src='http://localhost:9/x.png' onerror='alert(1)'></main>")
    )
    tab = chromium()
    tab.open(path)
    tab.until("document.images[0].complete")
    assert not silent(tab, path)


def test_dark_and_light_have_other_colours_and_both_fit_a_narrow_window(tmp_path, chromium):
    path = tmp_path / "page.html"
    write_html(different(), path, "x")
    colours = set()
    for dark in (False, True):
        tab = chromium(size=(520, 900), dark=dark)
        tab.open(path)
        colours.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        tab.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
        assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert (
            tab.evaluate(
                "(() => { const pen = document.querySelector('#heat canvas').getContext('2d');"
                " const { width, height } = pen.canvas; const found = pen.getImageData(0, 23, width, height - 23).data;"
                " return new Set(new Uint32Array(found.buffer)).size; })()"
            )
            >= 3
        )
    assert len(colours) == 2


def judged(run, keys, seed):
    """Checks of 100 steps with random mantissas, which compress worst; from step 60 on the last 30% are wrong."""
    random = np.random.default_rng(seed)
    allowed = np.exp(random.normal(-31, 1, (100, len(keys))))
    apart = allowed * np.exp(random.normal(-4, 1, (100, len(keys))))
    apart[60:, len(keys) * 7 // 10 :] *= 1e9
    return [
        Check(run, step, key, "same" if one <= most else "different", one, most, 1.0, 1.0)
        for step in range(100)
        for key, one, most in zip(keys, apart[step].tolist(), allowed[step].tolist(), strict=True)
    ]


def ten_thousand_by_a_hundred():
    """A result as `parity run` makes it: both levels in lockstep, and the half that a free run is judged by."""
    keys = [f"{('act/0', 'tower_grad/0', 'grad', 'var')[n // 2500]}/block{n % 2500}/conv/kernel" for n in range(10_000)]
    checks = judged("lockstep", keys, 0)
    first = FirstDifference(next(check for check in checks if check.verdict == "different"), "grad", "x", "", None)
    function = Level("function", "different", "", checks + judged("free", keys[5000:], 1), first)
    single = Level("float32", "different", "", judged("lockstep", keys, 2))
    result = Result({"function": function, "float32": single}, {"towers": 8}, {"ranks": 8})
    counts = Histogram(-1.234e-5, 1.234e-5, [123_456] * 24)
    worst = [Place((511, 255, 2, 2), -0.123456789, 0.123456789)] * 5
    for key in keys[7000:7200]:
        result.closer.append(
            Closer("function", "lockstep", 60, key, 2_962_944, 2_962_944, counts, counts, counts, worst)
        )
    result.losses.append(Losses("function", "free", list(range(100)), [1.5] * 100, [1.5] * 100, [1e-12] * 100))
    return result


@pytest.mark.slow
def test_ten_thousand_tensors_by_a_hundred_steps_open_and_answer(tmp_path, chromium, capsys):
    path = tmp_path / "page.html"
    result = ten_thousand_by_a_hundred()
    began = time.perf_counter()
    write_html(result, path, "x")
    writing = time.perf_counter() - began
    size = path.stat().st_size
    assert size < 15e6
    tab = chromium()
    opened = tab.open(path)
    tab.evaluate("document.getElementById('heat').focus()")
    began = tab.evaluate("performance.now()")
    for key in ("End", "PageUp", "ArrowDown", "n"):
        tab.press(key, modifiers=2 if key == "End" else 0)
    keys = tab.evaluate("performance.now()") - began
    tab.press("End", modifiers=2)
    tab.press("Enter")
    assert shown(tab).startswith("var/block2499/conv/kernel step 99 verdict different")
    assert tab.evaluate("document.querySelectorAll('#heat [role=row]').length") < 60
    filtered = tab.evaluate(
        "(() => { const before = performance.now(); document.getElementById('only').click();"
        " return performance.now() - before; })()"
    )
    assert tab.evaluate("document.getElementById('count').textContent").endswith("of 10,000 tensors")
    assert silent(tab, path)
    with capsys.disabled():
        print(f"\n{size / 1e6:.1f} MB, written in {writing:.0f} s, drawn after {opened} ms,", end=" ")
        print(f"{keys / 4:.0f} ms a key, {filtered:.0f} ms a filter")
