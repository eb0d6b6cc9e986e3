"""How tensors of a trace are named, in sections too, and that one module alone knows it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.experiment.rejudge.ill_conditioned import of_the_optimizer
from parity.experiment.sides.tensorflow_side import _filled_up
from parity.experiment.translate import of_file
from parity.judge.result import Check, FirstDifference
from parity.mapping import Mapping
from parity.mapping.trace_map import Join
from parity.trace import (
    PER_TOWER,
    QUANTITIES,
    TensorFile,
    TensorKey,
    Trace,
    TraceWriter,
    batch_input,
    batch_name,
    input_of,
    is_computed,
    key_of,
    parse_key,
    quantity_of,
    role_of,
    section_of,
    section_prefix,
    select,
    trace_name,
    write_tensors,
)
from parity.trace.arrays import dense_rows

ROOT = Path(__file__).parents[2]
WORD = st.text("abc.:_0", min_size=1, max_size=4)


@st.composite
def keys(draw):
    quantity = draw(st.sampled_from(QUANTITIES))
    return TensorKey(
        draw(st.one_of(st.just(""), WORD)),
        quantity,
        draw(WORD) if quantity in PER_TOWER else "",
        draw(WORD) if quantity == "slot" else "",
        "/".join(draw(st.lists(WORD, min_size=quantity != "loss", max_size=3))),
    )


@given(keys())
def test_a_key_is_what_its_name_is_taken_apart_into(key):
    text = str(key)
    assert parse_key(text) == key
    assert quantity_of(text) == key.quantity
    assert section_of(text) == key.section
    assert text.startswith(section_prefix(key.section))
    assert key_of(key.quantity, key.name, tower=key.tower, slot=key.slot, section=key.section) == key
    assert trace_name(**key._asdict()) == text


def test_another_quantity_of_the_variable_stays_in_the_section_unless_it_is_the_models():
    slot = parse_key("section/head/slot/m/out/kernel")
    assert str(slot.of("var")) == "var/out/kernel"
    assert str(slot.of("grad")) == "section/head/grad/out/kernel"
    assert str(slot.of("slot")) == str(slot)
    assert str(parse_key("tower_grad/1/w").of("grad")) == "grad/w"
    assert str(parse_key("tower_grad/1/w").of("tower_clip")) == "tower_clip/1/w"
    assert role_of(slot) == "section/head/slot/m"
    assert role_of(parse_key("ema/w")) == "ema"


def test_selecting_and_files_tell_quantities_in_every_section(tmp_path):
    tensors = {name: np.zeros(1) for name in ("slot/m/w", "section/head/slot/m/v", "var/w", "state/slot")}
    assert list(select(tensors, "slot")) == ["slot/m/w", "section/head/slot/m/v"]
    write_tensors(tmp_path / "x.safetensors", tensors)
    file = TensorFile(tmp_path / "x.safetensors")
    assert file.names() == list(tensors)
    assert file.names("slot", "var") == ["slot/m/w", "section/head/slot/m/v", "var/w"]
    assert [key.section for key in file.keys("slot")] == ["", "head"]
    assert all(key in file and file.read(key).shape == file.shape(key) == (1,) for key in map(parse_key, tensors))
    assert key_of("var", "v") not in file


def test_a_section_without_a_quantity_is_none():
    assert [section_of(text) for text in ("section/head", "section", "var/section/head", "section/head/var/w")] == [
        "",
        "",
        "",
        "head",
    ]
    assert [quantity_of(text) for text in ("section/head", "section/head/var/w")] == ["section", "var"]


def test_computed_counters_are_told_in_every_section():
    assert is_computed("state/learning_rate") and is_computed("section/head/state/skipped")
    assert not is_computed("state/global_step") and not is_computed("var/learning_rate")


def test_inputs_are_told_with_and_without_a_tower():
    assert batch_input(batch_name("image/left")) == "image/left"
    names = ("feed/image/left", "feed/0.1/image", "section/head/feed/2/image", "var/image")
    assert [input_of(name) for name in names] == ["image/left", "image", "image", None]


def test_weights_under_the_names_of_a_trace_may_belong_to_sections(tmp_path):
    described = {"w": {"shape": [2], "dtype": "float32", "kind": "weight"}}
    TraceWriter(tmp_path / "trace", {"package": "test"}, {}, described).close()
    tensors = {"var/w": np.ones(2), "section/head/slot/m/w": np.zeros(2)}
    write_tensors(tmp_path / "x.safetensors", tensors)
    assert list(of_file(tmp_path / "x.safetensors", Trace(tmp_path / "trace"))) == list(tensors)


@pytest.mark.parametrize(
    ("section", "of_gradient"), [("", ""), ("section/head/", ""), ("section/head/", "section/head/")]
)
def test_a_slot_that_gradients_move_is_not_at_rest_in_a_section_either(tmp_path, section, of_gradient):
    names = {f"{section}slot/m/w": np.ones(1), f"{of_gradient}grad/w": np.ones(1)}
    write_tensors(tmp_path / "one.safetensors", {})
    write_tensors(tmp_path / "other.safetensors", names)
    files = (TensorFile(tmp_path / name) for name in ("one.safetensors", "other.safetensors"))
    assert f"{section}slot/m/w" in Join(Mapping([]), {}, ["m"]).unjoined(*files)


@pytest.mark.parametrize("section", ["", "section/head/"])
@pytest.mark.parametrize(("gradient", "slot"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
def test_a_gradient_of_zeros_is_none(tmp_path, section, gradient, slot):
    own = {f"{section}{each}/w": np.array([0.0, gradient]) for each in ("tower_grad/0", "tower_grad/1", "grad")}
    write_tensors(tmp_path / "one.safetensors", {})
    write_tensors(tmp_path / "other.safetensors", {**own, f"{section}slot/m/w": np.array([slot, 0.0])})
    files = (TensorFile(tmp_path / name) for name in ("one.safetensors", "other.safetensors"))
    expected = {*own} if gradient else set()
    expected |= {f"{section}slot/m/w"} if gradient or slot else set()
    assert {*Join(Mapping([]), {}, ["m"]).unjoined(*files)} == expected


def test_what_a_checkpoint_lacks_is_counted_by_quantity_in_sections_too():
    names = ["section/head/slot/m/w", "slot/m/v", "section/head/state/beta1_power", "ema/w"]
    assert "2 slots, 1 counters, 1 averages" in _filled_up(names)[0]


def test_a_learning_rate_of_one_of_several_optimizers_is_the_optimizers_too():
    def differs(text):
        key = parse_key(text)
        return FirstDifference(Check("lockstep", 1, text, "different"), key.quantity, key.name, "", None)

    assert of_the_optimizer(differs("state/learning_rate")) and of_the_optimizer(
        differs("section/head/state/learning_rate")
    )
    assert not of_the_optimizer(differs("section/head/state/global_step"))


def test_both_parts_of_a_sparse_gradient_belong_to_one_variable():
    for text in ("grad/a.b.values", "grad/a.b.indices", "grad/a.b", "section/x/tower_grad/1/a.b.values"):
        assert parse_key(text).variable == "a.b"
    assert parse_key("act/0/x.valuesof").variable == "x.valuesof"


def test_rows_of_a_table_that_are_there_twice_are_added_up():
    table = dense_rows(np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([2, 0, 2]), (4, 2))
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, [[3, 4], [0, 0], [6, 8], [0, 0]])
