"""Every cause comes from the catalogue: its name, title, fix and precedence; and the docs list what it has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from parity.diagnose.catalogue import CAUSES, EXACT, FAMILIES, Trait, build_cause, causes_with, describe
from parity.diagnose.catalogue.layers import OF_ANY

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "parity").rglob("*.py"))
BUILDING = ("build_cause", "describe")  # what takes an identifier first


def calls(path: Path, *names: str) -> Iterator[ast.Call]:
    """Calls of functions by name in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names:
            yield node


def constants(node: ast.expr) -> set[str]:
    """The strings that an argument is, of either branch of a choice."""
    branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return {each.value for each in branches if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def fields(text: str) -> set[str]:
    """Names of a template's fields."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_cause_that_a_module_names_is_in_the_catalogue(path):
    named = [call.args[0] for call in calls(path, *BUILDING, "Cause", "Change", "Undone") if call.args]
    assert {name for each in named for name in constants(each)} - {""} <= set(CAUSES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_call_gives_a_wording_all_its_fields(path):
    for call in calls(path, "build_cause", "describe"):
        variants = constants(call.args[1]) if len(call.args) > 1 else {""}
        given = {each.arg for each in call.keywords} | {"where"}
        for name in constants(call.args[0]):
            for variant in variants:
                wording = CAUSES[name].wordings.get(variant) or OF_ANY[variant]
                assert None in given or fields(wording.title) | fields(wording.fix) <= given, (path, call.lineno)


def test_every_identifier_is_used_somewhere():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in MODULES if path.parent.name != "catalogue")
    assert not [name for name in CAUSES if f'"{name}"' not in sources]


def test_no_identifier_is_in_two_families():
    assert len(CAUSES) == sum(len(family) for family in FAMILIES.values())


def test_causes_that_others_speak_of_are_in_the_catalogue():
    spoken_of = {name for row in CAUSES.values() for name in (*row.implies, *row.doubts, *row.refined_by)}
    assert spoken_of <= set(CAUSES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_words_stand_in_the_catalogue_alone(path):
    """Title and fix come from the catalogue, or are another cause's."""
    if path.parent.name != "catalogue":
        assert not [each.lineno for each in calls(path, "Cause", "Change", "Undone") if own(each)]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('Cause("sign", "the update goes uphill", text, fix)', True),
        ("Cause(name, title, text, fix)", True),
        ("Cause(cause.name, cause.title, text, cause.fix)", False),
        ('Cause(cause.name, "the update goes uphill", text, cause.fix)', True),
        ('Change(*describe("stale_batch"), "fed once more")', False),
        ('Undone("", "", "", "")', False),
    ],
)
def test_words_in_place_are_seen(source, words):
    assert own(ast.parse(source).body[0].value) == words


def own(call: ast.Call) -> bool:
    """Whether a call has words of its own: not a description, nor the name, title and fix of another cause."""
    if not call.args or isinstance(call.args[0], ast.Starred):
        return False
    fix = call.args[2 if getattr(call.func, "id", "") == "Change" else 3]
    return not all(isinstance(each, ast.Attribute) or constants(each) == {""} for each in (*call.args[:2], fix))


def test_a_cause_is_built_of_its_row():
    cause = build_cause("momentum", "dampened", evidence="figures", factor=0.1)
    assert (cause.name, cause.evidence) == ("momentum", "figures")
    assert cause.title == "the momentum is dampened: the gradient enters the slot 0.1 times"
    assert describe("momentum", "dampened", factor=0.1) == (cause.name, cause.title, cause.fix)


def test_where_is_empty_unless_given():
    assert describe("slot_reset", slot="m").title == "the slot m is forgotten in every step"
    assert describe("slot_reset", slot="m", where=" for w").title == "the slot m is forgotten in every step for w"


def test_what_holds_beside_anything_is_said_alone():
    alone = causes_with(Trait.ONLY_ALONE)
    assert alone == {
        "order_of_examples",
        "repeated_examples",
        "dropout_active",
        "activation_factor",
        "activation_function",
        "normalisation",
        "gradient_factor",
        "batch_norm_momentum",
        "learning_rate",
    }
    assert not [name for name in alone if CAUSES[name].specificity == EXACT]


def test_the_page_lists_the_catalogue():
    page = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    families = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = {
        part.splitlines()[0]: dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", part, re.MULTILINE)) for part in families
    }
    assert found == {family: {row.name: row.meaning for row in rows} for family, rows in FAMILIES.items()}
