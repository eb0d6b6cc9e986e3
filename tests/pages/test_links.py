"""Every link of README and docs leads somewhere, down to the heading; links into the world are at least well formed."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pages.blocks import FENCE, PAGES, ROOT, text_of

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SOURCE = re.compile(r'\bsrc="([^"]+)"')


def prose(page):
    """Returns a page without its blocks and code, in which a bracket is no link."""
    return re.sub(r"`[^`\n]*`", "`code`", FENCE.sub("", text_of(page)))


def anchors(path):
    """Returns the anchors that headings of a page have, by the rule of mkdocs and of code hosts."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def broken(page):
    found = []
    for link in LINK.findall(prose(page)) + SOURCE.findall(prose(page)):
        if urlsplit(link).scheme:
            parts = urlsplit(link)
            found += [] if parts.scheme == "https" and "." in parts.netloc else [link]
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page):
    assert broken(page) == []


def test_the_proof_that_links_lead_somewhere_can_fail(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("# One two\n[a](#one-two) [b](#none) [c](none.md) [d](http://x) [e](page.md)\n")
    monkeypatch.setattr("pages.test_links.ROOT", tmp_path)
    monkeypatch.setattr("pages.blocks.ROOT", tmp_path)
    assert broken("page.md") == ["#none", "none.md", "http://x"]


def test_every_page_can_be_reached_from_the_readme():
    reached, left = set(), ["README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        for link in LINK.findall(prose(page)):
            path = ((ROOT / page).parent / link.partition("#")[0]).resolve()
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
            if name.endswith(".md") and name not in reached and Path(ROOT / name).is_file():
                left.append(name)
    assert set(PAGES) - reached == set()
