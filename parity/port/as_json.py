"""Says for machines what was written and what its proof rests on: the key `port` of `parity port --json`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parity.experiment.replay.training import TRAINED_THE_SAME, TRAINING
from parity.judge.result import Result
from parity.port.prove import NOT_IN_A_PORT, left_of_program, unjudged
from parity.port.source.program import Missing, Port
from parity.report import nothing_compared

NOT_PROVEN = "nothing was proven: --no-prove"


def left_to_write(port: Port) -> list[Missing]:
    """Returns what of a port and its training program is left to write by hand, beside what the script is fed."""
    return [*port.missing, *left_of_program(port)]


def count_by_kind(missing: Sequence[Missing]) -> dict[str, int]:
    """Returns how many parts of each kind are left to write, the most first."""
    return dict(Counter(each.counted_as for each in missing).most_common())


def result_of(port: Port, proof: Result | None) -> Result:
    """Returns what a proof found; without one that nothing was compared, and why."""
    if proof is not None:
        return proof
    why = f"nothing was proven: {len(port.missing)} parts are left to write" if port.missing else NOT_PROVEN
    return nothing_compared(why=why)


def port_as_json(port: Port, trace: Path, written: Mapping[Path, str], proof: Result | None) -> dict[str, Any]:
    """Returns what was written as JSON values; keys are only ever added.

    Args:
      port: the port.
      trace: what it was written from.
      written: by path of each file, its difference to the edited one that it stands beside, as of `write_files`.
      proof: what its replay found, None where there was none.
    """
    missing = left_to_write(port)
    facts = port.parts[0].trace.facts
    return {
        "script": port.script,
        "files": [{"path": str(path), "edited": bool(text), "difference": text} for path, text in written.items()],
        "missing": [{"kind": each.counted_as, **_without_kind(each)} for each in missing],
        "missing_count": len(missing),
        "missing_by_kind": count_by_kind(missing),
        "rests_on": {
            "trace": str(trace),
            "framework": facts.get("framework"),
            "towers": port.parts[0].towers,
            "steps": len(port.parts[0].trace.step_numbers),
            "ops": port.ops,
            **_judged(proof),
        },
        "plain": [*port.plainly],
        "not_covered": [*port.assumed, *unjudged(port, proof), *NOT_IN_A_PORT],
    }


def _without_kind(missing: Missing) -> dict[str, str]:
    return {"what": missing.what, "where": missing.where, "why": missing.why}


def _judged(proof: Result | None) -> dict[str, Any]:
    """What a proof compared: nothing of it where there was none."""
    levels = [level for level in proof.levels.values() if level.verdict == "same"] if proof else []
    checks = [check for level in levels for check in level.checks]
    return {
        "levels": [level.name for level in levels],
        "tensors": sum(check.run != TRAINING for check in checks),
        "tensors_of_train": sum(check.run == TRAINING for check in checks),
        "train": [note for level in levels for note in level.notes if TRAINED_THE_SAME.partition("{")[0] in note],
    }
