"""Recorded scripts whose ops have float attributes: ports by the rule of the TensorFlow that was recorded are the same."""

import json

import numpy as np
import pytest


@pytest.mark.parametrize("model", ["Model", "Plain"])
def test_a_port_is_the_same_by_the_rule_of_the_recorded_tensorflow(recorded, replayed, model):
    done = recorded("fused_norm")
    of_1_15 = "tensorflow 1." in done.trace.producer["framework"]
    code, result = replayed(done.out, "fused_norm", "loss", model=model)
    level = result["levels"]["function"]
    # 1.15 raises an epsilon below 1.001e-5, and so does like_tf's layer; TensorFlow 2 does not, nor does torch's.
    assert (code == 0) is (of_1_15 == (model == "Model")), result["first_difference"]
    # The gradients are made under a dependency on the moving statistics, whose decay is float32 all the same.
    read = json.loads((done.out / "shadow.json").read_text())["constants"]
    assert [float(np.float32(0.99)), 0.99] not in read.values()
    if code:
        assert result["first_difference"]["quantity"] in ("act", "loss")
    elif model == "Plain":
        assert any(note.startswith("up to float32 hyper-parameters") for note in level["notes"])
