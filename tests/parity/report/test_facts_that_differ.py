"""Which facts a report calls different."""

import pytest

from parity.report.view import differing, flat

TF_ADAM = {"name": "AdamOptimizer", "learning_rate": 0.5, "beta1": 0.75, "beta2": 0.875, "epsilon": 0.25}
TORCH_ADAM = {"name": "torch.optim.adam.Adam", "lr": 0.5, "betas": [0.75, 0.875], "eps": 0.25}


def names(one, other):
    return differing(flat({"optimizer": one}), flat({"optimizer": other}))


def test_betas_are_beta1_and_beta2():
    assert names(TF_ADAM, TORCH_ADAM) == []
    assert names(TF_ADAM, {**TORCH_ADAM, "betas": [0.75, 0.5]}) == ["optimizer.beta2"]


@pytest.mark.parametrize("missing", ["reference", "candidate"])
def test_a_rate_that_a_schedule_sets_is_no_fact_of_the_optimizer(missing):
    scheduled = {name: value for name, value in TF_ADAM.items() if name != "learning_rate"}
    assert names(*((scheduled, TORCH_ADAM) if missing == "reference" else (TORCH_ADAM, scheduled))) == []
    assert names({**TF_ADAM, "learning_rate": 0.25}, TORCH_ADAM) == ["optimizer.learning_rate"]


@pytest.mark.parametrize("off", [{"maximize": False}, {"weight_decay": 0}, {"foreach": None}, {"initial_lr": 0.5}])
def test_what_only_one_has_and_has_off_is_no_difference(off):
    assert names(TF_ADAM, {**TORCH_ADAM, **off}) == names({**TF_ADAM, **off}, TORCH_ADAM) == []


def test_what_both_have_and_one_has_off_is_a_difference():
    assert names({**TF_ADAM, "use_nesterov": False}, {**TORCH_ADAM, "nesterov": True}) == ["optimizer.use_nesterov"]


def test_any_other_setting_that_one_lacks_is_a_difference():
    assert names(TF_ADAM, {**TORCH_ADAM, "weight_decay": 0.1}) == ["optimizer.weight_decay"]


def test_an_optimizer_whose_name_is_no_text_differs_as_it_is():
    assert differing({"optimizer.name": ["Adam"]}, {"optimizer.name": "AdamOptimizer"}) == ["optimizer.name"]
