"""Leaves no session and no casts behind."""

import pytest
import torch

from torch_ddp import amp
from torch_ddp.amp import session


@pytest.fixture(autouse=True)
def fresh_session():
    torch.manual_seed(0)
    yield
    amp.deactivate()
    session._sessions.clear()
    session._optimizers.clear()
