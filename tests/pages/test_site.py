"""The documentation builds into a site without a warning, offline, and can be searched, from disk too."""

import importlib.util
import json
import re

import pytest
from support.chromium import Chromium

from pages.blocks import PAGES, ROOT

FOUND = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="needs mkdocs: pip install -c constraints.txt -e '.[docs]'",
)


@pytest.fixture
def site(built_site):
    return built_site


@pytest.fixture(scope="module")
def browser(chromium_path, tmp_path_factory):
    browser = Chromium(chromium_path, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_the_site_has_every_page_and_nothing_in_it_is_loaded_from_elsewhere(site):
    pages = [page.removeprefix("docs/").removesuffix(".md") + ".html" for page in PAGES if page.startswith("docs/")]
    assert [page for page in pages if not (site / page).is_file()] == []
    for page in site.rglob("*.html"):
        assert re.findall(r'<(?:script|img|iframe)[^>]*src="https?:[^"]*"', page.read_text()) == []
        assert re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="https?:', page.read_text()) == []


def test_every_page_and_public_name_can_be_searched(site):
    found = {entry["location"] for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]}
    for name in (
        "api/parity.html#parity.testing.assert_parity",
        "api/trace.html#parity.trace.writer.TraceWriter",
        "api/tf_towers.html#tf_towers.graph.update.combine.combine_gradients",
        "api/torch_ddp.html#torch_ddp.train.launch.launch",
        "api/like_tf.html#torch_ddp.like_tf.optim.Adam",
        "api/amp.html#torch_ddp.amp.initialize.initialize",
        "api/parallel.html#torch_ddp.parallel.sync_batchnorm.convert_syncbn_model",
        "migration.html",
    ):
        assert name in found, name


@pytest.mark.parametrize(
    ("begun_at", "words", "found"),
    [
        ("index.html", "clipping in every tower and then averaging", "migration.html"),
        ("api/index.html", "clip_grads_by_global_norm_", "api/like_tf.html"),
        ("migration.html", "ring all-reduce", "lessons.html"),
    ],
)
def test_the_search_finds_a_page_from_disk(begun_at, words, found, site, browser):
    browser.requests.clear()
    browser.ask("Page.navigate", url=(site / begun_at).as_uri())
    browser.until("document.readyState === 'complete' && location.href.endsWith('" + begun_at + "')")
    browser.evaluate("document.querySelector('input[name=query]').focus()")
    browser.ask("Input.insertText", text=words)
    links = browser.until(f"{FOUND}.length && {FOUND}")
    link = next(link for link in links if link.startswith((site / found).as_uri()))
    browser.ask("Page.navigate", url=link)
    browser.until(f"document.readyState === 'complete' && location.href.startsWith('{(site / found).as_uri()}')")
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []


def test_links_out_of_the_docs_lead_to_copies(site):
    links = re.findall(r'href="(source/[^"]+)"', (site / "training.html").read_text())
    assert links == ["source/examples/train_ddp/train.py.txt"]
    assert (site / links[0]).read_bytes() == (ROOT / "examples/train_ddp/train.py").read_bytes()
