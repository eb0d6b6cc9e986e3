"""Makes pages of templates: every text escaped, and nothing in a page allowed to load or to send anything."""

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any


def render(template: str, style: str, script: str, **values: Any) -> str:
    """Returns a page; names in a trace are a script's own and may hold markup, which is text in the page.

    Args:
      template: in Jinja's syntax; a misspelt field is an error and not a gap in the page.
      style: the page's own, which alone its Content-Security-Policy allows, by its hash.
      script: likewise.
      values: the template's fields.
    """
    hashes = {"style_hash": content_hash(style), "script_hash": content_hash(script)}
    return str(_environment().from_string(template).render(**values, **hashes, style=style, script=script))


def page_file(package: str, name: str) -> str:
    """Returns the text of a file in the folder `page` of a package: a template, a style or a script."""
    return files(package).joinpath("page", name).read_text(encoding="utf-8")


def content_hash(text: str) -> str:
    """Returns the hash by which a page's Content-Security-Policy allows a style or script of its own."""
    # As Content-Security-Policy writes a hash: of the exact text between the tags, in base64.
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@lru_cache(maxsize=1)
def _environment() -> Any:
    # Loaded where a page is wanted: most commands print to a terminal alone.
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
