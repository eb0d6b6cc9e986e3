"""Proves a port that was written, by the replay of the trace that it was written from, and says so in its docstring."""

import tempfile
from pathlib import Path

from parity.experiment.replay import session
from parity.experiment.spec import Progress, silent
from parity.judge.result import Result
from parity.port.files import write_files
from parity.port.source.program import Port

MODULE = "port"
WRITTEN_FILE, WRITTEN_MAPPING = f"{MODULE}.py", f"{MODULE}.toml"
UNPROVEN = "UNPROVEN"


def write_port(port: Port, folder: Path, proof: Result | None) -> dict[Path, str]:
    """Leaves a port in a folder; returns what `write_files` does.

    Args:
      port: what was written.
      folder: made if missing.
      proof: what its replay found, None where there was none.
    """
    return write_files(folder, {WRITTEN_FILE: port.source(docstring(port, proof)), WRITTEN_MAPPING: port.mapping})


def prove(port: Port, trace: Path, silence: float, tick: Progress = silent) -> Result:
    """Replays a trace on the port that was written from it.

    Args:
      port: the port.
      trace: what it was written from.
      silence: seconds without a heartbeat after which the port is ended.
      tick: called with how far it is.
    """
    with tempfile.TemporaryDirectory(prefix="parity-port-") as name:
        folder = Path(name)
        write_port(port, folder, None)
        losses = {section: f"{MODULE}:{function}" for section, function in port.losses.items()}
        optimizers = {section: f"{MODULE}:{function}" for section, function in port.optimizers.items()}
        side = session.Port(f"{MODULE}:Model", losses, optimizers, [str(folder)], silence)
        return session.replay(trace, side, folder / WRITTEN_MAPPING, folder / "replay", tick)


def docstring(port: Port, proof: Result | None) -> str:
    """Returns the docstring of a port: where it comes from, what is proven of it and what is not."""
    facts = port.parts[0].trace.facts
    steps = len(port.parts[0].trace.step_numbers)
    lines = [
        f"The towers of {port.script}: each rank computes one.",
        "",
        f"Written by `parity port` from a trace of {facts.get('framework', 'TensorFlow')}: {port.parts[0].towers} towers, "
        f"{steps} steps, {port.ops} ops.",
        *_verdict(port, proof),
        "Not in here: what fills the inputs, evaluation, checkpoints.",
        "",
    ]
    return "\n".join(lines)


def _verdict(port: Port, proof: Result | None) -> list[str]:
    if port.missing:
        return [f"{UNPROVEN}: {len(port.missing)} parts are left to write; `parity port` names them."]
    if proof is None:
        return [f"{UNPROVEN}: nothing was compared. `parity port` without --no-prove does."]
    if proof.verdict != "same":
        return [f"{UNPROVEN}: its replay says {proof.verdict}."]
    judged = [level for level in proof.levels.values() if level.verdict == "same"]
    checks = sum(len(level.checks) for level in judged)
    own = "its own optimizer" if port.optimizers else "the recorded optimizer's twin"
    return [
        f"Proven same in lockstep with the script, levels {' and '.join(level.name for level in judged)}: {checks} tensors,",
        f"losses, gradients, slots, statistics and weights, with {own}. The ranks' gradients were combined by the replay.",
    ]
