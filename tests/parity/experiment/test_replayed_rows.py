"""Of a script whose optimizer is given rows, a replay combines rows, and leaves the others of the port's table alone."""

import numpy as np
import pytest

from parity.experiment.replay.port import Port, check_port
from parity.experiment.replay.port import _case as case_of
from parity.experiment.replay.script import ReplayError, parts_of
from parity.trace import Trace, TraceWriter

FACTS = {"towers": 2, "combine": "mean", "optimizer": {"name": "MomentumOptimizer", "learning_rate": 0.1}}
TABLE = {"table": {"shape": [4, 2], "dtype": "float32", "kind": "weight", "placement": "", "use": ""}}


def recorded(out, gradient, **facts) -> Trace:
    writer = TraceWriter(str(out), {"package": "tf_towers"}, {**FACTS, **facts}, TABLE)
    writer.init({"var/table": np.ones((4, 2), np.float32)})
    writer.step(0, {**gradient, "var/table": np.ones((4, 2), np.float32)})
    writer.close()
    return Trace(out)


@pytest.mark.parametrize(
    ("gradient", "combining"),
    [
        ({"grad/table": np.ones((4, 2), np.float32)}, {}),
        (
            {"grad/table.indices": np.array([1, 1]), "grad/table.values": np.ones((2, 2), np.float32)},
            {"sparse": "slices"},
        ),
    ],
)
def test_the_gradients_are_combined_as_the_scripts_optimizer_got_them(tmp_path, gradient, combining):
    (part,) = parts_of(recorded(tmp_path, gradient))
    case = case_of(part, Port("port:Model", {"": "port:loss"}, {}, [], 1.0))
    assert case["combining"] == combining
    assert "step" not in case


def test_a_step_of_the_ports_own_takes_the_place_of_an_optimizer_that_clips(tmp_path):
    (part,) = parts_of(recorded(tmp_path, {"grad/table": np.ones((4, 2), np.float32)}))
    part.facts["clipped"] = True
    port = Port("port:Model", {"": "port:loss"}, {}, [], 1.0, {"": "port:step"})
    check_port(part, port)
    assert (case_of(part, port)["step"], case_of(part, port)["clips"]) == ("port:step", "combined")


def test_steps_in_which_no_optimizer_trains_are_refused_in_words(tmp_path):
    with pytest.raises(ReplayError, match="expected a recorded step in which an optimizer trains, got none in 1 steps"):
        parts_of(recorded(tmp_path, {}, sections={"g": {}, "d": {}}))
