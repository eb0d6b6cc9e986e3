"""Lessons as Jupyter notebooks: valid, of the text that the pages have, and executed."""

import importlib.util

import pytest
from lesson_stage import LESSONS, stored

from parity.teach.exercises.catalogue import EXERCISES
from parity.teach.notebook import notebook, write_notebook
from parity.teach.show import steps

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nbclient") is None or importlib.util.find_spec("ipykernel") is None,
    reason="needs nbformat, nbclient and ipykernel: pip install -c constraints.txt -e '.[dev]'",
)
EVERY = [pytest.param(number, marks=pytest.mark.slow) if number > 1 else number for number in LESSONS]


def executed(path):
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.read(path, as_version=4)
    NotebookClient(
        made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    return made


def printed(made):
    outputs = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs if output.output_type == "stream")


@pytest.mark.parametrize("number", EVERY)
def test_a_notebook_runs_and_its_unwritten_exercise_is_wrong(number, tmp_path):
    path = tmp_path / "lesson.ipynb"
    write_notebook(stored(number), path, len(LESSONS))
    lines = printed(executed(path)).splitlines()
    assert len(lines) == len(EXERCISES.get(number, ()))
    for line, exercise in zip(lines, EXERCISES.get(number, ()), strict=True):
        assert line.startswith(f"wrong: {exercise.name}, ")


def test_a_right_answer_in_the_notebook_is_right(tmp_path):
    path = tmp_path / "lesson.ipynb"
    write_notebook(stored(1), path, len(LESSONS))
    text = path.read_text(encoding="utf-8")
    assert text.count('"    ..."') == 1
    path.write_text(text.replace('"    ..."', '"    return np.split(batch, towers)"'), encoding="utf-8")
    assert printed(executed(path)) == "right: split\n"


@pytest.mark.parametrize("number", LESSONS)
def test_a_notebook_is_valid_and_has_every_step_number_and_claim(number):
    import nbformat

    played = stored(number)
    made = notebook(played, len(LESSONS))
    nbformat.validate(nbformat.from_dict(made))
    texts = ["".join(cell["source"]) for cell in made["cells"]]
    for step in steps(played):
        assert f"## {step.heading}\n\n{step.body}" in texts
    assert all(f"- {sentence}" in texts[-1] for sentence in played.claims)
    space = {}
    exec(texts[2].rpartition("\n")[0], space)
    assert space["NUMBERS"] == played.numbers
