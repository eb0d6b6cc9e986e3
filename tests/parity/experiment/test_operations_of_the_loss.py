"""What the port computes otherwise behind all layers is another loss; in a layer it is another operation."""

from types import SimpleNamespace

import pytest

from parity.experiment.diagnosis import with_operations_of_the_loss
from parity.judge.result import Cause, Level


@pytest.mark.parametrize(
    ("layer", "name"), [("", "loss_function"), ("dense", "other_operation"), (None, "other_operation")]
)
def test_another_operation_behind_all_layers_is_another_loss(layer, name):
    causes = [Cause("mask", "", "", "", None), Cause("other_operation", "", "", "", None)]
    located = None if layer is None else SimpleNamespace(place=SimpleNamespace(layer=layer))
    found = with_operations_of_the_loss(Level("function", "different", "", causes=causes), located)
    assert [each.name for each in found.causes] == ["mask", name]
