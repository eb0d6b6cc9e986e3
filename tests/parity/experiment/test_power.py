"""The bugs that are planted to show what a verdict would catch: what they are called, and how large they are."""

import re

import pytest

from parity.experiment.power import PROBES


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
