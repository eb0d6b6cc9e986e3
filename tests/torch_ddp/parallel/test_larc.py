import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_ddp.parallel.LARC import LARC


def parameter(values, gradient, dtype=torch.float64):
    made = torch.nn.Parameter(torch.tensor(values, dtype=dtype))
    made.grad = torch.tensor(gradient, dtype=dtype)
    return made


def by_hand(w, g, lr, decay, trust, eps, clip):
    """One step of gradient descent with layer-wise rates, in numpy."""
    w, g = np.array(w, np.float64), np.array(g, np.float64)
    if not w.any() or not g.any():
        return w - lr * g
    ratio = trust * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w) + eps)
    rate = min(ratio, lr) if clip else ratio * lr
    return w - rate * (g + decay * w)


vectors = st.lists(st.sampled_from([-3.0, -0.5, 0.0, 1e-3, 2.0, 40.0]), min_size=2, max_size=2)


@given(
    w=vectors,
    g=vectors,
    lr=st.sampled_from([1e-3, 0.5]),
    decay=st.sampled_from([0.0, 0.1]),
    trust=st.sampled_from([0.001, 0.02, 1.0]),
    eps=st.sampled_from([1e-8, 0.5]),
    clip=st.booleans(),
)
@settings(max_examples=200)
def test_the_rate_of_each_layer_is_its_ratio_of_norms(w, g, lr, decay, trust, eps, clip):
    weight = parameter(w, g)
    LARC(torch.optim.SGD([weight], lr=lr, weight_decay=decay), trust, clip, eps).step()
    want = by_hand(w, g, lr, decay, trust, eps, clip)
    # On the scale of what is subtracted: the difference itself may cancel.
    scale = np.abs(w).max() + np.abs(want - w).max()
    np.testing.assert_allclose(weight.detach().numpy(), want, rtol=0, atol=1e-15 * scale)


def test_each_parameter_has_a_rate_of_its_own_and_each_group_its_decay():
    one, two, none = parameter([3.0, 4.0], [0.3, 0.4]), parameter([1.0, 0.0], [0.0, 100.0]), parameter([1.0], [1.0])
    none.grad = None
    groups = [{"params": [one, none], "weight_decay": 0.5}, {"params": [two], "lr": 10.0}]
    larc = LARC(torch.optim.SGD(groups, lr=1.0))
    larc.step()
    np.testing.assert_allclose(one.detach(), by_hand([3.0, 4.0], [0.3, 0.4], 1.0, 0.5, 0.02, 1e-8, True), rtol=1e-14)
    np.testing.assert_allclose(two.detach(), by_hand([1.0, 0.0], [0.0, 100.0], 10.0, 0.0, 0.02, 1e-8, True), rtol=1e-14)
    assert none.item() == 1.0
    assert [group["weight_decay"] for group in larc.param_groups] == [0.5, 0]


def test_the_optimizers_own_weight_decay_comes_back_when_its_step_fails():
    weight = parameter([1.0], [1.0])
    optimizer = torch.optim.SGD([weight], lr=1.0, weight_decay=0.5)

    def fail(*arguments):
        raise RuntimeError("planned")

    optimizer.register_step_pre_hook(fail)
    with pytest.raises(RuntimeError, match="planned"):
        LARC(optimizer).step()
    assert optimizer.param_groups[0]["weight_decay"] == 0.5


def test_norms_of_half_precision_do_not_overflow():
    weight = parameter([300.0] * 2, [200.0] * 2, torch.float16)
    LARC(torch.optim.SGD([weight], lr=0.5), trust_coefficient=0.1, clip=False).step()
    assert weight.tolist() == pytest.approx([300 - 0.5 * 0.1 * 1.5 * 200] * 2, rel=1e-3)


def test_it_shows_the_optimizer_inside():
    weight = parameter([3.0, 4.0], [0.3, 0.4])
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.9)
    larc = LARC(optimizer)
    larc.step()
    assert larc.state is optimizer.state and larc.defaults is optimizer.defaults
    assert repr(larc) == repr(optimizer)
    saved = copy.deepcopy(larc.state_dict())
    larc.step()
    larc.load_state_dict(saved)
    assert torch.equal(larc.state[weight]["momentum_buffer"], saved["state"][0]["momentum_buffer"])
    larc.zero_grad(set_to_none=False)
    assert not weight.grad.any()
    larc.zero_grad()
    assert weight.grad is None
    larc.add_param_group({"params": [parameter([1.0], [1.0])], "lr": 7.0})
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 7.0]
    larc.param_groups = larc.param_groups[:1]
    assert len(optimizer.param_groups) == 1


def test_it_can_be_pickled_with_its_settings():
    larc = pickle.loads(pickle.dumps(LARC(torch.optim.SGD([parameter([1.0], [1.0])], lr=1.0), 0.5, False, 0.1)))
    assert (larc.trust_coefficient, larc.clip, larc.eps) == (0.5, False, 0.1)
    assert larc.param_groups[0]["lr"] == 1.0
