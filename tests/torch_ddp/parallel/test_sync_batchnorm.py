import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from torch_ddp.parallel import ParallelError, SyncBatchNorm, create_syncbn_process_group
from torch_ddp.parallel.sync_batchnorm import group_statistics

from .rank_pool import RankFailure, RankPool

SIZES = {2: [(4, 4), (6, 2), (8, 0)], 3: [(3, 3, 3), (5, 3, 1), (4, 0, 5)]}
SPLITS = [(f"{world}_ranks", sizes) for world, splits in SIZES.items() for sizes in splits]
POOLS = {"2_ranks": "two_ranks", "3_ranks": "three_ranks"}


@pytest.fixture
def pool(request, world):
    return request.getfixturevalue(POOLS[world])


def numbers(steps, batch, channels, *space, dtype=np.float64):
    """Inputs and gradients of the outputs, both [steps, batch, channels, *space], with an offset per channel."""
    random = np.random.RandomState(1)
    x = random.randn(steps, batch, channels, *space) * 3 + np.arange(channels).reshape(-1, *[1] * len(space))
    return x.astype(dtype), random.randn(steps, batch, channels, *space).astype(dtype)


def set_affine(layer):
    if layer.weight is not None:
        with torch.no_grad():
            layer.weight.copy_(torch.linspace(0.5, -2.0, layer.num_features))
            layer.bias.copy_(torch.linspace(-1.0, 1.0, layer.num_features))
    return layer


def state(layer):
    found = {name: value.clone() for name, value in layer.named_buffers()}
    found.update((f"d{name}", parameter.grad) for name, parameter in layer.named_parameters())
    return found


def trained(layer, x, dy, run):
    """The output and gradient of the input of the last step, parameters' summed gradients and statistics."""
    for step in range(len(x)):
        given = torch.from_numpy(x[step]).requires_grad_()
        y = run(layer, given)
        y.backward(torch.from_numpy(dy[step]))
    return {"y": y.detach(), "dx": given.grad, **state(layer)}


def channels_first(layer, x):
    return layer(x)


def channels_last(layer, x):
    return layer(x.movedim(1, -1)).movedim(-1, 1)


def with_relu_and_residual(layer, x):
    if isinstance(layer, SyncBatchNorm):
        return layer(x, 0.5 * x)
    return F.relu(layer(x) + 0.5 * x)


def shard(array, sizes, rank):
    starts = np.cumsum((0, *sizes))
    return np.ascontiguousarray(array[:, starts[rank] : starts[rank + 1]])


def synchronized(rank, x, dy, sizes, settings, run):
    layer = set_affine(SyncBatchNorm(x.shape[2], **settings).double())
    return trained(layer, shard(x, sizes, rank.rank), shard(dy, sizes, rank.rank), run)


def whole(x, dy, run=channels_first, **settings):
    """What torch's own batch norm makes of the batch in one piece, as arrays."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[x.ndim - 1]
    layer = set_affine(kind(x.shape[2], **settings).double())
    return {name: value.numpy() for name, value in trained(layer, x, dy, run).items()}


def assert_whole(parts, want, sizes, limit=1e-12):
    """The ranks' outputs together, their summed parameters' gradients and each one's statistics are `want`."""
    for name, wanted in want.items():
        if name in ("y", "dx"):
            assert [len(part[name]) for part in parts] == list(sizes)
            assert_close(np.concatenate([part[name] for part in parts]), wanted, limit)
        elif name in ("dweight", "dbias"):
            assert_close(sum(part[name] for part in parts), wanted, limit)
        else:
            for part in parts:
                assert_close(part[name], wanted, limit)


def assert_close(got, want, limit):
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= limit * max(1.0, np.abs(want).max())


@pytest.mark.parametrize(("world", "sizes"), SPLITS)
@pytest.mark.parametrize("momentum", [0.3, None])
def test_it_is_one_batch_norm_of_the_whole_batch_however_the_batch_is_split(pool, sizes, momentum):
    x, dy = numbers(3, sum(sizes), 3, 2, 4)
    parts = pool(synchronized, x, dy, sizes, {"momentum": momentum}, channels_first)
    assert_whole(parts, whole(x, dy, momentum=momentum), sizes)
    assert all(part["num_batches_tracked"] == 3 for part in parts)


def statistics_of(rank, shards):
    return group_statistics(torch.from_numpy(np.array(shards[rank.rank], dtype=np.float64)).reshape(-1, 1), [0], None)


values = st.lists(st.floats(-1e3, 1e3, width=32), max_size=4)


