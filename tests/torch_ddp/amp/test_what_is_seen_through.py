"""Which of torch's Python functions are called as they are under O1, because nothing inside has a rule."""

import pytest
import torch
import torch.nn.functional as F

from torch_ddp import amp
from torch_ddp.amp.cast_lists import rules
from torch_ddp.amp.cast_mode import reaches_no_rule

PLAIN = [F.relu, F.dropout, F.leaky_relu, F.silu, F.hardtanh, F.sigmoid]
WITH_RULES_INSIDE = [F.multi_head_attention_forward, F.lp_pool1d, F.gaussian_nll_loss, F.gumbel_softmax, F.upsample]


@pytest.mark.parametrize("function", PLAIN)
def test_functions_that_call_nothing_with_a_rule_are_called_as_they_are(function):
    assert reaches_no_rule(function, rules())


@pytest.mark.parametrize("function", [*WITH_RULES_INSIDE, F.softsign, F.batch_norm])  # these two use operators
def test_others_are_seen_through(function):
    assert not reaches_no_rule(function, rules())


@pytest.mark.parametrize(("name", "function"), [("relu", F.relu), ("dropout", F.dropout)])
def test_a_rule_that_the_user_adds_counts(name, function):
    assert not reaches_no_rule(function, {getattr(torch, name): None})


def test_a_registered_function_inside_is_cast():
    half = torch.ones(3, dtype=torch.half)
    amp.register_float_function(torch, "relu")
    amp.initialize([], verbosity=0)
    assert F.relu(half).dtype is torch.float32
    assert F.dropout(half, training=False).dtype is torch.half


def test_functions_of_the_user_are_read_at_each_call():
    amp.initialize([], verbosity=0)
    mode = amp.session.current_casts().mode
    F.relu(torch.ones(1))
    before = len(mode._plain)
    for _ in range(3):
        F.relu(torch.ones(1))
        torch.overrides.handle_torch_function(lambda x: x, (torch.ones(1),), torch.ones(1))
    assert len(mode._plain) == before == 1
