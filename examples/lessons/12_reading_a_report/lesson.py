"""Reading a parity report: a right port and three planted bugs, compared by `parity run` itself."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from parity.case import load_case
from parity.experiment import open_sides, run_case
from parity.report import print_result

FOLDER = Path(__file__).parent
CASES = ("right", "one", "two", "three")
EXPECTED = {
    "right": ("same", "", ()),
    "one": ("different", "act/0/hidden", ("activation_function",)),
    "two": ("different", "clip/logits/bias", ("clipping",)),
    "three": ("different", "var/hidden/kernel", ("adam_epsilon_placement",)),
}


def findings(players, tell):
    tell("starting TensorFlow and torch")
    found = {}
    with open_sides(players.tf_python, players.silence) as sides:
        for name in CASES:
            tell(f"parity run {name}.toml")
            found[name] = compare(name, sides)
    frameworks = [found["right"][side] for side in ("reference", "candidate")]
    return {"cases": found, "frameworks": frameworks}, claims_of(found)


def claims_of(found):
    bugs = [found[name] for name in CASES[1:]]
    told = {name: (case["verdict"], case["first"], tuple(case["causes"])) for name, case in found.items()}
    return {
        "the right port is the same, in every tensor": told["right"][0] == "same" and not found["right"]["wrong"],
        "every bug is found": all(bug["verdict"] == "different" for bug in bugs),
        "each at the quantity where it is made: an activation, a clipped gradient, an updated weight": all(
            told[name][1] == EXPECTED[name][1] for name in CASES
        ),
        "and each is named, and nothing else": all(told[name][2] == EXPECTED[name][2] for name in CASES),
        "whatever is computed before the bug is the same": all(set(bug["before"]) <= {"same"} for bug in bugs),
    }


def compare(name, sides):
    """Runs a case at level 1; returns the report as printed, and what was found tensor by tensor."""
    result = run_case(load_case(FOLDER / f"{name}.toml"), sides, ["function"])
    level = result.levels["function"]
    printed = Console(file=StringIO(), width=76, highlight=False)
    print_result(result, name, printed)
    report = printed.file.getvalue()
    head, mark, rest = report.partition("Cause: ")
    first = level.first_difference.check if level.first_difference else None
    checks = [check for check in level.checks if check.run == "lockstep"]
    place = checks.index(first) if first in checks else len(checks)
    return {
        "verdict": result.verdict,
        "report": head.rstrip(),
        "cause": (mark + rest).partition("\n\n")[0].rstrip(),
        "first": first.key if first else "",
        "causes": list(dict.fromkeys(cause.name for cause in result.causes)),  # one name may have two proofs
        "wrong": sum(check.verdict == "different" for check in level.checks),
        "tensors": len(level.checks),
        "before": [check.verdict for check in checks[:place] if check.verdict != "not_run"],
        "checks": [[check.step, check.key, check.verdict, check.multiple] for check in checks],
        **{side: getattr(result, side)["producer"]["framework"] for side in ("reference", "candidate")},
    }


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "12"])
