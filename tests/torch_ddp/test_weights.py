import numpy as np
import pytest
import torch
from torch import nn

from torch_ddp import TorchDdpError, load_weights, named_statistics


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"0.weight": (3, 2), "0.bias": (3,)} | {
        f"1.{name}": (3,) for name in ("weight", "bias", "running_mean", "running_var")
    }
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


def test_every_parameter_and_statistic_takes_its_array_in_its_own_dtype():
    net, given = model(), arrays()
    load_weights(net, given)
    state = net.state_dict()
    assert set(given) == set(state) - {"1.num_batches_tracked"}
    for name, array in given.items():
        assert state[name].dtype == torch.float32
        np.testing.assert_array_equal(state[name].numpy(), array.astype(np.float32))
    assert set(named_statistics(net)) == {"1.running_mean", "1.running_var"}


def test_missing_and_left_over_arrays_are_both_named_and_nothing_is_copied():
    net, given = model(), arrays()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    del given["0.bias"], given["1.running_var"]
    given["2.weight"] = np.zeros(3)
    with pytest.raises(TorchDdpError) as error:
        load_weights(net, given)
    assert str(error.value) == (
        "load_weights: expected one array for every parameter and statistic, got none for ['0.bias', '1.running_var'], "
        "and left over ['2.weight']. Complete the mapping."
    )
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_an_array_of_another_shape_is_refused_and_nothing_is_copied():
    net, given = model(), arrays()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    given["0.weight"] = given["0.weight"].T
    with pytest.raises(TorchDdpError) as error:
        load_weights(net, given)
    assert str(error.value) == (
        "load_weights: expected shape (3, 2) for '0.weight', got (2, 3). Give its mapping the transform that fits."
    )
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_loaded_weight_stays_a_leaf_that_trains():
    net = model()
    load_weights(net, arrays())
    net(torch.randn(4, 2)).sum().backward()
    assert all(value.is_leaf and value.grad is not None for value in net.parameters())
