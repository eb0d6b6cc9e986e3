"""Executes the programs of docs/towers.md, and holds its tables against the package."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "towers.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def _run(text, name):
    names = {}
    exec(compile(text, name, "exec"), names)
    if "stepper" in names:
        names["stepper"].close()
        return {"recorded": sorted(names["recorded"]), "state": sorted(names["state"])}
    return {key: np.asarray(names[key]) for key in ("norm", "before", "after")}  # noqa: F821


def test_the_builder_s_program_runs_and_records_what_the_page_says(tf):
    answer = tf(_run, text=PROGRAMS[0], name="docs/towers.md")
    assert {"clip/w", "grad/w", "loss/1", "tower_grad/0/b", "feed/0/x", "state/learning_rate"} <= set(
        answer["recorded"]
    )
    assert {"var/w", "ema/w", "slot/momentum/w", "state/global_step"} <= set(answer["state"])


def test_the_parts_alone_train(tf):
    answer = tf(_run, text=PROGRAMS[1], name="docs/towers.md")
    assert answer["norm"] > 1
    assert (answer["after"] < answer["before"]).all()


def test_there_are_two_programs():
    assert len(PROGRAMS) == 2


def _options():
    choices = __import__("tf_towers.graph.options", fromlist=["plan"])
    return {
        "choices": {name: list(values) for name, values in choices.OPTION_CHOICES.items()},
        "tables": list(choices.TABLES),
    }


@pytest.fixture
def rows():
    """The table of choices: option to what stands in its second column."""
    found = re.findall(r"^\| `(\w+)` \| (.*?) \| .* \|$", PAGE, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", values) for name, values in found}


def test_the_table_of_choices_lists_every_option_and_value_default_first(tf, rows):
    answer = tf(_options)
    for name, values in answer["choices"].items():
        assert rows[name] == values, name
    assert set(answer["tables"]) <= set(rows)
    assert set(rows) == set(answer["choices"]) | set(answer["tables"])


def _public():
    return {"names": [name for name in dir(tf_towers) if not name.startswith("_")]}  # noqa: F821


def test_every_name_in_the_table_of_parts_is_public(tf):
    parts = PAGE.split("| part | what it does |")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", parts)
    assert len(named) > 20
    assert set(named) <= set(tf(_public)["names"])


def test_every_hazard_on_the_page_has_the_test_that_it_names():
    table = PAGE.split("| what goes wrong | in the trace | test |")[1].split("\n\n")[0]
    named = re.findall(r"\| `(test_\w+)` \|$", table, re.MULTILINE)
    assert len(named) == len(set(named)) == table.count("\n| ") == 25
    sources = "\n".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in sources] == []


def _fact_names():
    training = tf_towers.build(small.linear, small.inputs(4), 2, small.sgd())  # noqa: F821
    return {"facts": list(tf_towers.facts(training, "float64", 1))}  # noqa: F821


def test_every_fact_on_the_page_is_one(tf):
    listed = PAGE.split("## What the facts say")[1].split("### What goes wrong")[0]
    named = set(re.findall(r"^- `(\w+)`:", listed, re.MULTILINE))
    assert len(named) >= 11
    assert named - {"synchronised"} <= set(tf(_fact_names)["facts"])
