"""Right ports, varied in everything that must not matter: here every alarm is false."""

import contextlib
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from environments import FLAG, Environments, tensorflows
from nets import ALONE, FULL, OPTIMIZERS, ROOT
from plain import judged_plainly
from trial import shown
from variation import WITHOUT, Variation, drawn_variation, varied

from parity.case import Case, load_case
from parity.experiment import Sides, run_case
from parity.judge.result import Result

LEVELS = ("function", "float32")


class RightPort(NamedTuple):
    """What became of a right port.

    Fields:
      of: what was varied, name to choice.
      alarm: where it raises one, "" where it does not.
      multiples: the largest difference of each of `LEVELS`, in multiples of what is allowed.
      plain: what the comparisons written by hand say.
    """

    of: dict[str, str]
    alarm: str
    multiples: tuple[float, ...]
    plain: dict[str, bool]


def run_right_ports(nets: list[str], number: int, chance: random.Random, other_python: str | None) -> list[RightPort]:
    """Runs `number` right ports of every net, varied as drawn from `chance`, and prints each."""
    if not nets or not number:
        return []
    versions = tensorflows(other_python)
    _print_left_out(versions)
    found = []
    with contextlib.closing(Environments(other_python)) as environments:
        for net in [net for _ in range(number) for net in nets]:
            case, of, variation = _drawn(net, chance, versions)
            of["tensorflow"] = versions[variation.tensorflow]
            found.append(_tried(case, of, variation, environments.sides(variation.tensorflow, variation.tf_onednn)))
            _print(found[-1])
    return found


def _print_left_out(versions: dict[str, str]) -> None:
    for version in versions.values():
        if version.startswith("1."):
            print(f"left out: oneDNN on and off in TensorFlow {version}, whose packages have none to switch")
    if len(versions) == 1:
        print("left out: a second TensorFlow, for neither --tf-python nor PARITY_TF_PYTHON names its interpreter")
    print("left out: the memory format where nothing is convolved, batch norm and ties where a net has none")
    print(f"left out: weight decay by the optimizer's table in {', '.join(ALONE)}, whose towers would add it up twice")


def _drawn(net: str, chance: random.Random, versions: dict[str, str]) -> tuple[Case, dict[str, str], Variation]:
    towers, steps = chance.choice([1, 2, 3, 4]), chance.choice([2, 3, 5])
    size, seed = chance.choice([2, 4, 6]), chance.randrange(1000)
    case = load_case(ROOT / "examples" / net, steps=steps, towers=towers, batch_size=size * towers, seed=seed)
    choices = {"its own": case.optimizer, **OPTIMIZERS, **({} if net in ALONE else {"full": FULL})}
    optimizer = chance.choice(list(choices))
    variation = drawn_variation(net, chance, versions)
    of = {"net": net, "towers": str(towers), "steps": str(steps), "shard": str(size), "optimizer": optimizer}
    of.update((name, value) for name, value in variation._asdict().items() if value != WITHOUT)
    return case.model_copy(update={"optimizer": choices[optimizer]}), of, variation


def _tried(case: Case, of: dict[str, str], variation: Variation, sides: Sides) -> RightPort:
    with tempfile.TemporaryDirectory() as folder:
        changed, out = varied(case, variation, Path(folder) / "port" / "varied"), Path(folder) / "out"
        result = run_case(changed, sides, levels=LEVELS, out=out)
        _require_effect(result, of)
        alarm = "" if result.verdict == "same" else f"{result.verdict} {shown(result.first_difference)}"
        return RightPort(of, alarm, _multiples(result), judged_plainly(changed, out))


def _require_effect(result: Result, of: dict[str, str]) -> None:
    # A choice that reaches no side would be counted for nothing: the facts of both have to say it.
    reference, candidate = result.reference, result.candidate
    said = {
        "tensorflow": reference["framework"].split()[-1],
        "tf_onednn": "on" if reference["flags"].get(FLAG) == "1" else "off",
        "tf_threads": str(reference["threads"]),
        "torch_threads": str(candidate["threads"]),
        "torch_mkldnn": "on" if candidate["mkldnn"] else "off",
        "memory_format": "channels_last" if candidate["channels_last"] else "contiguous",
        "buckets": str(candidate.get("bucket_cap_mb", "default")),
    }
    wrong = [name for name, value in said.items() if name in of and of[name] != value]
    if wrong:
        raise ValueError(f"right: expected facts of {', '.join(wrong)} as drawn, got others. Mend how they are set.")


def _multiples(result: Result) -> tuple[float, ...]:
    return tuple(max((check.multiple for check in result.levels[name].checks), default=0.0) for name in LEVELS)


def _print(port: RightPort) -> None:
    what = ", ".join(f"{name} {value}" for name, value in port.of.items())
    of_allowed = " and ".join(f"{multiple:.2g}" for multiple in port.multiples)
    print(
        f"right: {what}: {'FALSE ALARM ' + port.alarm if port.alarm else 'same'}, {of_allowed} of allowed", flush=True
    )


def print_variations(ports: list[RightPort]) -> None:
    """Prints for each choice of each variation the runs, the alarms, and the largest difference over what is allowed."""
    ways = list(ports[0].plain)
    print(f"\n{'right ports':36} runs  alarms  level 1  level 2  alarms of {', '.join(ways)}")
    names = list(dict.fromkeys(name for port in ports for name in port.of))
    for name in names:
        for value in sorted({port.of[name] for port in ports if name in port.of}):
            _print_row(f"{name.replace('_', ' ')} {value}", [port for port in ports if port.of.get(name) == value])
    _print_row("all", ports)


def _print_row(what: str, ports: list[RightPort]) -> None:
    levels = "".join(f"{max(each):9.2g}" for each in zip(*(port.multiples for port in ports), strict=True))
    alarms = Counter(way for port in ports for way, alarm in port.plain.items() if alarm)
    plain = "".join(f"{alarms[way]:5}" for way in ports[0].plain)
    print(f"{what:36} {len(ports):4} {sum(bool(port.alarm) for port in ports):7}{levels}{plain}")
