"""The bugs that are planted to show what a verdict would catch: what they are called, and how large they are."""

import re

import pytest
from support.made_sides import CASE, made_case

from parity.experiment.power import PROBES, fitting


@pytest.mark.parametrize("probe", PROBES, ids=[probe.mutation for probe in PROBES])
def test_a_planted_bug_is_a_thousandth_where_its_words_tell_a_size_and_whole_where_they_do_not(probe):
    tells_size = re.search(r"\d%|\d\.\d|\de-\d", probe.words) is not None
    assert probe.size == (1e-3 if tells_size else 1.0)


def test_what_sits_in_the_optimizer_needs_one_of_the_ports_own_and_what_sits_in_batch_norm_needs_batch_norm():
    of_updates = {"learning_rate", "not_updated", "momentum", "nesterov", "adam_epsilon", "adam_beta"}
    for probe in PROBES:
        assert probe.of_the_optimizer == (probe.causes[0] in of_updates)
        assert probe.statistics == (probe.causes[0] == "batch_norm_momentum")
        assert not probe.optimizer or probe.of_the_optimizer


OF_UPDATES = frozenset(probe.mutation for probe in PROBES if probe.of_the_optimizer)
OF_MOMENTUM, OF_ADAM = {"another_momentum", "nesterov_nobody_asked_for"}, {"another_epsilon_of_adam", "another_beta2"}
OF_SHARDS = {"the_last_rank_counts_more", "every_rank_reads_the_first_shard", "shards_interleaved"}
OF_STATISTICS = {"another_decay_of_statistics"}
IN_THE_LOSS = (OF_SHARDS - {"the_last_rank_counts_more"}) | {
    "the_loss_is_a_sum_over_examples",
    "weights_decay_in_the_loss",
}
PLANTED = frozenset(probe.mutation for probe in PROBES) - OF_ADAM - OF_STATISTICS  # in a port with momentum


@pytest.mark.parametrize(
    ("of_case", "of_port", "of_optimizer", "statistics", "planted"),
    [
        ({}, {}, {}, False, PLANTED),
        ({}, {}, {}, True, PLANTED | OF_STATISTICS),
        ({"towers": 1}, {}, {}, False, PLANTED - OF_SHARDS),
        ({"towers": 3}, {}, {}, False, PLANTED),
        ({}, {"step": "port:step"}, {}, False, PLANTED - IN_THE_LOSS),
        # Of an optimizer of the port's own nobody knows whether it has a momentum.
        ({}, {"optimizer": "port:optimizer"}, {}, False, PLANTED - OF_MOMENTUM),
        ({}, {}, {"name": "adam"}, False, (PLANTED | OF_ADAM) - OF_MOMENTUM),
        ({"optimizer": None}, {}, {}, False, PLANTED - OF_MOMENTUM),
        # What stands around an optimizer a planted one does not bring.
        *[
            ({}, {}, {name: value}, False, PLANTED - OF_UPDATES)
            for name, value in (
                ("clip", object()),
                ("ema", object()),
                ("weight_decay", 0.1),
                ("learning_rate", object()),
            )
        ],
    ],
)
def test_the_bugs_that_are_planted_are_those_that_a_case_can_have(
    tmp_path, of_case, of_port, of_optimizer, statistics, planted
):
    case = made_case(tmp_path, CASE)
    known = {"torch": case.torch.model_copy(update=of_port)}
    known["optimizer"] = case.optimizer.model_copy(update=of_optimizer)
    found = fitting(case.model_copy(update={**known, **of_case}), statistics)
    assert {probe.mutation for probe in found} == planted
