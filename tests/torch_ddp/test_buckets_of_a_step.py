import numpy as np
import torch
from torch import nn

from torch_ddp import Rank, Stepper, like_tf


def stepped(rank: Rank, bucket_cap_mb: float | None) -> tuple[int, dict[str, np.ndarray]]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 50), nn.Linear(50, 1)).double()
    optimizer = like_tf.GradientDescent(model.parameters(), lr=0.1)
    loss = lambda net, x: net(x).square().mean()  # noqa: E731
    stepper = Stepper(model, loss, optimizer, rank, "mean", bucket_cap_mb=bucket_cap_mb)
    batch = {"x": np.random.default_rng(0).standard_normal((4, 6))}
    recorded = [stepper.step(batch) for _ in range(3)][-1]
    log = stepper._port.model._get_ddp_logging_data()
    sizes = log.get("rebuilt_bucket_sizes") or log["bucket_sizes"]
    return len(str(sizes).split(",")), {name: value for name, value in (recorded or {}).items() if "grad" in name}


def test_a_small_cap_makes_many_buckets_and_the_same_gradients(two_ranks):
    whole, many = (two_ranks.run(stepped, cap)[0] for cap in (None, 0.0005))
    assert whole[0] == 1 < many[0]
    assert list(whole[1]) == list(many[1])
    for name, gradient in whole[1].items():
        np.testing.assert_array_equal(many[1][name], gradient)
