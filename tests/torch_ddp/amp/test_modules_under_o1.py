"""Modules that Apex's last version broke on, or knew nothing of, work under O1."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torch_ddp import amp

HALF, FLOAT = torch.float16, torch.float32


def _trained(model, forward, steps=3):
    """Losses of a few steps in float32 and under O1, from the same weights."""
    losses = []
    for opt_level in ("O0", "O1"):
        mine = copy.deepcopy(model)
        for layer in mine.modules():
            if isinstance(layer, nn.RNNBase):
                layer.flatten_parameters()  # a copy's weights are apart on a GPU, of which cuDNN warns
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.05)
        mine, optimizer = amp.initialize(mine, optimizer, opt_level=opt_level, verbosity=0)
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = forward(mine).float().pow(2).mean()
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        losses.append(loss.item())
        grads = [weight.grad for weight in mine.parameters()]
        assert all(grad is not None and grad.dtype is FLOAT for grad in grads)
    return losses


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_multi_head_attention_trains(need_weights, masked):
    x = torch.randn(5, 2, 4)
    mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")) if masked else None
    float32, mixed = _trained(
        nn.MultiheadAttention(4, 2), lambda m: m(x, x, x, need_weights=need_weights, attn_mask=mask)[0]
    )
    assert mixed == pytest.approx(float32, rel=1e-2)


def test_the_products_inside_multi_head_attention_run_in_half_and_its_softmax_in_float32():
    model = amp.initialize(nn.MultiheadAttention(4, 2), verbosity=0)
    x = torch.randn(5, 2, 4)
    output, weights = model(x, x, x)
    assert output.dtype is HALF
    assert weights.dtype is FLOAT


def test_multi_head_attention_evaluates():
    model = amp.initialize(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), verbosity=0).eval()
    with torch.no_grad():
        x = torch.randn(2, 3, 4)
        mixed = model(x)
        amp.deactivate()
        torch.testing.assert_close(mixed.float(), model(x), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_recurrent_layers_run_in_half_and_train(layer, dtype):
    x = torch.randn(5, 2, 3).to(dtype)
    model = layer(3, 4, num_layers=2)
    float32, mixed = _trained(model, lambda m: m(x)[0])
    assert mixed == pytest.approx(float32, rel=2e-2)
    assert amp.initialize(layer(3, 4), verbosity=0)(x)[0].dtype is HALF


def test_recurrent_layers_take_their_own_half_state_and_packed_sequences():
    model = amp.initialize(nn.LSTM(3, 4), verbosity=0)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 3), [5, 3])
    output, state = model(packed)
    assert output.data.dtype is HALF
    again, _ = model(torch.randn(1, 2, 3), state)
    assert again.dtype is HALF


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_that_initialize_was_not_given_take_half_too(casts, layer):
    assert layer(3, 4)(torch.randn(5, 2, 3).half())[0].dtype is HALF
    with pytest.raises(RuntimeError, match="input_size"):
        layer(3, 4)(torch.randn(5, 2, 7).half())
    with pytest.raises(ValueError, match="does not match weight dtype"):
        layer(3, 4)(torch.randn(5, 2, 3).double())


def test_recurrent_layers_refuse_half_again_where_casts_are_off(casts):
    x = torch.randn(5, 2, 3).half()
    with amp.disable_casts(), pytest.raises(ValueError, match="does not match weight dtype"):
        nn.LSTM(3, 4)(x)
    amp.deactivate()
    with pytest.raises(ValueError, match="does not match weight dtype"):
        nn.LSTM(3, 4)(x)
    assert not hasattr(nn.RNNBase.check_input, "__wrapped__")


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_recurrent_cells_run_in_half(casts, cell, dtype):
    output = cell(3, 4)(torch.randn(2, 3).to(dtype))
    assert (output[0] if isinstance(output, tuple) else output).dtype is HALF


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_activations_are_cast_as_the_first_time(reentrant):
    block = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
    x = torch.randn(3, 4, requires_grad=True)
    plain, recomputed = copy.deepcopy(block), copy.deepcopy(block)
    dtypes = []
    recomputed[0].register_forward_hook(lambda module, args, output: dtypes.append(output.dtype))
    sgd = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (plain, recomputed)]
    _, optimizers = amp.initialize([plain, recomputed], sgd, loss_scale=128.0, verbosity=0)
    for model, optimizer, output in (
        (plain, optimizers[0], plain(x)),
        (recomputed, optimizers[1], checkpoint(recomputed, x, use_reentrant=reentrant)),
    ):
        with amp.scale_loss(output.float().sum(), optimizer) as scaled:
            scaled.backward()
        assert next(model.parameters()).grad is not None
    assert dtypes == [HALF, HALF]
    for one, other in zip(plain.parameters(), recomputed.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}])
def test_every_kind_of_adam_steps_out_of_the_casts(options):
    results = []
    for opt_level in ("O0", "O1"):
        torch.manual_seed(1)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, **options)
        model, optimizer = amp.initialize(model, optimizer, opt_level=opt_level, loss_scale=1.0, verbosity=0)
        for step in range(3):
            for weight in model.parameters():
                weight.grad = torch.full_like(weight, 0.1 * (step + 1))
            optimizer.step()
        results.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
        assert all(state["exp_avg"].dtype is FLOAT for state in optimizer.state.values())
    assert torch.equal(*results)


def test_products_inside_a_step_are_not_cast():
    class Preconditioned(torch.optim.SGD):
        def step(self, closure=None):
            self.dtype = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

    layer = nn.Linear(2, 2)
    layer, optimizer = amp.initialize(layer, Preconditioned(layer.parameters(), lr=0.1), verbosity=0)
    optimizer.step()
    assert optimizer.dtype is FLOAT
    assert layer(torch.ones(1, 2)).dtype is HALF


def test_a_deep_copy_of_a_model_is_a_model_of_its_own():
    model = amp.initialize(nn.Linear(2, 2), verbosity=0)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.weight.zero_()
        twin.bias.zero_()
    assert torch.equal(twin(torch.ones(1, 2)), torch.zeros(1, 2, dtype=HALF))
    assert not torch.equal(model(torch.ones(1, 2)), torch.zeros(1, 2, dtype=HALF))


def test_a_model_can_be_saved_whole():
    model = amp.initialize(nn.LSTM(2, 2), verbosity=0)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)(torch.ones(1, 1, 2))[0].dtype is HALF


def test_a_compiled_model_is_cast_as_one_graph_and_follows_deactivate():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 1))
    twin = copy.deepcopy(model)
    models = [model, twin]
    models, optimizers = amp.initialize(
        models, [torch.optim.SGD(one.parameters(), lr=0.1) for one in models], loss_scale=128.0, verbosity=0
    )
    forwards = (torch.compile(model, backend="eager", fullgraph=True), twin)
    x = torch.randn(2, 4)
    for _ in range(2):
        for forward, optimizer in zip(forwards, optimizers, strict=True):
            optimizer.zero_grad()
            output = forward(x)
            assert output.dtype is HALF
            with amp.scale_loss(output.float().mean(), optimizer) as scaled:
                scaled.backward()
            optimizer.step()
    assert torch.equal(forwards[0](x), twin(x))
    amp.deactivate()
    assert forwards[0](x).dtype is FLOAT


def test_compiled_attention_is_cast_inside_as_it_is_without_compiling():
    model = amp.initialize(nn.MultiheadAttention(4, 2), verbosity=0)
    x = torch.randn(3, 2, 4)
    expected, got = model(x, x, x), torch.compile(model, backend="eager")(x, x, x)
    assert [one.dtype for one in got] == [HALF, FLOAT]
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))
