"""Horovod's averaging, asynchronous servers with the staleness they measure, and replicas that nobody waits for."""

import math

import numpy as np

RANKS, PASSES, WORKERS, NEEDED, STEPS = 2, 4, 3, 2, 40
random = np.random.RandomState(17)
X = random.randn(64, 4).round(3)
OPTIMA = np.array(
    [[1.0, -0.5, 0.3], [0.8, -0.7, 0.5], [-0.6, 0.9, 1.2]]
)  # the last worker's examples say something else
PIECES = [random.randn(12, 3).round(3) for _ in range(WORKERS)]
SHARDS = [
    [x.tolist(), (x @ own + 0.1 * random.randn(len(x))).round(3).tolist()]
    for x, own in zip(PIECES, OPTIMA, strict=True)
]
# Who arrives in each step; who does not, comes in the next one, with a gradient of this one.
FAIR = [[(step - 1) % 3] * (step > 0) + [each for each in range(3) if each != step % 3] for step in range(STEPS)]
ARGUMENTS = {
    "x": X.tolist(),
    "y": np.sin(X @ [1.0, 0.7, -0.8, 0.5]).round(3).tolist(),
    "ranks": RANKS,
    "passes": PASSES,
    "thresholds": [0, 1024, 64 * 2**20],
    "workers": [1, 2, 4],
    "each": 40,
    "rate": 0.15,
    "delays": [0, 3, 15],
    "updates": 160,
    "shards": SHARDS,
    "needed": {"all": WORKERS, "one is slow": NEEDED, "by turns": NEEDED},
    "shard_rate": 0.1,
    "orders": {
        "all": [[0, 1, 2]] * STEPS,
        "one is slow": [[0, 1], [2, 0, 1]] * (STEPS // 2),
        "by turns": FAIR,
    },
}
DELAYS, ASKED, BACKUPS = [0, 1, 3, 7, 15], 8, [0, 1, 2, 4]


def findings(tf, torch):
    horovod, race, delayed = torch["horovod"], torch["race"], torch["delayed"]
    messages = horovod["messages"]
    tensors, fused = messages["0"], messages[str(ARGUMENTS["thresholds"][-1])]
    behind = {count: found["behind"] for count, found in race.items()}
    runs, optima = tf["runs"], {"all": optimum([0, 1, 2]), "without the slow one": optimum([0, 1])}
    numbers = {
        **{name: ARGUMENTS[name] for name in ("ranks", "passes", "each", "rate", "updates", "shard_rate")},
        "messages": messages,
        "horovod": horovod,
        "mean_behind": {count: float(np.mean(each)) for count, each in behind.items()},
        "most_behind": {count: max(each) for count, each in behind.items()},
        "race": {count: found["loss"] for count, found in race.items()},
        "limits": [[delay, critical(delay), 2 * math.sin(math.pi / (4 * delay + 2))] for delay in DELAYS],
        "delayed": delayed,
        "ends": {delay: losses[-1] for delay, losses in delayed.items()},
        "first": torch["first"],
        "steps": STEPS,
        "needed": NEEDED,
        "runs": {name: run["weights"] for name, run in runs.items()},
        "arrived": runs["one is slow"]["arrived"],
        "turned_away": {name: sum(not each[3] for each in run["arrived"]) for name, run in runs.items()},
        "optima": {name: each.tolist() for name, each in optima.items()},
        "far": {name: float(np.linalg.norm(run["weights"] - optima["all"])) for name, run in runs.items()},
        "times": {extra: time_of_step(extra) for extra in BACKUPS},
        "asked": ASKED,
        "lines": tf["lines"],
    }
    slow = runs["one is slow"]["arrived"]
    claims = {
        "fused or tensor by tensor, what Horovod combines is DDP's mean to the bit, on two ranks": all(
            off == 0 for off in horovod["off"].values()
        ),
        "the threshold changes how many messages there are, and no byte of what is in them": (
            len(tensors) > len(messages["1024"]) > len(fused) == 1
            and len({sum(each) for each in messages.values()}) == 1
        ),
        f"{PASSES} backward passes a step are sent once and added up, {PASSES} times the mean": (
            horovod["messages of passes"] == 1
            and abs(horovod["times"] - PASSES) < 1e-9
            and horovod["same direction"] < 1e-14
        ),
        "clipped between backward and step without waiting, nothing is clipped": (
            horovod["clipped"]["synchronized"] < 0.0501 and horovod["clipped"]["in between"] > 0.1
        ),
        "one worker is never behind, and of several a gradient is behind by as many as the others at most on the mean": (
            max(behind["1"]) == 0 and all(0 < numbers["mean_behind"][count] <= int(count) - 1 for count in ("2", "4"))
        ),
        "the largest rate of a quadratic shrinks with the delay as theory says": all(
            abs(measured - said) < 1e-3 for _, measured, said in numbers["limits"]
        ),
        "at a rate at which a net learns it learns less with a short delay, and blows up with a long one": (
            numbers["ends"]["0"] < 0.1 * torch["first"]
            and 2 * numbers["ends"]["0"] < numbers["ends"]["3"] < torch["first"] < 1e-3 * numbers["ends"]["15"]
        ),
        "a gradient of an older step is turned away, and no other": (
            [each[3] for each in slow] == [each[0] != 2 for each in slow] and numbers["turned_away"]["all"] == 0
        ),
        "where the same worker is always late, the weights are those of the others' examples": (
            np.linalg.norm(runs["one is slow"]["weights"] - optima["without the slow one"]) < 1e-2
            and np.linalg.norm(runs["all"]["weights"] - optima["all"]) < 1e-2
            and numbers["far"]["by turns"] < 0.5 * numbers["far"]["one is slow"]
        ),
    }
    return numbers, claims


def optimum(workers):
    x, y = (np.concatenate([SHARDS[worker][part] for worker in workers]) for part in (0, 1))
    return np.linalg.lstsq(x, y, rcond=None)[0]


def critical(delay, steps=20000):
    """Returns the largest rate at which w := w - rate w(delay updates ago) shrinks, by halving."""
    low, high = 0.0, 2.5
    for _ in range(14):
        rate = (low + high) / 2
        seen = [1.0] * (delay + 1)
        for _ in range(steps // 20):
            seen.append(seen[-1] - rate * seen[-1 - delay])
        grows = max(map(abs, seen[-delay - 20 :])) > max(map(abs, seen[-delay - 400 : -delay - 380]))
        low, high = (low, rate) if grows else (rate, high)
    return low


def time_of_step(extra, draws=20000):
    """Returns the mean time until `ASKED` of the workers have answered; each takes 1, and 1 more on the mean by chance."""
    times = 1 + np.random.RandomState(0).exponential(size=(draws, ASKED + extra))
    return float(np.sort(times, axis=1)[:, ASKED - 1].mean())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "17"])
