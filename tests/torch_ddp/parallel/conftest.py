import pytest
import torch

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


@pytest.fixture(params=[2, 3], ids=["2 ranks", "3 ranks"])
def ranks(request):
    """Two ranks, then three."""
    return request.getfixturevalue("two_ranks" if request.param == 2 else "three_ranks")


@pytest.fixture(autouse=True)
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
