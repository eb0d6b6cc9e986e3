import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler

from torch_ddp import Rank, TorchDdpError, TrainingSampler

pytestmark = pytest.mark.on_cpu("torch's own sampler draws with a generator of the CPU")


def samplers(size: int, world: int, **options) -> list[TrainingSampler]:
    return [TrainingSampler(range(size), Rank(rank, rank, world), **options) for rank in range(world)]


@given(size=st.integers(1, 40), world=st.integers(1, 5), epoch=st.integers(0, 3), drop_last=st.booleans())
def test_an_epoch_is_that_of_torchs_sampler(size, world, epoch, drop_last):
    for rank, ours in enumerate(samplers(size, world, seed=5, drop_last=drop_last)):
        theirs = DistributedSampler(range(size), world, rank, seed=5, drop_last=drop_last)
        for sampler in (ours, theirs):
            sampler.set_epoch(epoch)
        assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


@given(size=st.integers(1, 40), world=st.integers(1, 5), data=st.data())
def test_a_resumed_epoch_goes_on_with_the_examples_that_are_left(size, world, data):
    for sampler in samplers(size, world, drop_last=False):
        sampler.set_epoch(2)
        whole = list(sampler)
        used = data.draw(st.integers(0, len(whole)))
        sampler.set_epoch(2, used)
        assert list(sampler) == whole[used:]
        assert len(sampler) == len(whole) - used
        sampler.set_epoch(3)
        assert len(sampler) == len(whole)


def test_each_epoch_has_another_order_and_uses_every_example_once():
    orders = []
    for epoch in range(3):
        dealt = samplers(12, 3)
        for sampler in dealt:
            sampler.set_epoch(epoch)
        orders.append([index for sampler in dealt for index in sampler])
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


def test_more_used_examples_than_there_are_is_refused():
    [sampler] = samplers(4, 1)
    with pytest.raises(TorchDdpError) as error:
        sampler.set_epoch(0, 5)
    assert str(error.value) == (
        "sampler: expected 0 to 4 used examples, got 5. "
        "Resume with the data and the batch size that the checkpoint was saved with."
    )


def test_a_loader_over_it_knows_how_many_batches_are_left():
    [sampler] = samplers(10, 1, shuffle=False)
    loader = DataLoader(range(10), batch_size=2, sampler=sampler)
    sampler.set_epoch(0, 4)
    assert len(loader) == 3
    assert [batch.tolist() for batch in loader] == [[4, 5], [6, 7], [8, 9]]
