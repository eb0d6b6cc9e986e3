"""Settles the checks of level 1 that rounding decides, with live TensorFlow or by what a golden trace keeps."""

from pathlib import Path

from parity.experiment.recording import Recorded, Setup, SidePaths
from parity.experiment.rejudge.ill_conditioned import measure_kept, measure_live, settle_empty_gradients
from parity.experiment.rejudge.non_differentiable import BESIDE, LiveBeside, settle_kinks
from parity.experiment.runs import REPLICAS
from parity.experiment.sides.tensorflow_side import ReferenceSide
from parity.experiment.spec import Capability
from parity.judge.result import Check
from parity.trace import SHADOW_EMPTY, Trace

OLD = (
    "at non-differentiable points, and where a gradient is structurally zero, a right port may be called different here: "
    "the golden trace does not hold what rounding does there. Bless the case again."
)


def settle(checks: list[Check], recorded: Recorded, playing: Setup, states: SidePaths) -> list[Check]:
    """Returns the checks of level 1, judged again where rounding decides: `settle_empty_gradients`, `settle_kinks`.

    Args:
      checks: of level 1.
      recorded: what they are about.
      playing: the sides.
      states: the states before each step.
    """
    live = Capability.RERUN in playing.tf.capabilities
    if live:
        checks = settle_empty_gradients(checks, lambda lost: measure_live(recorded, playing, states, lost))
    elif (empty := playing.tf.kept(SHADOW_EMPTY)) is not None:
        checks = settle_empty_gradients(checks, measure_kept(Trace(empty)))
    if recorded.races:
        return checks
    known = [inputs for inputs, name in BESIDE.items() if live or _is_kept(playing.tf, name)]
    return settle_kinks(checks, [LiveBeside(recorded, playing, states, inputs) for inputs in known])


def _is_kept(golden: ReferenceSide, name: str) -> bool:
    free = [f"free-{name}", *(f"free-{name}-replica-{number}" for number in range(REPLICAS))]
    return all(golden.kept(each) for each in [name, *free])


def settled_notes(checks: list[Check], golden: Path | None) -> list[str]:
    """Returns what a report says where numbers differ and a golden trace does not tell what rounding does there."""
    told = golden is None or (golden / "runs" / SHADOW_EMPTY).is_dir()
    return [OLD] if not told and any(check.verdict == "different" for check in checks) else []
