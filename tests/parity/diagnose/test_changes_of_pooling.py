"""A pooling's windows begin elsewhere, or it takes another function of them: of a graph's, and of torch's."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.edit import Near
from parity.diagnose.edits.ops import plain_edits
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.windows import pooled

NOTHING = Near(set(), [], [], [], [], frozenset(), False)
RANDOM = np.random.default_rng(14)
IMAGE, SEQUENCE = RANDOM.normal(size=(2, 6, 4, 3)), RANDOM.normal(size=(2, 8, 3))
ROWS = SEQUENCE[:, :, None, :]  # a sequence is pooled as an image of one column


def edits(kind, given, output, attributes):
    run = RecomputedPass(passed(("Relu", [given], given), (kind, [0], output, attributes)))
    return [each for each in plain_edits(run, 1, NOTHING) if each.name in ("padding", "pooling")]


@pytest.mark.parametrize(
    ("kind", "given", "attributes", "size"),
    [
        ("MaxPool", IMAGE, {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}, (3, 3)),
        ("MaxPool", ROWS, {"ksize": [1, 3, 1, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}, (3, 1)),
        ("AvgPool", IMAGE, {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}, (3, 3)),
    ],
)
def test_a_graphs_pooling_is_done_with_its_windows_elsewhere(kind, given, attributes, size):
    strides = attributes["strides"][1:3]
    ends = [(0, 1) if window > 1 else (0, 0) for window in size]
    starts = [(1, 0) if window > 1 else (0, 0) for window in size]
    mean = kind == "AvgPool"
    found = edits(kind, given, pooled(given, size, strides, ends, mean, False), attributes)
    begun = [each for each in found if each.name == "padding" and "begin 1 in front" in each.changed]
    assert len(begun) == 1 and begun[0].as_is.endswith("at the first place")
    assert np.array_equal(
        begun[0].value, pooled(given, size, strides, starts, mean, False)[:, : begun[0].value.shape[1], :2]
    )
    others = {each.changed for each in found if each.name == "pooling"}
    other = "maximum" if mean else "mean"
    assert f"takes the {other} of windows that begin at the first place" in others
    if mean:
        assert "takes the mean of windows that begin at the first place, padding counted" in others


def test_a_pooling_of_torch_is_done_with_its_windows_elsewhere():
    output = np.moveaxis(pooled(SEQUENCE, [3], [2], [(1, 1)], False, False), -1, 1)
    given = np.moveaxis(SEQUENCE, -1, 1)
    found = edits("max_pool1d", given, output, {"1": 3, "2": 2, "3": 1})
    at_once = next(
        each for each in found if each.changed == "takes the maximum of windows that begin at the first place"
    )
    expected = pooled(SEQUENCE, [3], [2], [(0, 1)], False, False)
    assert at_once.name == "padding" and np.array_equal(at_once.value, np.moveaxis(expected, -1, 1))


def test_a_pooling_of_no_known_rule_is_left_alone():
    assert edits("max_pool1d", np.moveaxis(SEQUENCE, -1, 1), RANDOM.normal(size=(2, 3, 4)), {"1": 3, "2": 2}) == []
    assert edits("MaxPool", IMAGE, IMAGE[:, :3, :2] * 7, {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1]}) == []
