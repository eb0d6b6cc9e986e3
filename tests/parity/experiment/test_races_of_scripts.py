"""Where a recorded script's own float32 numbers are not what its graph says: which are told, and by what measure."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.made_recording import made_recording

from parity.experiment.replay.ill_conditioned import race_notes
from parity.experiment.replay.script import parts_of
from parity.judge.result import Check
from parity.trace import Trace, TraceWriter, break_ties, break_ties_of_inputs

FAR = 2.0**14 * 2.0**-24  # 2^14 unit roundoffs of float32
NORM = 8.0  # of all combined gradients


def trace(folder, tensors):
    writer = TraceWriter(folder, {"package": "made"})
    writer.init({})
    writer.step(3, tensors)
    writer.close()
    return Trace(folder)


def noted(folder, key, size, off, checks=()):
    exact = {"grad/all": np.array([NORM]), key: np.array([size])}
    rough = {"grad/all": np.array([NORM]), key: np.array([size + off])}
    traces = SimpleNamespace(reference32=trace(folder / "rough", rough), reference64=trace(folder / "exact", exact))
    part = SimpleNamespace(steps=[3])
    return race_notes(part, traces, SimpleNamespace(directory=str(folder / "shadow")), checks)


@pytest.mark.parametrize(
    ("key", "size", "measure"),
    [
        ("var/w", 3.0, 3.0),
        ("loss/0", 3.0, 3.0),
        # Of a gradient that is small beside all others, rounding of the others is in it.
        ("grad/w", 1e-9, 1e-3 * NORM),
        ("tower_grad/0/w", 0.0, 1e-3 * NORM),
        ("slot/m/w", 1e-9, 1e-9),
    ],
)
def test_what_is_16384_unit_roundoffs_from_the_graph_is_told(tmp_path, key, size, measure):
    assert not noted(tmp_path / "inside", key, size, 0.99 * FAR * measure)
    [note] = noted(tmp_path / "outside", key, size, 1.01 * FAR * measure)
    quantity = key.partition("/")[0]
    assert note.startswith(
        f"the script's own {quantity} is not what its graph computes: {key} of step 3 is 1.7e+04 unit roundoffs from it."
    )


@pytest.mark.parametrize(("key", "told"), [("var/w", 0), ("slot/m/w", 0), ("stat/w", 1), ("var/b", 1)])
def test_an_update_by_a_gradient_of_nothing_but_rounding_is_no_race(tmp_path, key, told):
    empty = [Check("lockstep", 3, "grad/w", "same", 0.0, 1.0, 1.0, 0.5)]
    assert len(noted(tmp_path, key, 1.0, 0.5, empty)) == told


@pytest.mark.parametrize("key", ["state/count", "feed/0/x"])
def test_what_is_given_is_no_race(tmp_path, key):
    assert not noted(tmp_path, key, 1.0, 0.5)


def test_steps_beside_a_tie_begin_from_weights_and_batches_that_were_moved_by_the_same_numbers(tmp_path):
    [part] = parts_of(Trace(made_recording(tmp_path)))
    beside, inputs = replace(part, aside="weights"), replace(part, aside="inputs")
    plain = part.tensors(1, part.trace.step(1))
    fed = {name: value for name, value in plain.items() if name.startswith("feed/")}
    for each, moved in ((beside, break_ties(fed, 1)), (inputs, break_ties_of_inputs(fed, 1))):
        for name, value in each.batch(1).items():
            pieces = [moved[name.replace("feed/", f"feed/{tower}/")] for tower in range(2)]
            np.testing.assert_array_equal(value, np.concatenate(pieces))
    kernel = "var/dense/kernel"
    assert (beside.before(1)[kernel] != part.before(1)[kernel]).any()
    np.testing.assert_array_equal(beside.before(1)[kernel], break_ties(part.before(1), 1)[kernel])
    np.testing.assert_array_equal(inputs.before(1)[kernel], break_ties_of_inputs(part.before(1), 1)[kernel])
    assert (inputs.batch(1)["feed/x"] != part.batch(1)["feed/x"]).any()
