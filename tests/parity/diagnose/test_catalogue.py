"""Every cause comes from the catalogue: its name, title, fix and precedence."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from parity.diagnose.catalogue import (
    CAUSES,
    FAMILIES,
    Proof,
    Trait,
    build_cause,
    causes_with,
    describe,
    is_exact,
    is_place_only,
)
from parity.diagnose.catalogue.operations import OF_ANY

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "parity").rglob("*.py"))
BUILDING = ("build_cause", "describe")  # what takes an identifier first
MAKING = (*BUILDING, "Cause", "Change", "Undone")


@functools.cache
def all_calls() -> list[tuple[str, ast.Call]]:
    """Calls of what makes a cause, each with its module, which is read once for all tests here."""
    read = [(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in MODULES]
    walked = [(name, node) for name, text in read for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [(name, node) for name, node in walked if getattr(node.func, "id", "") in MAKING]


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls of functions by name in all modules, each with its module."""
    assert {*names} <= {*MAKING}
    return ((path, node) for path, node in all_calls() if node.func.id in names)


def constants(node: ast.expr) -> set[str]:
    """The strings that an argument is, of either branch of a choice."""
    branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return {each.value for each in branches if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def fields(text: str) -> set[str]:
    """Names of a template's fields."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_cause_that_a_module_names_is_in_the_catalogue():
    named = [(path, name) for path, call in calls(*MAKING) if call.args for name in constants(call.args[0]) - {""}]
    assert len(named) > 100
    assert [each for each in named if each[1] not in CAUSES] == []


def test_every_call_gives_a_wording_all_its_fields():
    for path, call in calls(*BUILDING):
        variants = constants(call.args[1]) if len(call.args) > 1 else {""}
        given = {each.arg for each in call.keywords} | {"where"}
        for name in constants(call.args[0]):
            for variant in variants:
                wording = CAUSES[name].wordings.get(variant) or OF_ANY[variant]
                assert None in given or fields(wording.title) | fields(wording.fix) <= given, (path, call.lineno)


def test_every_identifier_is_used_somewhere():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in MODULES if path.parent.name != "catalogue")
    assert not [name for name in CAUSES if f'"{name}"' not in sources]


def test_no_row_hides_what_is_said_of_any_op():
    assert not [(name, variant) for name, row in CAUSES.items() for variant in row.wordings if variant in OF_ANY]


def test_no_identifier_is_in_two_families():
    assert len(CAUSES) == sum(len(family) for family in FAMILIES.values())


def test_causes_that_others_speak_of_are_in_the_catalogue():
    spoken_of = {name for row in CAUSES.values() for name in (*row.implies, *row.doubts, *row.refined_by)}
    assert spoken_of <= set(CAUSES)


def test_words_stand_in_the_catalogue_alone():
    """Title and fix come from the catalogue, or are another cause's."""
    elsewhere = [(path, call) for path, call in calls("Cause", "Change", "Undone") if "/catalogue/" not in path]
    assert len(elsewhere) > 10
    assert [(path, call.lineno) for path, call in elsewhere if own(call)] == []


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


ORDER_OF_AN_INPUT = {"transposed_input", "reversed_input", "rolled_input"}
READ_OTHERWISE = {"other_shard", "order_of_examples", "repeated_examples"}
TRAITS = {
    Trait.ONLY_ALONE: READ_OTHERWISE - {"other_shard"}
    | {"dropout_active", "activation_factor", "activation_function", "normalisation", "gradient_factor"}
    | {"batch_norm_momentum", "learning_rate"},
    Trait.OF_AN_OP: {"activation_function", "extra_scale", "moved_values", "op_left_out", "other_operation"}
    | {"reduction", "scale"},
    Trait.FIRST_LAYERS: READ_OTHERWISE
    | ORDER_OF_AN_INPUT
    | {"input_scale", "input_shift", "shifted_image", "stale_batch"},
    Trait.INPUT_LAYOUT: ORDER_OF_AN_INPUT,
    Trait.BEHIND_LAYERS: {"cross_entropy", "gradient_factor", "loss_scale", "labels_shifted"},
    Trait.BEHIND_LOSSES: {"some_towers"},
    Trait.FACTOR_OF_LOSSES: {"gradient_factor", "loss_scale"},
    Trait.OTHER_EXAMPLES: READ_OTHERWISE,
    Trait.FITS_WHAT_IS_LEFT: {"rectifier", "dropout_active", "bias_missing", "other_shard", "cross_entropy"},
    Trait.BESIDE_A_LOSS: {"some_towers", "clipping", "rows_without_gradient", "stale_gradient", "reduced_precision"},
    Trait.SAME_NUMBERS: {"moved_values", "channel_order"},
    Trait.NO_GRADIENT: {"zero_gradient", "rows_without_gradient"},
}


@pytest.mark.parametrize("trait", TRAITS)
def test_which_causes_have_a_trait(trait):
    assert causes_with(trait) == TRAITS[trait]


def test_what_names_inputs_weights_and_layers_comes_before_what_says_the_same_of_an_op():
    families = ("What goes in", "Weights and values of the port's own", "Layers")
    named = {row.name for family in families for row in FAMILIES[family]}
    assert causes_with(Trait.OF_A_LAYER) == named - TRAITS[Trait.OF_AN_OP]


def test_how_exact_causes_are():
    places = {"border", "activation_factor", "moved_values", "not_finite", "other_operation"}
    assert {name for name in CAUSES if is_place_only(name)} == places
    assert {name for name in CAUSES if not is_exact(name)} == places | TRAITS[Trait.ONLY_ALONE]
    assert [name for name, row in CAUSES.items() if not row.complete] == ["reduced_precision"]


def test_what_follows_from_causes():
    adam = ("learning_rate", "bias_correction", "adam_epsilon")
    assert {name: row.implies for name, row in CAUSES.items() if row.implies} == {
        "activation_function": ("rectifier",),
        "shifted_schedule": ("learning_rate",),
        "slow_schedule": ("learning_rate",),
        "adam_beta": adam,
        "optimizer_rule": (*adam, "momentum", "nesterov"),
        "updated_twice": ("learning_rate", "momentum", "nesterov", "gradient_factor", "bias_correction"),
    }
    assert {name: row.doubts for name, row in CAUSES.items() if row.doubts} == {
        "trained_twice": ("learning_rate", "gradient_factor")
    }
    assert {name: row.refined_by for name, row in CAUSES.items() if row.refined_by} == {
        "random_draw": ("dropout_active",)
    }


PROVEN_IN = {
    "detectors": Proof.NUMBERS,
    "layers": Proof.RECOMPUTED,
    "located": Proof.RECOMPUTED,
    "interventions": Proof.RERUN,
}


def test_every_cause_says_how_it_is_found_to_hold():
    assert not [name for name, row in CAUSES.items() if not row.proof]


def test_a_row_says_how_the_module_that_names_a_cause_proves_it():
    named = [
        (path, name, PROVEN_IN[Path(path).parent.name])
        for path, call in calls(*BUILDING)
        if Path(path).parent.parent.name == "diagnose" and Path(path).parent.name in PROVEN_IN
        for name in constants(call.args[0])
    ]
    assert {proof for _, _, proof in named} == {*PROVEN_IN.values()}
    assert [(path, name) for path, name, proof in named if proof not in CAUSES[name].proof] == []
