"""Leaves no session, no casts and no registered function behind."""

import pytest
import torch

from torch_ddp import amp
from torch_ddp.amp import registry, session


@pytest.fixture(autouse=True)
def fresh_amp():
    torch.manual_seed(0)
    session._optimizers.clear()  # those of other folders' tests live on where they are frozen for collections
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors of a few elements: more threads only wait for each other
    yield
    torch.set_num_threads(threads)
    amp.deactivate()
    session._sessions.clear()
    registry._registered.clear()
    assert torch._C._len_torch_function_stack() == 0, "a test left a torch function mode on"


@pytest.fixture
def casts():
    """O1 without a model, for tests of single functions."""
    amp.initialize([], verbosity=0)
    return session.current_casts()
