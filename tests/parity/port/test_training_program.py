"""The training program that is written beside a port."""

import ast
from types import SimpleNamespace

import numpy as np
import pytest

from parity.port.prove import left_to_write
from parity.port.scripts.initial import Initial
from parity.port.scripts.sections import Program, Section, inputs_of, turns_of
from parity.port.scripts.train import source_of
from parity.port.scripts.updates import not_trained
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
    sections = [Section("", part, Training(**training), frozenset(defined))]
    return Program('train"""\n.py', sections, initial, False)


def in_turns(part, *steps, combine=("sum", "sum"), second=("optimizer",), **training):
    """A program of two optimizers that make updates in these steps, the second with more of its own."""
    parts = [
        SimpleNamespace(**{**vars(part), "steps": numbers, "facts": {**part.facts, "combine": how}})
        for numbers, how in zip(steps, combine, strict=True)
    ]
    sections = [
        Section("_critic", parts[0], Training(), frozenset(["optimizer"])),
        Section("_actor", parts[1], Training(**training), frozenset(second)),
    ]
    return Program("gan.py", sections, Initial([], []), False, turns_of(parts))


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


@pytest.mark.parametrize(
    ("steps", "order", "twice"),
    [
        (([0, 2], [1, 3]), [0, 1], True),
        (([0, 1, 3, 4], [2, 5]), [0, 0, 1], True),
        (([0, 1, 3], [2]), [0, 0, 1], False),  # ends in the middle of the second time
        (([1, 2, 3], [0]), [1, 0, 0, 0], False),
        (([0, 2, 4], [7]), [0, 0, 0, 1], False),  # runs in between train nothing
    ],
)
def test_the_order_of_optimizers_is_the_shortest_that_the_recorded_steps_repeat(steps, order, twice):
    assert turns_of([SimpleNamespace(steps=numbers) for numbers in steps]) == (order, twice)


def test_several_optimizers_make_updates_in_the_recorded_order_each_with_its_loss_and_its_inputs(part):
    source = source_of(in_turns(part, [0], [1]), [])
    assert 'TURNS = ["critic", "actor"]' in source
    assert "It trains in turn critic, actor, each with its own loss" in source and "but once" in source
    assert 'losses: dict[str, Callable[..., Tensor]] = {"critic": loss_critic, "actor": loss_actor}' in source
    critic, actor = source.partition("        critic:")[2].split("        actor:")
    assert "words: int32 [4, 5]" in critic and "words: int32 [4, 7]" in actor
    assert 'GradientReduction(ddp, "sum")' in source
    assert "schedule" not in source.partition("def train(")[2] and left_to_write(source) == {"batches"}


def test_of_several_optimizers_each_has_its_own_schedule_averages_and_fed_rate(part):
    source = source_of(in_turns(part, [0], [1], second=("optimizer", "averages"), fed="lr"), [])
    assert left_to_write(source) == {"batches", "learning_rate_actor"}
    assert "First write `batches` and `learning_rate_actor`" in source
    assert 'parts["optimizer_actor"] = optimizer_actor(model, learning_rate_actor(0))' in source
    assert 'like_tf.Scheduler(parts["optimizer_actor"], learning_rate_actor)' in source
    assert 'if f"schedule_{turn}" in parts:\n            parts[f"schedule_{turn}"].step()' in source
    assert 'if f"averages_{turn}" in parts:\n            parts[f"averages_{turn}"].update()' in source


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"steps": ([0], [0])}, "several optimizers train in one run"),
        ({"steps": ([0], [1]), "combine": ("sum", "mean")}, "averages the gradients of one optimizer"),
        ({"steps": ([0], [1]), "averages": "averages_actor", "averages_count": True}, "counts the averages of actor"),
    ],
)
def test_a_training_that_is_not_known_raises_under_its_name(part, given, why):
    steps = given.pop("steps")
    built = in_turns(part, *steps, **given)
    assert why in not_trained(built)
    source = source_of(built, [])
    assert left_to_write(source) == {"batches", "train"} and why in source


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
