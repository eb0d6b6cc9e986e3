"""The security page names limits, modules and commands that are there, and the limits have the values it says."""

import importlib
import re

import pytest

from pages.blocks import ROOT
from pages.test_links import anchors
from parity.cli.main import COMMANDS

PAGE = ROOT / "SECURITY.md"
TEXT = PAGE.read_text(encoding="utf-8")
LIMITS = re.findall(r"^\|[^|]+\| ([\d,]+) \| `([\w.]+)\.([A-Z_]+)` \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("value", "module", "name"), LIMITS)
def test_a_limit_has_the_value_that_the_page_says(value, module, name):
    assert getattr(importlib.import_module(module), name) == int(value.replace(",", ""))


def test_every_row_of_the_table_of_limits_is_one():
    rows = TEXT.partition("## Limits")[2].partition("\n## ")[0].count("\n| ")
    assert len(LIMITS) == rows - 1 > 10  # without the heading


def test_files_and_modules_that_the_page_names_are_there():
    names = re.findall(r"`(?:python -m )?((?:tests|tf_towers|torch_ddp)(?:[./]\w+)+)`", TEXT)
    assert len(names) > 4
    for name in [re.sub(r"\.[A-Z_]+$", "", name) for name in names]:
        path = ROOT / name if "/" in name else ROOT / name.replace(".", "/")
        whole = [path, path.with_suffix(".py"), path / "__init__.py"]
        if not any(each.exists() for each in whole):  # then a public name of a package
            exported = (path.parent / "__init__.py").read_text(encoding="utf-8")
            assert re.search(rf"\bas {path.name}\b", exported), name


def test_commands_and_anchors_of_the_page_are_there():
    verbs = {each.name for each in COMMANDS}
    assert set(re.findall(r"`parity (\w+)", TEXT)) <= verbs
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= anchors(PAGE)
