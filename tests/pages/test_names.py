"""Names of this project's packages that pages write in code are public names of them."""

import ast
import importlib.util
import re

import pytest

from pages.blocks import FENCE, PAGES, ROOT, text_of

PACKAGES = {
    "tf_towers": "tf_towers",
    "torch_ddp": "torch_ddp",
    "like_tf": "torch_ddp.like_tf",
    "amp": "torch_ddp.amp",
}
NAME = re.compile(r"(?<![\w./-])(tf_towers|torch_ddp|like_tf|amp)((?:\.\w+)+)")
PLACED = re.compile(r"`([A-Za-z_]\w*)` (?:of|in) `((?:[\w.-]+/)*\w+\.py)`")
HOLDING = ("parity", "tf_towers", "torch_ddp", "tests", "benchmarks", "examples")


def site_hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public(package):
    """Returns the names that a package re-exports, and those of its modules; None where it is no package."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    if not path.is_file():
        return None
    exported = site_hooks().homes_of(ast.parse(path.read_text(encoding="utf-8")))
    return {
        *exported,
        *(each.stem for each in path.parent.glob("*.py")),
        *(each.name for each in path.parent.glob("*/")),
    }


def unknown(page_text):
    """Returns the dotted names in the code of a page's sentences of which a part is not there."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", page_text))
    wrong = []
    for head, rest in {match for span in spans for match in NAME.findall(span)}:
        package = PACKAGES[head]
        for part in rest[1:].split("."):
            names = public(package)
            if names is None or part.startswith("_"):
                break  # attributes of classes and modules; what Apex keeps to itself
            if part not in names:
                wrong.append(head + rest)
            package = f"{package}.{part}"
    return sorted(wrong)


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs: pip install -c constraints.txt -e '.[docs]'"
)
@pytest.mark.parametrize("page", PAGES)
def test_every_name_on_a_page_is_a_public_name(page):
    assert unknown(text_of(page)) == []


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs: pip install -c constraints.txt -e '.[docs]'"
)
def test_the_proof_that_names_are_public_can_fail():
    text = "`like_tf.Adamm` and `torch_ddp.reduction.accumulate(x)`, `torch_ddp.reductions.x`, `amp.initialize`\n"
    assert unknown(text) == ["like_tf.Adamm", "torch_ddp.reductions.x"]


def misplaced(page_text):
    """Returns `name of file` for each name that a page's sentences place in a file of this project where it is not."""
    wrong = []
    for name, file in PLACED.findall(" ".join(FENCE.sub("", page_text).split())):
        found = [
            path
            for top in HOLDING
            for path in ROOT.joinpath(top).rglob(file.rpartition("/")[2])
            if path.as_posix().endswith(f"/{file}")
        ]
        if found and not any(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")) for path in found):
            wrong.append(f"{name} of {file}")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_a_name_stands_in_the_file_where_a_page_places_it(page):
    assert misplaced(text_of(page)) == []


def test_the_proof_that_names_stand_in_files_can_fail():
    text = (
        "`explained` of `agreement.py` and of\n`evidence.py`, `explained` of\n`evidence.py`, `Nobody` in `perturb.py`"
    )
    assert misplaced(text) == ["explained of evidence.py", "Nobody of perturb.py"]
