"""Times what amp's casts cost: a training step of many small layers at O1 beside torch.autocast's, and one torch call.

Launch: ``python benchmarks/amp.py [--rounds 5] [--pairs 100] [--device cpu]``. Twenty dense layers of width 64 with ReLU, on
one thread of the CPU. In each process an O1 step and a step of `torch.autocast` with `GradScaler` take turns, so that what
else the machine does weighs on both; time is that of the processor, not of the clock. Prints the ratio of the two, which
should stay below 1.2, the median step of each in milliseconds with a step in float32 beside them, and what the mode of O1
adds to single calls in microseconds. Ends with 1 where a ratio is above.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

LIMIT = 1.2
HALVES = ("float16", "bfloat16")
CALLS = (
    "view_as",
    "relu",
    "mm",
    "softmax",
)  # on no list, the same behind Python code, a product, a function in float32
LAYERS, WIDTH, ROWS, REPEATS = 20, 64, 32, 2000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="processes for each half precision")
    parser.add_argument("--pairs", type=int, default=100, metavar="N", help="pairs of steps in each")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(one_process(arguments.one, arguments.pairs, arguments.device)))
        return 0
    slower = False
    for half in HALVES:
        command = [
            sys.executable,
            __file__,
            "--one",
            half,
            "--pairs",
            str(arguments.pairs),
            "--device",
            arguments.device,
        ]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(arguments.rounds)]
        steps = {name: statistics.median(run[name] for run in runs) for name in ("O1", "autocast", "float32")}
        ratios = sorted(run["O1"] / run["autocast"] for run in runs)
        ratio = statistics.median(ratios)
        slower |= ratio > LIMIT
        shown = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in steps.items())
        print(f"{half:9} O1 over autocast {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); a step: {shown}")
    for call in CALLS:
        plain, mixed = (statistics.median(run[f"{call} {mode}"] for run in runs) for mode in ("plain", "O1"))
        print(f"{call:9} {1e6 * plain:.2f} us, under O1 {1e6 * mixed:.2f} us")
    return int(slower)


def one_process(half_name: str, pairs: int, device: str) -> dict[str, float]:
    """Returns seconds: of training steps, the median of many, and of single calls."""
    import torch

    from torch_ddp import amp

    torch.set_num_threads(1)
    half = getattr(torch, half_name)
    x, y = torch.randn(ROWS, WIDTH, device=device), torch.randint(0, WIDTH, (ROWS,), device=device)

    def model_and_optimizer():
        torch.manual_seed(0)
        layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
        model = torch.nn.Sequential(*layers).to(device)
        return model, torch.optim.SGD(model.parameters(), lr=0.01)

    cross_entropy = torch.nn.functional.cross_entropy
    model, optimizer = model_and_optimizer()
    # Dynamic for both, and for bfloat16 too, so that both do the same work.
    model, optimizer = amp.initialize(model, optimizer, half_dtype=half, loss_scale="dynamic", verbosity=0)
    theirs, their_optimizer = model_and_optimizer()
    scaler = torch.amp.GradScaler(device)
    plain, plain_optimizer = model_and_optimizer()

    def o1_step() -> None:
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()

    def autocast_step() -> None:
        their_optimizer.zero_grad()
        with torch.autocast(device, dtype=half):
            loss = cross_entropy(theirs(x), y)
        scaler.scale(loss).backward()
        scaler.step(their_optimizer)
        scaler.update()

    def float32_step() -> None:
        plain_optimizer.zero_grad()
        cross_entropy(plain(x), y).backward()
        plain_optimizer.step()

    small = torch.rand(8, 8)
    calls = {
        "view_as": lambda: torch.Tensor.view_as(small, small),
        "relu": lambda: torch.nn.functional.relu(small),
        "mm": lambda: torch.mm(small, small),
        "softmax": lambda: torch.softmax(small, 1),
    }

    def out_of_casts(function):
        def run() -> None:
            with amp.disable_casts():
                function()

        return run

    # The block around the others' steps is timed with them; it costs a microsecond.
    steps = {"O1": o1_step, "autocast": out_of_casts(autocast_step), "float32": out_of_casts(float32_step)}
    seconds = {name: [] for name in steps}
    for index in range(pairs + 10):
        for name, step in steps.items():
            taken = timed(step, 1, device)
            if index >= 10:
                seconds[name].append(taken)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    for name, call in calls.items():
        found[f"{name} O1"] = timed(call, REPEATS)
        with amp.disable_casts():
            found[f"{name} plain"] = timed(call, REPEATS)
    return found


def timed(function, repeats: int, device: str = "cpu") -> float:
    """Returns the seconds of one call, the mean of `repeats`: of the processor, or on a GPU of the clock."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    begin = clock()
    for _ in range(repeats):
        function()
    if device != "cpu":
        import torch

        torch.cuda.synchronize()
    return (clock() - begin) / repeats


if __name__ == "__main__":
    sys.exit(main())
