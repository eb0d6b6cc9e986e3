"""The training program that is written beside a port."""

import ast
from types import SimpleNamespace

import numpy as np
import pytest

from parity.port.prove import left_to_write
from parity.port.scripts.initial import Initial
from parity.port.scripts.train import Program, inputs_of, source_of
from parity.port.training.optimizer import Training
from parity.port.weights import carried_weights
from parity.trace import Trace, TraceWriter, write_tensors


@pytest.fixture
def part(tmp_path):
    writer = TraceWriter(tmp_path / "trace", {"package": "test"}, {}, {})
    writer.init({})
    for number, words in enumerate([5, 7]):
        fed = {f"feed/{tower}/images": np.zeros((4, 8, 8, 3), np.float32) for tower in range(2)}
        fed["feed/0/words"] = np.zeros((4, words), np.int32)
        fed["feed/0/rate"] = np.zeros((), np.float32)
        writer.step(number, fed)
    writer.close()
    facts = {"combine": "sum", "optimizer": {"name": "AdamOptimizer"}}
    return SimpleNamespace(trace=Trace(tmp_path / "trace"), steps=[0, 1], towers=2, facts=facts, own=lambda text: text)


def program(part, *defined, unknown=(), **training):
    initial = Initial(["nn.init.zeros_(model.fc.bias)"], list(unknown))
    return Program('train"""\n.py', part, initial, frozenset(defined), False, Training(**training))


def test_the_data_side_is_typed_by_what_each_rank_was_fed(part):
    assert inputs_of(part) == [("images", "float32", (4, 8, 8, 3)), ("words", "int32", (4, "batch"))]
    source = source_of(program(part, "optimizer"), [])
    assert "images: float32 [4, 8, 8, 3]" in source and "words: int32 [4, batch]" in source
    assert left_to_write(source) == {"batches"}


def test_gradients_are_combined_as_the_script_combines_them(part):
    assert 'GradientReduction(ddp, "sum")' in source_of(program(part, "optimizer"), [])
    part.facts["combine"] = "mean"
    assert "GradientReduction" not in source_of(program(part, "optimizer"), [])


def test_a_schedule_is_stepped_after_each_update(part):
    source = source_of(program(part, "optimizer", "schedule"), [])
    assert "from port import Model, loss, optimizer, schedule" in source
    assert source.index("updates.step()") < source.index('parts["schedule"].step()') < source.index("save(step)")


def test_a_rate_that_the_script_feeds_is_left_to_write_and_set_before_each_update(part):
    source = source_of(program(part, "optimizer", fed="lr"), [])
    assert left_to_write(source) == {"batches", "learning_rate"}
    assert "optimizer(model, learning_rate(0))" in source and "like_tf.Scheduler(updates, learning_rate)" in source


@pytest.mark.parametrize(("counts", "call"), [(True, "update(step)"), (False, "update()")])
def test_averages_move_after_each_update_and_are_kept_in_checkpoints(part, counts, call):
    source = source_of(program(part, "optimizer", "averages", averages_count=counts), [])
    assert source.index("updates.step()") < source.index(f'parts["averages"].{call}') < source.index("save(step)")
    assert '"averages": averages(model)}' in source


def test_what_could_not_be_written_raises_in_a_function_of_its_own(part):
    source = source_of(program(part, unknown=["fc.weight"]), [])
    assert left_to_write(source) == {"batches", "optimizer", "initialize"}


def test_the_program_is_python_with_lines_of_a_readable_length_whatever_the_script_is_called(part):
    source = source_of(program(part, "optimizer"), ["UNPROVEN"])
    tree = ast.parse(source)
    assert "one rank for each tower" in ast.get_docstring(tree)
    assert max(map(len, source.splitlines())) <= 120


def test_a_checkpoint_is_carried_into_the_names_and_layouts_of_the_port(tmp_path):
    kernel = np.arange(2 * 3, dtype=np.float32).reshape(2, 3)
    write_tensors(tmp_path / "weights", {"fc/kernel": kernel, "global_step": np.array(3)})
    (tmp_path / "port.toml").write_text('[mapping]\n"fc/kernel" = { to = ["fc.weight"], transform = "transpose" }\n')
    carried = carried_weights(tmp_path / "weights", tmp_path / "port.toml")
    assert list(carried) == ["fc.weight"] and (carried["fc.weight"] == kernel.T).all()


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    write_tensors(tmp_path / "weights", {"other": np.zeros(3)})
    (tmp_path / "port.toml").write_text('[mapping]\n"fc/kernel" = { to = ["fc.weight"], transform = "transpose" }\n')
    with pytest.raises(ValueError, match="expected the variable 'fc/kernel'"):
        carried_weights(tmp_path / "weights", tmp_path / "port.toml")
