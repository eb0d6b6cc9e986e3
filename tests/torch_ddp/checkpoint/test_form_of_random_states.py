"""A random state of another form is refused, whatever it is, before anything of it is taken."""

import pytest
import torch

from torch_ddp.checkpoint.form import require_random_state
from torch_ddp.errors import CheckpointError


@pytest.mark.parametrize("state", [None, [], "torch", {}, {"torch": 1}, {"torch": None, "python": []}])
def test_a_random_state_that_is_none_is_refused(state):
    with pytest.raises(CheckpointError, match="expected the random state of every rank"):
        require_random_state(state, torch.device("cpu"))
