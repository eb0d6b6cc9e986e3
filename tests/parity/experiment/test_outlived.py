"""An experiment that the port does not take, on real processes that fail together: the run, and the next one, go on."""

import pytest
from support.tiny_case import write_case

from parity.case import load_case
from parity.experiment import open_sides, run_case
from parity.worker.process import fail_together

NORMALISED = (
    "return 1.0 * tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y)) -> "
    "h = tf.layers.batch_normalization(tf.matmul(x, kernel) + bias, training=True, name='norm')\n"
    "    return 1.0 * tf.reduce_mean(tf.square(h - y))"
)
# It keeps the biased variance, so that its statistics cannot be joined over the ranks, which an experiment does.
NORM = (
    "self.dense = nn.Linear(3, 2) -> "
    "from torch_ddp import like_tf; self.dense = nn.Linear(3, 2); self.norm = like_tf.BatchNorm1d(2)"
)


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_a_run_and_the_next_one_go_on_after_an_experiment_that_the_port_does_not_take(tmp_path, monkeypatch):
    monkeypatch.delenv("PARITY_TF_PYTHON", raising=False)
    folder = write_case(tmp_path / "right", tf=NORMALISED, torch=NORM)
    model = folder / "model_torch.py"
    model.write_text(model.read_text().replace("return self.dense(x)", "return self.norm(self.dense(x))"))
    wrong = write_case(tmp_path / "wrong", tf=NORMALISED)
    # A power is nothing that the cheaper experiments before the one on batch norm undo.
    (wrong / "model_torch.py").write_text(model.read_text().replace(".square().mean()", ".abs().pow(1.9).mean()"))
    with open_sides(None) as sides:
        fail_together(*sides.started)
        result = run_case(load_case(wrong, steps=2), sides, ("function", "trajectory"))
        assert result.verdict == "different"
        assert result.levels["trajectory"].verdict == "different"
        assert run_case(load_case(folder, steps=2), sides, ("function",)).verdict == "same"
