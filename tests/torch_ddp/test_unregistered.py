"""Parameters that a module holds in plain lists are found, and only those."""

from torch import nn

from torch_ddp.weights import unregistered


def test_what_plain_lists_and_dicts_hold_is_named():
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].layers = [nn.Linear(2, 2, bias=False)]
    model.tables = {"a": nn.Parameter(model[0].weight.detach().clone())}
    assert sorted(unregistered(model)) == ["0.layers[0].weight", "tables['a']"]


def test_what_is_registered_as_well_is_not():
    model = nn.Sequential(nn.Linear(2, 2))
    model.alias = [model[0]]
    assert unregistered(model) == {}
