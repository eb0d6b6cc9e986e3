"""Every page of the built site passes axe, in light and dark, wide and narrow."""

import functools
import http.server
import importlib.util
import re
import threading

import pytest

from pages.axe import violations
from pages.blocks import FENCE, PAGES, blocks_of, text_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="needs mkdocs: pip install -c constraints.txt -e '.[docs]'",
)

DOCS = [page for page in PAGES if page.startswith("docs/")]
# In the default tier: each folder, language of a block, and kind of content once.
SAMPLE = [
    "docs/api/amp.md",
    "docs/cases.md",
    "docs/causes/adam_beta.md",
    "docs/ci.md",
    "docs/getting_started.md",
    "docs/index.md",
    "docs/report.md",
    "docs/rules/TP101.md",
    "docs/trace.md",
]
SETTLED = "new Promise((done) => setTimeout(done, 300)).then(() => 0)"  # the theme's and our scripts have seen the page


def kinds(page):
    """Returns what a page has that the theme draws in a way of its own."""
    text = FENCE.sub("", text_of(page))
    marks = {"table": r"^\|", "public names": r"^::: ", "list": r"^\* ", "numbered": r"^1\. ", "image": r"!\[|<img"}
    has = {name for name, mark in marks.items() if re.search(mark, text, re.MULTILINE)}
    return {page.rpartition("/")[0], *has, *(block.language or "text" for block in blocks_of(page))}


def show(tab, address):
    tab.ask("Page.navigate", url=address)
    tab.until(f"document.readyState === 'complete' && location.href === '{address}'")
    tab.evaluate(SETTLED)


def test_the_sample_of_the_default_tier_has_every_kind_of_page():
    assert set().union(*map(kinds, DOCS)) - set().union(*map(kinds, SAMPLE)) == set()


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in SAMPLE else pytest.mark.slow) for page in DOCS]
)
def test_a_page_of_the_site_passes_axe(page, tab, built_site):
    show(tab, (built_site / page.removeprefix("docs/")).with_suffix(".html").as_uri())
    assert violations(tab) == []


@pytest.fixture
def server(built_site):
    """Serves the site, for its page about missing pages, which loads by addresses from the top of a server."""
    handler = functools.partial(Quiet, directory=str(built_site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_the_page_about_missing_pages_passes_axe(tab, server):
    show(tab, f"{server}/404.html")
    assert violations(tab) == []


def test_the_search_and_its_results_pass_axe(tab, built_site):
    show(tab, (built_site / "index.html").as_uri())
    tab.evaluate("document.querySelector('#__search').click()")
    tab.evaluate("document.querySelector('input[name=query]').focus()")
    tab.ask("Input.insertText", text="clipping")
    tab.until("document.querySelectorAll('.md-search-result__link').length")
    tab.evaluate(SETTLED)
    assert violations(tab) == []


def test_the_navigation_of_a_narrow_window_passes_axe(tab, built_site):
    show(tab, (built_site / "cases.html").as_uri())
    tab.evaluate("document.querySelector('#__drawer').click()")
    tab.evaluate(SETTLED)
    assert violations(tab) == []


@pytest.mark.parametrize(
    ("page", "element"), [("cases.html", "pre > code"), ("semantics.html", ".md-typeset__scrollwrap")]
)
def test_what_is_wider_than_the_page_scrolls_by_keyboard_and_nothing_else_is_a_stop(page, element, tab, built_site):
    show(tab, (built_site / page).as_uri())
    boxes = tab.evaluate(
        f"[...document.querySelectorAll('.md-typeset {element}')].map((each) => "
        "[each.scrollWidth > each.clientWidth, each.tabIndex === 0])"
    )
    assert [reached for scrolls, reached in boxes] == [scrolls for scrolls, reached in boxes]
    assert any(scrolls for scrolls, _ in boxes)