@given(shards=st.tuples(values, values, values).filter(lambda shards: any(shards)))
@settings(max_examples=40)
def test_mean_and_variance_are_those_of_all_values_however_they_are_spread(three_ranks, shards):
    together = np.concatenate([np.array(shard, dtype=np.float64) for shard in shards])
    scale = np.abs(together).max()
    for mean, variance, count in three_ranks(statistics_of, shards):
        assert count == len(together)
        assert np.abs(mean - together.mean()) <= 1e-15 * scale
        assert np.abs(variance - together.var()) <= 1e-14 * scale**2


@pytest.mark.parametrize("settings", [{"affine": False}, {"track_running_stats": False}, {"eps": 0.1}])
@pytest.mark.parametrize("space", [(), (5,), (2, 1, 3)])
def test_it_is_one_batch_norm_whatever_the_axes_and_settings(two_ranks, space, settings):
    x, dy = numbers(2, 7, 3, *space)
    parts = two_ranks(synchronized, x, dy, (5, 2), settings, channels_first)
    assert_whole(parts, whole(x, dy, **settings), (5, 2))


def test_channels_may_come_last(two_ranks):
    x, dy = numbers(2, 7, 3, 2, 2)
    parts = two_ranks(synchronized, x, dy, (5, 2), {"channel_last": True}, channels_last)
    assert_whole(parts, whole(x, dy), (5, 2))


def test_a_residual_is_added_before_the_relu(two_ranks):
    x, dy = numbers(2, 7, 3, 2, 2)
    parts = two_ranks(synchronized, x, dy, (5, 2), {"fuse_relu": True}, with_relu_and_residual)
    want = whole(x, dy, with_relu_and_residual)
    assert (want["y"] == 0).any() and (want["y"] > 0).any()
    assert_whole(parts, want, (5, 2))


def in_dtype(rank, x, dy, sizes, dtype, keep_float32):
    dtype = getattr(torch, dtype)
    layer = set_affine(SyncBatchNorm(x.shape[2]).to(torch.float32 if keep_float32 else dtype))
    given = torch.from_numpy(shard(x, sizes, rank.rank)[0]).to(dtype).requires_grad_()
    y = layer(given)
    y.backward(torch.from_numpy(shard(dy, sizes, rank.rank)[0]).to(dtype))
    assert (y.dtype, given.grad.dtype) == (dtype, dtype)
    assert all(parameter.grad.dtype is parameter.dtype for parameter in layer.parameters())
    return {"y": y.double(), "dx": given.grad.double(), **{name: v.double() for name, v in state(layer).items()}}


@pytest.mark.parametrize("keep_float32", [False, True])
@pytest.mark.parametrize(("dtype", "limit"), [("float16", 2**-9), ("bfloat16", 2**-6), ("float32", 2**-21)])
def test_every_dtype_is_normalised_to_its_own_rounding(two_ranks, dtype, limit, keep_float32):
    x, dy = (torch.from_numpy(a).to(getattr(torch, dtype)).double().numpy() for a in numbers(1, 8, 3, 2, 2))
    parts = two_ranks(in_dtype, x, dy, (6, 2), dtype, keep_float32)
    assert_whole(parts, whole(x, dy), (6, 2), limit)


def test_a_large_mean_does_not_swallow_the_variance(two_ranks):
    x, dy = numbers(1, 12, 3, 4, 4)
    x = (x * 0.01 + 1000).astype(np.float32)
    parts = two_ranks(in_dtype, x, dy, (9, 3), "float32", True)
    variance = np.float64(x[0]).var(axis=(0, 2, 3), ddof=1)
    for part in parts:
        assert np.abs(part["running_var"] - 0.9 - 0.1 * variance).max() < 1e-7
    assert np.abs(np.square(x[0]).mean(axis=(0, 2, 3)) - np.square(x[0].mean(axis=(0, 2, 3))) - variance).max() > 1e-3


def counted(rank):
    values = (2**24 + 1, 1)[rank.rank]
    return group_statistics(torch.ones(1, 1).expand(values, 1), [0], None)


def test_counts_beyond_those_of_float32_are_exact(two_ranks):
    for mean, variance, values in two_ranks(counted):
        assert (mean, variance, values) == (1.0, 0.0, 2**24 + 2)


def evaluated(rank, x):
    layer = set_affine(SyncBatchNorm(3))
    layer.running_mean.copy_(torch.arange(3.0))
    layer.eval()
    plain = set_affine(nn.BatchNorm2d(3))
    plain.load_state_dict(layer.state_dict())
    plain.eval()
    if rank.rank == 0:  # the other rank takes no part
        assert torch.equal(layer(torch.from_numpy(x)), plain(torch.from_numpy(x)))
        untracked = SyncBatchNorm(3, track_running_stats=False).eval()
        assert torch.equal(untracked(torch.from_numpy(x)), nn.BatchNorm2d(3)(torch.from_numpy(x)))
    return layer.num_batches_tracked


