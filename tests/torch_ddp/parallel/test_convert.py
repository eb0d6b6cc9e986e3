import pytest
import torch
from torch import nn

from torch_ddp import like_tf
from torch_ddp.parallel import ParallelError, SyncBatchNorm, convert_syncbn_model


class TwoPlaces(nn.Module):
    """Uses one batch norm twice, and has a child that is None."""

    def __init__(self):
        super().__init__()
        self.first = nn.BatchNorm1d(2)
        self.again = self.first
        self.inside = nn.Sequential(self.first, nn.InstanceNorm1d(2, affine=True))
        self.register_module("missing", None)


def test_every_batch_norm_is_replaced_and_nothing_else():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(4), nn.InstanceNorm2d(5)))
    converted = convert_syncbn_model(model, channel_last=True)
    assert converted is model
    assert [type(layer) for layer in (model[0], model[1], *model[2])] == [
        nn.Linear,
        SyncBatchNorm,
        SyncBatchNorm,
        nn.InstanceNorm2d,
    ]
    assert model[1].channel_last and model[2][0].channel_last
    assert type(convert_syncbn_model(nn.BatchNorm3d(2))) is SyncBatchNorm


def test_settings_parameters_statistics_and_mode_are_kept():
    old = nn.BatchNorm1d(3, eps=0.1, momentum=0.7).double().eval()
    old.weight.requires_grad_(False)
    optimizer = torch.optim.SGD(old.parameters(), lr=0.1)
    new = convert_syncbn_model(old)
    assert (new.num_features, new.eps, new.momentum, new.affine, new.track_running_stats) == (3, 0.1, 0.7, True, True)
    assert not new.training
    assert list(new.state_dict()) == list(old.state_dict())
    assert new.weight is old.weight and not new.weight.requires_grad
    assert new.bias is optimizer.param_groups[0]["params"][1]
    assert new.running_var is old.running_var and new.num_batches_tracked is old.num_batches_tracked


@pytest.mark.parametrize("settings", [{"affine": False}, {"track_running_stats": False}, {"momentum": None}])
def test_what_a_layer_does_not_have_it_does_not_get(settings):
    old = nn.BatchNorm1d(3, **settings)
    new = convert_syncbn_model(old)
    assert list(new.state_dict()) == list(old.state_dict())
    x = torch.randn(4, 3)
    assert torch.equal(new(x), nn.BatchNorm1d(3, **settings)(x))


def test_a_layer_used_in_two_places_stays_one_layer():
    model = convert_syncbn_model(TwoPlaces())
    assert type(model.first) is SyncBatchNorm
    assert model.first is model.again is model.inside[0]
    assert type(model.inside[1]) is nn.InstanceNorm1d


def test_converting_twice_is_converting_once():
    once = convert_syncbn_model(nn.Sequential(SyncBatchNorm(2, fuse_relu=True)))
    assert convert_syncbn_model(once)[0].fuse_relu


def test_fused_batch_norm_of_tensorflow_keeps_its_decay_and_epsilon():
    old = like_tf.BatchNorm2d(3, scale=False)
    twin = like_tf.BatchNorm2d(3, scale=False)
    new = convert_syncbn_model(old)
    x = torch.randn(4, 3, 2, 2)
    assert torch.equal(new(x), twin(x))
    torch.testing.assert_close(new.running_var, twin.running_var, rtol=1e-6, atol=0)
    assert new.weight is None and new.bias is old.bias


def test_unfused_batch_norm_of_tensorflow_is_refused_since_its_moving_variance_is_biased():
    with pytest.raises(ParallelError) as refused:
        convert_syncbn_model(nn.Sequential(like_tf.BatchNorm1d(3)))
    assert str(refused.value) == (
        "convert_syncbn_model: expected layers that keep the unbiased variance, got like_tf.BatchNorm1d with "
        "fused=False, which keeps the biased one. Make it with fused=True."
    )


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_a_lazy_layer_is_refused_until_it_knows_its_channels():
    model = nn.Sequential(nn.LazyBatchNorm1d())
    with pytest.raises(ParallelError) as refused:
        convert_syncbn_model(model)
    assert str(refused.value) == (
        "convert_syncbn_model: expected layers with known channels, got LazyBatchNorm1d. "
        "Run one batch through the model first."
    )
    model(torch.randn(4, 2))
    assert convert_syncbn_model(model)[0].num_features == 2
