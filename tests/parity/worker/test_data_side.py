"""What the data side says of functions that are not what a case's `batches` has to be."""

import sys

import pytest

from parity.trace import Trace
from parity.worker.data import Data
from parity.worker.protocol import SideError


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Returns what the side answers for a `batches` of this text, for 2 steps of 4 examples."""

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_data", raising=False)

    def ask(text):
        (tmp_path / "own_data.py").write_text(f"import numpy as np\n{text}\n")
        return Data().batches(
            {
                "folders": [str(tmp_path)],
                "batches": "own_data:batches",
                "steps": 2,
                "batch_size": 4,
                "seed": 0,
                "out": str(tmp_path / "out"),
            },
            lambda done, total: None,
        )

    return ask


def test_batches_are_written_down_for_both_sides(asked, tmp_path):
    text = "def batches(steps, batch_size, seed):\n    for _ in range(steps):\n        yield {'x': np.ones(batch_size)}"
    assert asked(text) == {"x": ["float64", [4]]}
    assert Trace(str(tmp_path / "out")).step_numbers == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def batches(batch_size): pass",
            "case: expected a function that can be called as batches(steps, batch_size, seed), got one of (batch_size): "
            "too many positional arguments. Let it take these, and no more without a default.",
        ),
        (
            "def batches(steps, size, seed): return {'x': np.ones(size)}",
            "own_data:batches: expected a batch for each step, got one dict. Yield the batches in a loop.",
        ),
        (
            "def batches(steps, size, seed): {'x': np.ones(size)}",
            "own_data:batches: expected a batch for each step, got one NoneType. Yield the batches in a loop.",
        ),
        (
            "def batches(steps, size, seed): yield np.ones(size), np.ones(size)",
            "own_data:batches: expected batches that are dicts of input name to array, got tuple. "
            'Yield {"x": x, "y": y}.',
        ),
        (
            "def batches(steps, size, seed): yield {'x': np.ones(size)}",
            "own_data:batches: expected 2 batches, got 1. Yield more, or lower 'steps' in the case.",
        ),
    ],
)
def test_what_are_no_batches_is_refused_in_one_line(asked, text, message):
    with pytest.raises(SideError) as error:
        asked(text)
    assert str(error.value) == message


def test_a_type_error_of_the_function_itself_comes_through(asked):
    with pytest.raises(TypeError, match="unsupported operand"):
        asked("def batches(steps, size, seed): return [steps + 'x']")
