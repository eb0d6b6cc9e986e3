"""Differences declared on purpose: the port has to do exactly them, and nothing else."""

import shutil
from pathlib import Path

import pytest

from parity.case import CaseError, as_declared, load_case
from parity.cli import main
from parity.experiment import run_case

SQUARE = Path(__file__).parents[1] / "cases" / "square"
WHY = '\n[expect]\nwhy = "the new recipe"\nby = "ada"\n'


@pytest.fixture
def square(tmp_path) -> Path:
    shutil.copytree(SQUARE, tmp_path / "square")
    case = tmp_path / "square" / "case.toml"
    described = 'name = "adam"\nlearning_rate = 1e-3'
    assert described in case.read_text()
    case.write_text(case.read_text().replace(described, 'name = "sgd"\nlearning_rate = 0.1'))
    return tmp_path / "square"


def declare(
    folder: Path, expect: str, combine: str = "mean", torch: str = "", port: str = "", optimizer: str = ""
) -> Path:
    """Writes [expect] and what the port does: an optimizer of its own, or another way to combine."""
    case = folder / "case.toml"
    text = case.read_text().replace('combine = "mean"', f'combine = "{combine}"')
    text = text.replace('loss = "model_torch:loss"', f'loss = "model_torch:loss"\n{torch}')
    case.write_text(text + WHY + expect + "\n")
    if optimizer:
        (folder / "own.py").write_text(optimizer)
    return folder


def explain(result):
    return "\n".join(f"{level.reason} {level.first_difference} {level.causes}" for level in result.levels.values())


def own_sgd(rate):
    return (
        "from torch_ddp.like_tf import GradientDescent\n\n\ndef make(model):\n"
        f"    return GradientDescent(model.parameters(), lr={rate!r})\n"
    )


def test_a_sum_with_a_rate_against_a_mean_with_a_rate_times_the_towers_is_the_same(tf2_sides, square):
    declare(
        square,
        'combine = "mean"\nlearning_rate_factor = 2',
        combine="sum",
        torch='combine = "mean"\noptimizer = "own:make"',
        optimizer=own_sgd(0.2),
    )
    result = run_case(load_case(square), tf2_sides)
    assert result.verdict == "same", explain(result)
    assert [(each.key, each.found) for each in result.declared] == [
        ("combine", "holds"),
        ("learning_rate_factor", "holds"),
    ]
    assert result.notes[:2] == [
        "declared by ada: gradients combined by their mean, where the towers take the sum, which holds (the new recipe)",
        "declared by ada: a learning rate 2 times the towers', which holds (the new recipe)",
    ]


SCALED = """
plain = loss


def loss(model, **inputs):
    value, outputs = plain(model, **inputs)
    return 2 * value, outputs
"""
DECAYED = SCALED.replace("2 * value", "value + 0.005 * sum(w.square().sum() for w in model.parameters())")


@pytest.mark.parametrize(
    ("expect", "port"), [("loss_factor = 2", SCALED), ("weight_decay = { coefficient = 0.01 }", DECAYED)]
)
def test_what_a_port_does_to_its_loss_on_purpose_holds_or_is_not_there(tf2_sides, square, expect, port):
    text = (square / "model_torch.py").read_text()
    declare(square, expect)
    absent = run_case(load_case(square), tf2_sides, levels=("function",))
    assert absent.verdict == "different"
    key = expect.split(" ")[0]
    assert [(each.key, each.found) for each in absent.declared] == [(key, "absent")]
    assert absent.causes[0].name == "declared_difference_absent"
    assert absent.causes[0].title.startswith("the declared difference is not there: ")
    assert "WHICH IS NOT THERE (the new recipe)" in absent.notes[0]
    mended = shutil.copytree(square, square.parent / "mended")  # elsewhere: a side loads a module once
    (mended / "model_torch.py").write_text(text + port)
    there = run_case(load_case(mended), tf2_sides, levels=("function",))
    assert there.verdict == "same", explain(there)
    assert [each.found for each in there.declared] == ["holds"]


