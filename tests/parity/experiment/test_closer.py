"""What is kept of single tensors and of the losses for reports that show them."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from parity.experiment.compare import compare_traces
from parity.judge.result import Check
from parity.judge.tensor_details import Losses, _looked_at, histogram
from parity.report.html.charts import draw_losses
from parity.trace import TraceWriter

BINS, PLACES = 24, 5
DIFFERENT, NEAREST = 60, 5
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def write(folder, steps, weights, **losses):
    variables = {
        name: {"shape": list(value.shape), "dtype": "float32", "kind": "weight"} for name, value in weights.items()
    }
    writer = TraceWriter(folder, {"framework": "numpy"}, {"towers": 2, "precision": "float32"}, variables)
    writer.init({f"var/{name}": value for name, value in weights.items()})
    for step in range(steps):
        tensors = {f"loss/{tower[1:]}": np.float32(at(step)) for tower, at in losses.items()}
        writer.step(step, {**tensors, **{f"grad/{name}": value for name, value in weights.items()}})
    writer.close()
    return folder


@given(arrays(np.float64, st.integers(1, 40), elements=FINITE))
def test_a_histogram_counts_every_value_once(values):
    found = histogram(values, float(values.min()), float(values.max()))
    assert len(found.counts) == BINS
    assert sum(found.counts) == values.size


def test_a_histogram_of_a_range_that_cannot_be_halved_has_one_bar():
    found = histogram(np.array([5e-324, 0.0]), 0.0, 5e-324)
    assert sorted(found.counts) == [*[0] * (BINS - 1), 2]


def test_a_histogram_counts_a_value_in_the_part_it_lies_in():
    found = histogram(np.array([0.0, 0.0, 0.99, BINS - 0.5, BINS]), 0.0, float(BINS))
    assert found.counts == [3, *[0] * (BINS - 2), 2]


@example(np.full((3, 4), 1.8e299), np.array([-1.79e308, np.inf, *[-1.79e308] * 10]).reshape(3, 4))
@given(arrays(np.float64, (3, 4), elements=st.floats()), arrays(np.float64, (3, 4), elements=st.floats()))
def test_any_two_tensors_can_be_looked_at_and_the_furthest_apart_come_first(one, other):
    found = _looked_at("function", Check("lockstep", 0, "grad/w", "different"), one, other)
    both = np.isfinite(one) & np.isfinite(other)
    assert found.size == 12
    assert found.finite == both.sum() == sum(found.reference.counts) == sum(found.candidate.counts)
    assert len(found.worst) <= PLACES
    with np.errstate(over="ignore", invalid="ignore"):
        apart = [abs(one[place.index] - other[place.index]) for place in found.worst]
    known = [each for each in apart if math.isfinite(each)]
    assert known == sorted(known, reverse=True)
    if both.any() and not both.all():
        assert not both[found.worst[0].index]


def test_the_tensors_that_differ_are_looked_at_where_they_differ_first(tmp_path):
    one = {"a": np.zeros((2, 3), np.float32), "b": np.ones(3, np.float32)}
    other = {"a": np.array([[0, 0, 0], [0, 4, 0]], np.float32), "b": np.ones(3, np.float32)}
    same = {"t0": lambda step: 1.0, "t1": lambda step: 2.0}
    result = compare_traces(
        write(tmp_path / "x", 3, one, **same), write(tmp_path / "y", 3, other, **same), in_detail=True
    )
    first = result.closer[0]
    assert (first.level, first.run, first.step, first.key) == ("float32", "free", 0, "grad/a")
    assert first.worst == [((1, 1), 0.0, 4.0)]
    assert (first.apart.low, first.apart.high) == (0.0, 4.0)
    assert first.apart.counts == [5, *[0] * (BINS - 2), 1]
    assert [each.key for each in result.closer if each.key == "grad/b"] in ([], ["grad/b"])
    assert len(result.closer) <= DIFFERENT + NEAREST


def test_nothing_is_looked_at_unless_asked_or_beyond_what_may_be_read(tmp_path, monkeypatch):
    folders = [write(tmp_path / name, 1, {"a": np.full(9, value, np.float32)}) for name, value in (("x", 0), ("y", 1))]
    result = compare_traces(*folders)
    assert (result.closer, result.losses) == ([], [])
    monkeypatch.setattr("parity.experiment.level_details.MOST_ELEMENTS", 8)
    assert compare_traces(*folders, in_detail=True).closer == []


def test_the_losses_are_means_over_the_towers_and_are_drawn_with_what_is_allowed(tmp_path):
    weights = {"a": np.ones(2, np.float32)}
    one = write(tmp_path / "x", 3, weights, t0=lambda step: 4.0 - step, t1=lambda step: 2.0 - step)
    other = write(tmp_path / "y", 3, weights, t0=lambda step: 4.0 - step, t1=lambda step: 2.0)
    losses = compare_traces(one, other, in_detail=True).losses[0]
    assert (losses.level, losses.run, losses.steps) == ("float32", "free", [0, 1, 2])
    assert (losses.reference, losses.candidate) == ([3.0, 2.0, 1.0], [3.0, 2.5, 2.0])
    drawn = draw_losses(losses)
    assert drawn.label == "2 float32: free run"
    assert [line.kind for chart in drawn.charts for line in chart.lines] == [
        "envelope",
        "reference",
        "candidate",
        "allowed",
        "difference",
    ]
    assert drawn.charts[0].told.startswith(
        "Losses over 3 steps: the reference's from 3 to 1, the candidate's from 3 to 2"
    )
    assert [row[:4] for row in drawn.rows] == [("0", "3", "3", "0"), ("1", "2", "2.5", "0.5"), ("2", "1", "2", "1")]


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("steps", [1, 3, 4000])
def test_losses_that_are_not_finite_leave_a_gap_and_no_number(broken, steps):
    values = [1.0] * (steps - 1) + [broken]
    drawn = draw_losses(Losses("function", "free", list(range(steps)), values, values, [0.0] * steps))
    points = " ".join(line.points for chart in drawn.charts for line in chart.lines)
    assert "nan" not in points
    assert "inf" not in points
    assert len(points.split()) <= 6 * 1001
