"""How tensors of a trace are named: names come apart and together, and what says too little is refused."""

import pytest

from parity.trace import parse_key
from parity.trace.keys import QUANTITIES, TensorKey, key_of, quantity_of, role_of, select, trace_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("state/lr", ("", "state", "", "", "lr")),
        ("feed/0/x", ("", "feed", "0", "", "x")),
        ("loss/0", ("", "loss", "0", "", "")),
        ("loss/1/aux", ("", "loss", "1", "", "aux")),
        ("tower_grad/0.1/a/b", ("", "tower_grad", "0.1", "", "a/b")),
        ("slot/m/a/b", ("", "slot", "", "m", "a/b")),
        ("slot/m/0", ("", "slot", "", "m", "0")),
        ("grad/0/slot", ("", "grad", "", "", "0/slot")),
        ("section/gan/grad/a", ("gan", "grad", "", "", "a")),
        ("section/gan/slot/m/a/b", ("gan", "slot", "", "m", "a/b")),
        ("section/gan/loss/1", ("gan", "loss", "1", "", "")),
        ("var/section/grad/w", ("", "var", "", "", "section/grad/w")),
        ("var/w", ("", "var", "", "", "w")),
    ],
)
def test_names_come_apart_and_together(text, parts):
    key = parse_key(text)
    assert tuple(key) == parts and str(key) == text
    assert quantity_of(text) == key.quantity
    assert trace_name(key.quantity, key.name, tower=key.tower, slot=key.slot, section=key.section) == text
    assert key_of(key.quantity, key.name, tower=key.tower, slot=key.slot, section=key.section) == key


@pytest.mark.parametrize("text", ["", "weights/a", "section", "section/head", "section/head/weights/a", "0/loss"])
def test_names_that_begin_with_no_quantity_are_refused(text):
    with pytest.raises(ValueError, match="trace: expected a name that starts with one of state, feed") as refused:
        parse_key(text)
    assert ", ".join(QUANTITIES) in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        *QUANTITIES,
        *(f"{quantity}/" for quantity in QUANTITIES if quantity not in ("loss", "slot")),
        *("loss/", "loss//aux", "slot/", "slot/m", "slot/m/", "slot//w"),
        *("feed/0", "tower_grad/0", "tower_clip/0/", "section/gan/loss", "section/gan/grad", "section/gan/slot/m"),
    ],
)
def test_names_that_lack_a_part_are_refused(text):
    with pytest.raises(ValueError, match="to go on") as refused:
        parse_key(text)
    assert repr(text) in str(refused.value)


def test_what_a_tensor_is_to_its_variable_has_neither_its_name_nor_its_tower():
    roles = {role_of(parse_key(text)) for text in ("tower_grad/0/w", "tower_grad/1/b")}
    assert roles == {"tower_grad"}
    assert role_of(parse_key("section/head/slot/m/w")) == "section/head/slot/m"


def test_tensors_of_some_quantities_are_chosen_in_every_section():
    tensors = {"var/w": 1, "section/a/grad/w": 2, "slot/var/w": 3, "grad/var": 4, "loss/0": 5}
    assert select(tensors, "grad", "loss") == {"section/a/grad/w": 2, "grad/var": 4, "loss/0": 5}
    assert select(tensors, "var") == {"var/w": 1} and select(tensors) == {}


@pytest.mark.parametrize(
    ("text", "quantity", "other"),
    [
        ("section/a/slot/m/w", "slot", "section/a/slot/m/w"),
        ("section/a/slot/m/w", "var", "var/w"),
        ("section/a/grad/w", "stat", "stat/w"),
        ("section/a/grad/w", "ema", "ema/w"),
        ("tower_grad/1/w", "grad", "grad/w"),
        ("tower_grad/1/w", "tower_clip", "tower_clip/1/w"),
        ("section/a/tower_grad/1/w", "clip", "section/a/clip/w"),
    ],
)
def test_another_quantity_of_a_variable_keeps_what_that_has_a_place_for(text, quantity, other):
    assert str(parse_key(text).of(quantity)) == other


def test_rows_of_a_sparse_gradient_and_their_places_are_of_one_variable():
    names = ["a.b.values", "a.b.indices", "a.b", "a.values.b"]
    assert [TensorKey("", "grad", "", "", name).variable for name in names] == ["a.b", "a.b", "a.b", "a.values.b"]
