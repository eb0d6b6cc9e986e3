import pytest
import torch
from support.device import on_device

from .rank_pool import RankPool


@pytest.fixture(scope="session")
def two_ranks():
    """Calls a function on two ranks over gloo."""
    pool = RankPool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def three_ranks():
    """Calls a function on three ranks over gloo."""
    pool = RankPool(3)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def nccl_rank():
    """Calls a function on one rank over NCCL: a GPU has one rank at most."""
    pool = RankPool(1, "nccl")
    yield pool
    pool.close()


@pytest.fixture(params=["two_ranks", "three_ranks", *(["nccl_rank"] if on_device() else [])])
def ranks(request):
    """Two ranks, then three; on a GPU one over NCCL too."""
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
