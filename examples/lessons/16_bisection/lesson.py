"""Bisection: the first different tensor, over layers and over steps, of a port whose second bug hides behind its first."""

from io import StringIO
from pathlib import Path

import numpy as np
from rich.console import Console

from parity.case import load_case
from parity.experiment import open_sides, run_case
from parity.report import print_result

FOLDER = Path(__file__).parent
STEPS, DECAY = 24, 11
random = np.random.RandomState(16)
SHAPES = {"logits/kernel": (8, 3), "logits/bias": (3,)}
for block in range(4):
    SHAPES |= {f"block{block}/dense/kernel": (8, 8)}
    SHAPES |= {f"block{block}/{name}": (8,) for name in ("dense/bias", "norm/gamma", "norm/beta")}
WEIGHTS = {name: 0.35 * random.randn(*shape) + name.endswith("gamma") for name, shape in SHAPES.items()}
INPUTS = random.randn(STEPS, 16, 8).astype(np.float32)
ARGUMENTS = {
    # Of float32 already, so that both precisions begin with the same numbers.
    "weights": {name: value.astype(np.float32).tolist() for name, value in WEIGHTS.items()},
    "batches": [[x.tolist(), np.argmax(x[:, :3] + x[:, 3:6], 1).tolist()] for x in INPUTS],
    "rates": [0.5 * 0.5 ** (step // DECAY) for step in range(STEPS)],
}
TENSORS = [f"{kind}{place}" for place in range(4) for kind in ("dense", "norm", "tanh")] + ["logits", "loss"]
EXACT = 1e-12  # in float64, where rounding is far below
CASES = {"both": "act/0/norm2", "second": "state/learning_rate", "right": ""}


def reports(players, tell):
    """Returns of each case what `parity run` prints at level 1, and its first difference."""
    found = {}
    with open_sides(players.tf_python, players.silence) as sides:
        for name in CASES:
            tell(f"parity run {name}.toml")
            result = run_case(load_case(FOLDER / f"{name}.toml"), sides, ["function"])
            printed = Console(file=StringIO(), width=76, highlight=False)
            print_result(result, name, printed)
            first = result.levels["function"].first_difference
            found[name] = {
                "verdict": result.verdict,
                "report": printed.file.getvalue().partition("\n\nFacts that differ")[0].rstrip(),
                "first": first.check.key if first else "",
                "step": first.check.step if first else -1,
            }
    return found


def findings(tf, torch, reports):
    layers = {
        name: {
            dtype: [apart(of[dtype]["tensors"][each], tf[dtype]["tensors"][each]) for each in TENSORS] for dtype in of
        }
        for name, of in torch["runs"].items()
    }
    steps = {
        name: {
            dtype: [apart(*pair) for pair in zip(of[dtype]["states"], tf[dtype]["states"], strict=True)] for dtype in of
        }
        for name, of in torch["runs"].items()
    }
    layer, over_layers = halving(layers["both"]["float64"], EXACT)
    state, over_steps = halving(steps["second"]["float64"], EXACT)
    step = state - 1  # the last update before the first state that differs
    moved = [np.diff(side["float64"]["states"], axis=0) for side in (torch["runs"]["second"], tf)]
    curves = {name: of["float64"]["losses"] for name, of in {"towers": tf, **torch["runs"]}.items()}
    numbers = {
        "tensors": TENSORS,
        "steps": STEPS,
        "tolerance": EXACT,
        "layers": layers,
        "by_step": steps,
        "over_layers": [[TENSORS[at], off, same] for at, off, same in over_layers],
        "over_steps": over_steps,
        "first": TENSORS[layer],
        "step": step,
        "ratio": float(np.median(moved[0][step] / moved[1][step])),
        "before": float(np.median(moved[0][step - 1] / moved[1][step - 1])),
        "gradient_off": apart(moved[0][step] / 0.25, moved[1][step] / 0.5),
        "curves": {name: [each[0], each[-1]] for name, each in curves.items()},
        "looks": [len(over_layers), len(over_steps)],
        "not_transposed": torch["not transposed"],
        "reports": reports,
    }
    floor = {dtype: max(layers["right"][dtype]) for dtype in ("float64", "float32")}
    claims = {
        "the right port differs by rounding alone, in every tensor and behind every step": all(
            max(each["right"]["float64"]) < EXACT for each in (layers, steps)
        ),
        "a forgotten transposition of square kernels passes the check of shapes": (
            torch["not transposed"]["kernels"] == 4
            and abs(torch["not transposed"]["loss"] - curves["towers"][0]) > 1e-3
        ),
        "by halving, the first different tensor is a layer norm's, as by looking at all of them": (
            numbers["first"] == "norm2" and layer == first_of(layers["both"]["float64"], EXACT)
        ),
        "in float64 the bug stands out of rounding a million times as far as in float32": (
            layers["both"]["float64"][layer] / floor["float64"]
            > 1e6 * layers["both"]["float32"][layer] / floor["float32"]
        ),
        "rounding of the right port grows over the steps, in float32 to a tenth at least of what the bug began with": (
            steps["right"]["float32"][-1] > max(5 * steps["right"]["float32"][1], 0.1 * steps["both"]["float64"][1])
        ),
        "with both bugs the first step differs, and with one fixed the first that does is the one before the decay": (
            first_of(steps["both"]["float64"], EXACT) == 1
            and step == DECAY - 1
            and state == first_of(steps["second"]["float64"], EXACT)
        ),
        "there the update is half the towers', in one direction, and the gradient is the same": (
            abs(numbers["ratio"] - 0.5) < 1e-9 and abs(numbers["before"] - 1) < 1e-9 and numbers["gradient_off"] < 1e-9
        ),
        "`parity run` finds each at the same place": all(
            reports[name]["first"].startswith(first) and reports[name]["verdict"] == ("different" if first else "same")
            for name, first in CASES.items()
        )
        and reports["second"]["step"] == step,
    }
    return numbers, claims


def halving(differences, tolerance):
    """Returns the first place that is beyond the tolerance, and what was looked at: place, difference, same or not."""
    low, high, looks = 0, len(differences), []
    while low < high:
        middle = (low + high) // 2
        same = differences[middle] <= tolerance
        looks.append([middle, differences[middle], same])
        low, high = (middle + 1, high) if same else (low, middle)
    return low, looks


def first_of(differences, tolerance):
    return next((place for place, each in enumerate(differences) if each > tolerance), len(differences))


def apart(one, other):
    """Returns the largest difference, relative to the largest number."""
    one, other = np.array(one, np.float64), np.array(other, np.float64)
    return float(np.abs(one - other).max() / np.abs(other).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "16"])
