"""Would it have caught it? Bugs planted in a user's own case."""

import json
from pathlib import Path

import pytest

from parity.case import Ema, Sgd, load_case
from parity.cli import main
from parity.experiment.power import PROBES, Outcome, Power, fitting, prove
from parity.report import power_as_json, show_power
from torch_ddp.mutations import MUTATIONS

SQUARE = Path(__file__).parents[1] / "cases" / "square"


@pytest.mark.slow
def test_every_bug_that_fits_a_case_is_found_and_named_and_clean_repeats_raise_no_alarm(tf2_sides):
    power = prove(load_case(SQUARE), tf2_sides, statistics=False)
    assert [o.probe.mutation for o in power.outcomes if not o.detected] == []
    assert [(o.probe.mutation, o.cause) for o in power.outcomes if not o.named] == []
    assert {o.probe.mutation for o in power.outcomes} >= {"another_epsilon_of_adam", "shards_interleaved"}
    assert (power.repeats, power.false_alarms) == (3, 0)


def test_every_probe_plants_a_mutation_that_there_is_and_expects_its_causes():
    for probe in PROBES:
        mutation = MUTATIONS[probe.mutation]
        assert set(probe.causes) <= set(mutation.causes)
        assert probe.of_the_optimizer == (mutation.family == "optimizer")
        assert probe.optimizer == next((need for need in mutation.needs if need in ("adam", "momentum")), "")
        assert probe.statistics == ("batch_norm" in mutation.needs)
        assert mutation.sized or probe.size == 1.0


def test_only_bugs_that_a_case_can_have_are_planted_in_it():
    case = load_case(SQUARE)
    names = {probe.mutation for probe in fitting(case, statistics=False)}
    assert "nesterov_nobody_asked_for" not in names and "another_decay_of_statistics" not in names
    assert "another_decay_of_statistics" in {probe.mutation for probe in fitting(case, statistics=True)}
    alone = {probe.mutation for probe in fitting(case.model_copy(update={"towers": 1}), statistics=False)}
    assert "shards_interleaved" not in alone and "the_loss_is_a_sum_over_examples" in alone
    averaged = Sgd(name="sgd", learning_rate=0.1, ema=Ema(decay=0.9))
    stepping = case.model_copy(update={"torch": case.torch.model_copy(update={"step": "own:step"})})
    left = {probe.mutation for probe in fitting(stepping, statistics=False)}
    assert names - left == {
        "every_rank_reads_the_first_shard",
        "shards_interleaved",
        "the_loss_is_a_sum_over_examples",
        "weights_decay_in_the_loss",
    }
    covered = fitting(case.model_copy(update={"optimizer": averaged}), statistics=False)
    assert not any(probe.of_the_optimizer for probe in covered)


def test_what_was_found_is_shown_and_written():
    found = Outcome(PROBES[0], True, "step 0, tower_grad/1/w", True, "the gradients of the towers do not count alike")
    missed = Outcome(PROBES[1], False, "", False, "")
    power = Power([found, missed], 3, 1)
    assert power_as_json(power)["planted"][1]["detected"] is False
    assert power_as_json(power)["false_alarms"] == 1


def test_the_table_says_what_was_not_found(capsys):
    show_power(Power([Outcome(PROBES[1], False, "", False, "")], 3, 0))
    shown = " ".join(capsys.readouterr().out.split())
    assert "NOT FOUND no name" in shown
    assert "0 of 1 planted bugs found, 0 called by their name; 0 false alarms in 3 clean repeats" in shown


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_nothing_is_planted_in_a_case_that_differs(tmp_path, capsys):
    import shutil

    shutil.copytree(SQUARE, tmp_path / "square")
    port = tmp_path / "square" / "model_torch.py"
    port.write_text(port.read_text().replace(".mean()", ".sum()"))
    assert main(["run", str(tmp_path / "square"), "--prove", "--json", str(tmp_path / "r.json")]) == 1
    assert "--prove: nothing is planted in a case whose verdict is not same" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["prove"] is None


def test_planting_needs_live_tensorflow(capsys):
    assert main(["run", str(SQUARE), "--prove", "--golden", "anywhere"]) == 2
    assert "--prove: expected live TensorFlow, got --golden" in capsys.readouterr().err