def test_another_difference_than_the_declared_one_is_a_difference_and_not_called_absent(tf2_sides, square):
    declare(square, "learning_rate_factor = 2", torch='optimizer = "own:make"', optimizer=own_sgd(0.3))
    result = run_case(load_case(square), tf2_sides, levels=("function",))
    assert result.verdict == "different"
    assert [each.found for each in result.declared] == ["not_known"]
    assert all(cause.name != "declared_difference_absent" for cause in result.causes)
    assert "of which nothing is known" in result.notes[0]


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        (
            '[expect]\nwhy = "x"\n',
            "expect: expected a difference, got none. Write what the port does otherwise (combine,",
        ),
        ("[expect]\nloss_factor = 2\n", 'expect.why: expected to be there, got none. Write why = "..."'),
        (
            '[expect]\nwhy = "x"\ncombine = "mean"\n',
            'expect.combine: expected "sum", since the towers do what [expect]',
        ),
        (
            '[expect]\nwhy = "x"\nloss_factor = 1\n',
            "expect.loss_factor: expected a factor other than 1, got 1. Leave it out.",
        ),
        (
            '[expect]\nwhy = "x"\nloss_factor = "a/b"\n',
            "expect.loss_factor: expected a positive number or a fraction such as",
        ),
        ('[expect]\nwhy = "x"\nloss_factor = -2.0\n', "expect.loss_factor: expected more than 0"),
        (
            '[expect]\nwhy = "x"\nloss_fctor = 2\n',
            "expect.loss_fctor: expected a key of this table, got an unknown one. Did you mean",
        ),
        (
            '[expect]\nwhy = "x"\nweight_decay = { coeficient = 1e-4 }\n',
            "expect.weight_decay.coeficient: expected a key of this table, got an unknown one. Did you mean 'coefficient'?",
        ),
    ],
)
def test_a_declaration_that_says_nothing_or_cannot_be_is_refused(square, expect, complaint):
    case = square / "case.toml"
    case.write_text(case.read_text() + "\n" + expect)
    with pytest.raises(CaseError) as refused:
        load_case(square)
    assert complaint in str(refused.value)


def test_what_changes_the_update_needs_a_described_optimizer_and_an_added_decay_the_same_weights(square):
    case = square / "case.toml"
    whole = case.read_text()
    table = whole.index("[optimizer]")
    own = whole[:table] + whole[whole.index("[", table + 1) :]
    case.write_text(own + WHY + "learning_rate_factor = 2\n")
    with pytest.raises(CaseError, match=r"expect\.learning_rate_factor: expected an \[optimizer\] table"):
        load_case(square)
    decays = whole.replace("[optimizer]", '[optimizer]\nweight_decay = { coefficient = 1e-3, only = "a" }')
    case.write_text(decays + WHY + "weight_decay = { coefficient = 1e-3 }\n")
    with pytest.raises(
        CaseError, match=r"expect\.weight_decay\.only: expected only = 'a' as in optimizer\.weight_decay"
    ):
        load_case(square)


def test_the_reference_is_built_with_what_is_declared_and_only_once(square):
    fraction = 'learning_rate_factor = "1/4"\nloss_factor = 3\ncombine = "sum"\nweight_decay = { coefficient = 0.5 }'
    case = load_case(declare(square, fraction))
    built = as_declared(case)
    assert built.optimizer.learning_rate == case.optimizer.learning_rate / 4
    assert (built.combine, built.expect.loss_factor, built.optimizer.weight_decay.coefficient) == ("sum", 3.0, 0.5)
    assert as_declared(built) == built


def test_a_schedule_is_multiplied_whole():
    from parity.case import Schedule
    from parity.case.intended import times

    pieces = Schedule(schedule="piecewise_constant", boundaries=[1], values=[0.2, 0.1])
    assert times(pieces, 2.0).values == [0.4, 0.2]
    ramp = Schedule(schedule="polynomial_decay", learning_rate=0.2, decay_steps=4, end_learning_rate=0.1)
    assert (times(ramp, 0.5).learning_rate, times(ramp, 0.5).end_learning_rate) == (0.1, 0.05)


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_the_command_line_says_what_was_declared_and_writes_it(square, tmp_path, capsys):
    import json

    declare(square, "loss_factor = 2")
    assert main(["run", str(square), "--levels", "1", "--steps", "2", "--json", str(tmp_path / "r.json")]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "declared by ada: losses 2 times the towers', WHICH IS NOT THERE (the new recipe)" in printed
    assert "Cause: the declared difference is not there: losses 2 times the towers'" in printed
    assert json.loads((tmp_path / "r.json").read_text())["declared"][0]["found"] == "absent"
