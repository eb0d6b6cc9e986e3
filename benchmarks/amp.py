"""Times what amp's casts cost: one training step of a net of many small layers at each level, and one torch call.

Launch: ``python benchmarks/amp.py [--rounds 15]``. Thirty dense layers of width 64 on one thread of the CPU; the levels
take turns, each in a process of its own. Prints the median step in milliseconds, and what the mode of O1 adds to single
calls in microseconds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

LEVELS = {
    "plain float32": {},
    "O1": {"opt_level": "O1"},
    'O1, precision="native"': {"opt_level": "O1", "precision": "native"},
    "O2, bfloat16": {"opt_level": "O2", "half_dtype": "bfloat16", "loss_scale": "dynamic"},
}
CALLS = ("view_as", "mm", "softmax")  # on no list, a product, a function in float32
STEPS, REPEATS = 20, 2000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="processes per level")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(one_process(LEVELS[arguments.one])))
        return 0
    found = {level: [] for level in LEVELS}
    for _ in range(arguments.rounds):
        for level in LEVELS:
            found[level].append(json.loads(subprocess.check_output([sys.executable, __file__, "--one", level])))
    for level, runs in found.items():
        print(f"{level:24} a step {1e3 * statistics.median(run['step'] for run in runs):5.2f} ms")
    for call in CALLS:
        plain, mixed = (statistics.median(run[call] for run in found[level]) for level in ("plain float32", "O1"))
        print(f"{call:24} {1e6 * plain:5.2f} us, under O1 {1e6 * mixed:5.2f} us")
    return 0


def one_process(settings: dict) -> dict[str, float]:
    """Returns seconds: of a training step, the median of many, and of single calls."""
    import torch

    from torch_ddp import amp

    torch.set_num_threads(1)
    layers = [part for _ in range(30) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if settings:
        half = {"half_dtype": torch.bfloat16} if "half_dtype" in settings else {}
        model, optimizer = amp.initialize(model, optimizer, verbosity=0, **{**settings, **half})
    x, y = torch.randn(32, 64), torch.randint(0, 64, (32,))

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if settings:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        optimizer.step()

    small = torch.randn(8, 8)
    calls = {
        "view_as": lambda: torch.Tensor.view_as(small, small),
        "mm": lambda: torch.mm(small, small),
        "softmax": lambda: torch.softmax(small, 1),
    }
    for _ in range(5):
        step()
    return {
        "step": statistics.median(timed(step, 1) for _ in range(STEPS)),
        **{name: timed(call, REPEATS) for name, call in calls.items()},
    }


def timed(function, repeats: int) -> float:
    """Returns the seconds of one call, the mean of `repeats`."""
    begin = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - begin) / repeats


if __name__ == "__main__":
    sys.exit(main())