def test_evaluation_is_plain_batch_norm_of_each_rank_alone(two_ranks):
    x, _ = numbers(1, 4, 3, 2, 2, dtype=np.float32)
    assert two_ranks(evaluated, x[0]) == [0, 0]


@pytest.mark.parametrize("momentum", [0.3, None])
def test_without_a_process_group_it_is_plain_batch_norm_bit_for_bit(momentum):
    x, dy = numbers(3, 5, 3, 2, 2)
    alone = trained(set_affine(SyncBatchNorm(3, momentum=momentum).double()), x, dy, channels_first)
    want = whole(x, dy, momentum=momentum)
    assert all(np.array_equal(alone[name].numpy(), want[name]) for name in want)


def grouped(rank, x, dy, group_size):
    layer = SyncBatchNorm(x.shape[2], process_group=create_syncbn_process_group(group_size)).double()
    return trained(layer, shard(x, (2,) * rank.world_size, rank.rank), dy[:, :2], channels_first)


@pytest.mark.slow
def test_a_group_of_ranks_has_statistics_of_its_own():
    pool = RankPool(4)
    try:
        x, dy = numbers(1, 8, 3, 2)
        pairs, alone = pool(grouped, x, dy, 2), pool(grouped, x, dy, 1)
        everyone = pool(grouped, x, dy, 0)
    finally:
        pool.close()
    for rank in range(4):
        for found, start, stop in ((pairs, rank // 2 * 4, rank // 2 * 4 + 4), (alone, 2 * rank, 2 * rank + 2)):
            mean = x[0, start:stop].mean(axis=(0, 2))
            assert_close(found[rank]["running_mean"], 0.1 * mean, 1e-12)
        assert_close(everyone[rank]["running_mean"], 0.1 * x[0].mean(axis=(0, 2)), 1e-12)


def group_sizes(rank):
    for wrong in (2, -1, 6):
        with pytest.raises(ParallelError) as refused:
            create_syncbn_process_group(wrong)
        assert str(refused.value) == (
            f"create_syncbn_process_group: expected a divisor of the world size 3, got {wrong}. "
            "Choose one, or 0 for all ranks."
        )
    return create_syncbn_process_group(0)


def test_the_size_of_a_group_divides_the_world_size(three_ranks):
    assert three_ranks(group_sizes) == [None, None, None]


def outside(rank):
    pair = dist.new_group([0, 1])
    layer = SyncBatchNorm(1, process_group=pair)
    if rank.rank < 2:
        return layer(torch.full((1, 1), float(rank.rank)))
    with pytest.raises(ParallelError) as refused:
        layer(torch.ones(1, 1))
    return str(refused.value)


def test_a_rank_outside_the_group_is_told_so(three_ranks):
    first, second, third = three_ranks(outside)
    assert first == -second != 0
    assert third == (
        "SyncBatchNorm: expected a process group that this rank is in, got one that it is not in. "
        "Make it with create_syncbn_process_group."
    )


def too_few(rank):
    with pytest.raises(ParallelError) as refused:
        SyncBatchNorm(2)(torch.ones(1 - rank.rank, 2))
    return str(refused.value)


def test_one_value_per_channel_over_all_ranks_is_refused_on_every_rank(two_ranks):
    for rank, message in enumerate(two_ranks(too_few)):
        assert message == (
            "SyncBatchNorm: expected more than one value per channel over all ranks when training, got 1, here of "
            f"shape ({1 - rank}, 2). Use a larger batch, or eval()."
        )


@pytest.mark.parametrize(
    ("channel_last", "given", "said"),
    [
        (False, torch.ones(4, 2), "on axis 1, got torch.float32 of shape (4, 2)"),
        (True, torch.ones(4, 3, 2), "on axis 2, got torch.float32 of shape (4, 3, 2)"),
        (False, torch.ones(3), "on axis 1, got torch.float32 of shape (3,)"),
        (False, torch.ones(4, 3, dtype=torch.int64), "on axis 1, got torch.int64 of shape (4, 3)"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(channel_last, given, said):
    with pytest.raises(ParallelError) as refused:
        SyncBatchNorm(3, channel_last=channel_last)(given)
    assert str(refused.value) == (
        f"SyncBatchNorm: expected floats with 3 channels {said}. Fix num_features or channel_last."
    )


def with_an_unsynchronized_rank(rank, x, dy):
    return synchronized(rank, x, dy, (4, 4), {"process_group": dist.new_group([0])}, channels_first)


def test_the_comparison_can_fail(two_ranks):
    x, dy = numbers(1, 8, 3, 2)
    alone = two_ranks(grouped, x[:, :4], dy, 1)
    with pytest.raises(AssertionError):
        assert_whole(alone, whole(x[:, :4], dy[:, :4]), (2, 2), 1e-3)
    with pytest.raises(RankFailure, match="not in"):
        two_ranks(with_an_unsynchronized_rank, x, dy)
