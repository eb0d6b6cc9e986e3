"""The documentation builds into a site without a warning, offline, and can be searched."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

from pages.blocks import PAGES, ROOT

BUILD_WITHIN = 180

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="needs mkdocs: pip install -c constraints.txt -e '.[docs]'",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    nowhere = "http://127.0.0.1:9"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "http_proxy": nowhere, "https_proxy": nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


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
        "api/tf_towers.html#tf_towers.combine.combine_gradients",
        "api/torch_ddp.html#torch_ddp.launch.options.launch",
        "api/like_tf.html#torch_ddp.like_tf.optim.Adam",
        "api/amp.html#torch_ddp.amp.initialize.initialize",
        "api/parallel.html#torch_ddp.parallel.convert.convert_syncbn_model",
        "migration.html",
    ):
        assert name in found, name


def test_links_out_of_the_docs_lead_to_copies(site):
    links = re.findall(r'href="(source/[^"]+)"', (site / "training.html").read_text())
    assert links == ["source/examples/train_ddp/train.py.txt"]
    assert (site / links[0]).read_bytes() == (ROOT / "examples/train_ddp/train.py").read_bytes()
