"""Every cause that the code names is in the catalogue, and the catalogue is what the page of causes lists."""

import ast
import re
from pathlib import Path

import pytest

from parity.diagnose.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
IDENTIFIERS = {name: meaning for family in CATALOGUE.values() for name, meaning in family.items()}
CALLED = ("Cause", "Change", "Undone")  # what takes an identifier first


def named(source: str) -> set[str]:
    """Identifiers that a module gives to causes as they stand there, of either branch of a choice."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in CALLED and node.args:
            given = node.args[0]
            branches = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
            found |= {each.value for each in branches if isinstance(each, ast.Constant)}
    return found - {""}


MODULES = sorted(path for part in ("causes", "run") for path in (ROOT / "parity" / part).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_cause_that_a_module_names_is_in_the_catalogue(path):
    assert named(path.read_text(encoding="utf-8")) <= set(IDENTIFIERS)


def test_every_identifier_is_used_somewhere():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in MODULES if path.name != "catalogue.py")
    assert not [name for name in IDENTIFIERS if f'"{name}"' not in sources]


def test_no_identifier_is_in_two_families():
    assert len(IDENTIFIERS) == sum(len(family) for family in CATALOGUE.values())


def test_the_page_lists_the_catalogue():
    page = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    families = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = {
        part.splitlines()[0]: dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", part, re.MULTILINE)) for part in families
    }
    assert found == {family: dict(listed) for family, listed in CATALOGUE.items()}
