"""Times a step of `torch_ddp.like_tf`'s Adam beside one of torch.optim.Adam, on the CPU or a GPU.

Launch: ``python benchmarks/like_tf_optimizers.py [--pairs 15] [--device cuda] [--threads 1]``. Prints the medians for
parameters of three kinds and the ratio; the promise is at most 1.1 for each. The two are measured in turn, on the same
gradients. Times are of the processor where a single thread works, so that a busy machine is no part of them, and of the
clock otherwise.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from torch_ddp import like_tf

LIMIT = 1.1
BOTTLENECK = [(256, 64, 1, 1), (64, 64, 3, 3), (64,), (256,)] * 8
SHAPES = {
    "200 small parameters": [(64, 64), (64,)] * 100,
    "as a ResNet has them": [
        (64, 3, 7, 7),
        *BOTTLENECK,
        *[(512, 512, 3, 3), (512,), (2048, 512, 1, 1), (2048,)] * 3,
        (1000, 2048),
    ],
    "one of ten million": [(10_000_000,)],
}


def parameters(shapes: list[tuple[int, ...]], device: str) -> list[nn.Parameter]:
    """Returns parameters with gradients, float32, the same ones for the same shapes."""
    torch.manual_seed(0)
    found = [nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for parameter in found:
        parameter.grad = torch.randn_like(parameter)
    return found


def seconds(step: Callable[[], object], device: str, threads: int) -> float:
    """Returns how long a step takes."""
    clock = time.process_time if device == "cpu" and threads == 1 else time.perf_counter
    begin = clock()
    step()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - begin


def main() -> int:
    """Measures and prints; returns 0 when the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    worst = 0.0
    for name, shapes in SHAPES.items():
        steps = [make(parameters(shapes, options.device)).step for make in (like_tf.Adam, torch.optim.Adam)]
        pairs = [[seconds(step, options.device, options.threads) for step in steps] for _ in range(options.pairs + 3)][
            3:
        ]
        ours, torchs = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(own / other for own, other in pairs)
        worst = max(worst, ratio)
        print(f"{name:22} {ours * 1e3:8.2f} ms, torch.optim.Adam {torchs * 1e3:8.2f} ms  ratio {ratio:.2f}")
    print(f"largest ratio {worst:.2f}, promised {LIMIT}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
