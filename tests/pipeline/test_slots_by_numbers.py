"""Optimizers of both sides' own may call their slots anything: what holds the same behind a first step is joined."""

import pytest
from support.tiny_case import CASE, TF, TORCH, write_texts

from parity.case import load_case
from parity.experiment import run_case

OF_THEIR_OWN = CASE.replace('[optimizer]\nname = "sgd"\nlearning_rate = 0.1\n', "").replace(
    '[tf]\ntower = "model_tf:tower"\n[torch]\n',
    '[tf]\ntower = "model_tf:tower"\noptimizer = "model_tf:Norm"\n[torch]\noptimizer = "model_torch:optimizer"\n',
)
# "m" is a norm and "v" an average: the other way round than Adam's.
NORM_TF = """
class Norm(tf.train.Optimizer):
    def __init__(self):
        super().__init__(False, "Norm")

    def _create_slots(self, variables):
        for each in variables:
            self._zeros_slot(each, "m", self._name)
            self._zeros_slot(each, "v", self._name)

    def _apply_dense(self, grad, var):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        average = tf.assign(v, 0.9 * v + 0.1 * grad)
        norm = tf.assign(m, tf.maximum(0.99 * m + 1e-8, tf.abs(grad)))
        return tf.group(tf.assign_sub(var, 0.01 * average / norm), average, norm)

    _resource_apply_dense = _apply_dense
"""
NORM_TORCH = """
import torch

class Norm(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(exp_avg=torch.zeros_like(p), exp_inf=torch.zeros_like(p))
                state["exp_avg"].mul_(0.9).add_(p.grad, alpha=0.1)
                torch.maximum(state["exp_inf"].mul_(0.99).add_(1e-8), p.grad.abs(), out=state["exp_inf"])
                p.addcdiv_(state["exp_avg"], state["exp_inf"], value=-0.01)

def optimizer(model):
    return Norm(model.parameters(), {})
"""


@pytest.mark.parametrize(
    ("decay", "verdict", "noted"), [("0.9", "same", True), ("0.8", "different", False)], ids=["right", "other decay"]
)
def test_slots_that_hold_the_same_are_joined_whatever_they_are_called(tf2_sides, tmp_path, decay, verdict, noted):
    torch = TORCH + NORM_TORCH.replace("mul_(0.9)", f"mul_({decay})")
    case = load_case(write_texts(tmp_path, case=OF_THEIR_OWN, tf=TF + NORM_TF, torch=torch))
    result = run_case(case, tf2_sides, ["function"])
    assert result.verdict == verdict, result.first_difference
    told = (
        "the slot m of the reference was taken for exp_inf of the port: behind a first step they hold the same numbers"
    )
    assert (told in result.notes) is noted
