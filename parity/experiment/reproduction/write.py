"""Writes a reproduction: one batch through one tower and one rank, gradients to combine, or an optimizer given one."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parity.case import Case
from parity.experiment.recording import Recorded
from parity.experiment.reproduction.scripts import (
    HEAD,
    TAIL,
    TF_COMBINE,
    TF_FORWARD,
    TF_IMPORT,
    TF_UPDATE,
    TORCH_COMBINE,
    TORCH_FORWARD,
    TORCH_UPDATE,
)
from parity.judge.result import FirstDifference
from parity.mapping import slot_partner
from parity.mapping.trace_map import Join
from parity.trace import TensorKey, Trace, parse_key, select, trace_name
from parity.trace.arrays import Array
from parity.trace.escape import in_docstring, one_line, python_string

FORWARD_REPRODUCED = ("act", "loss", "tower_grad")
UPDATE = ("slot", "var")
CLASSES = {
    "sgd": "GradientDescentOptimizer",
    "momentum": "MomentumOptimizer",
    "adam": "AdamOptimizer",
    "rmsprop": "RMSPropOptimizer",
    "adagrad": "AdagradOptimizer",
    "adadelta": "AdadeltaOptimizer",
    "ftrl": "FtrlOptimizer",
}
NOT_SETTINGS = ("name", "learning_rate", "clip", "ema", "weight_decay", "accumulate", "loss_scale")


class ReproductionError(ValueError):
    """A difference that nothing smaller than the case shows."""


class _Place(NamedTuple):
    # A tensor of the candidate and the index at which it holds what the reference holds at the worst index.
    text: str
    at: tuple[int, ...]


def write_reproduction(case: Case, recorded: Recorded, first: FirstDifference | None, into: Path) -> list[Path]:
    """Leaves two scripts and what they start from; each prints the number that differs most, and what both sides had.

    A layer, a loss or a rank's gradient takes one tower's shard and the state before the step; a combined gradient those of
    the reference's towers; a slot or a weight the reference's gradient, slots and weights. All in float64, as level 1 is.

    Args:
      case: what was run.
      recorded: its traces.
      first: where it differs first.
      into: folder; made.

    Returns:
      The scripts: TensorFlow's, torch's.

    Raises:
      ReproductionError: nothing differs, or what differs needs the whole case.
    """
    if (
        first is None
        or first.worst is None
        or first.check.run != "lockstep"
        or first.quantity not in (*FORWARD_REPRODUCED, "grad", *UPDATE)
    ):
        what = "no difference" if first is None else f"{first.check.key} ({first.check.run})"
        raise ReproductionError(
            f"reproduce: expected a layer, a loss, a gradient or an update that differs in lockstep, got {what}. "
            "Keep the whole case with --out."
        )
    traces, step = recorded.lockstep, first.check.step
    states = traces.states.step(step)
    # Level 1 decides in float64, and so do the scripts: a difference of 1e-9 would not show in float32.
    state = {text: _float64(states.read(text)) for text in states.names()}
    shape = traces.reference64.step(step).shape(first.check.key)
    place = _placed(recorded.join, parse_key(first.check.key), first, tuple(shape))
    writer = _write_combination if first.quantity == "grad" else _write_update
    writer = _write_forward if first.quantity in FORWARD_REPRODUCED else writer
    return writer(case, recorded, first, state, place, into)


def reproduced(
    case: Case, recorded: Recorded, first: FirstDifference | None, into: Path
) -> tuple[list[str], list[str]]:
    """Does the same for a report: returns the scripts, or none and a note that says why."""
    try:
        return [str(script) for script in write_reproduction(case, recorded, first, into)], []
    except ReproductionError as error:
        return [], [str(error)]


def _write_forward(
    case: Case, recorded: Recorded, first: FirstDifference, state: dict[str, Array], place: _Place, into: Path
) -> list[Path]:
    # One tower's shard: the other towers do not reach its layers, loss and gradients.
    file, tower = recorded.lockstep.reference64.step(first.check.step), first.tower
    feeds = {str(key): _float64(file.read(key)) for key in file.keys("feed") if key.tower == tower}
    held = select(state, "var", "stat")
    # Once, here: the scripts hold no mapping, so that each runs by itself.
    translated = recorded.join.write_all({**feeds, **held})
    _save(into / "batch_tf.npz", {parse_key(text).name: value for text, value in feeds.items()})
    _save(into / "state_tf.npz", {parse_key(text).name: value for text, value in held.items()})
    for name, quantities in (("batch_torch", ("feed",)), ("state_torch", ("var", "stat"))):
        kept = {parse_key(t).name: v for t, v in translated.items() if parse_key(t).quantity in quantities}
        _save(into / f"{name}.npz", kept)
    own = parse_key(place.text).name
    tf_fetch = {
        "act": f"outputs[{first.name!r}]",
        "loss": "loss",
        "tower_grad": f"tf.convert_to_tensor(tf.gradients(loss, variables[{first.name!r}])[0])",
    }[first.quantity]
    after, torch_fetch = {
        "act": ("", f"outputs[{own!r}].detach().numpy()"),
        "loss": ("", "loss.detach().numpy()"),
        "tower_grad": ("loss.backward()\n", f"dict(model.named_parameters())[{own!r}].grad.numpy()"),
    }[first.quantity]
    assert first.worst is not None
    tf = _filled(TF_FORWARD, tower=repr(case.tf.tower), fetch=tf_fetch, index=repr(first.worst.index))
    torch = _filled(
        TORCH_FORWARD,
        model=repr(case.torch.model),
        precision=repr("float64"),
        loss=repr(case.torch.loss),
        after=after,
        fetch=torch_fetch,
        index=repr(place.at),
    )
    return _write_scripts(case, first, TF_IMPORT + "\n" + tf, torch, into)


def _write_combination(
    case: Case, recorded: Recorded, first: FirstDifference, state: dict[str, Array], place: _Place, into: Path
) -> list[Path]:
    combine = case.torch.combine or case.combine
    if recorded.lockstep.candidate64.facts.get("combination") == "port" or case.tf.reduce not in (None, "mean", "sum"):
        raise ReproductionError(
            f"reproduce: expected {first.check.key} to be the mean or sum that the case names, got a wrapper or step of the "
            "port's own, or another tf.reduce. Keep the whole case with --out."
        )
    own = _gradients_of_towers(recorded.lockstep.reference64, first)
    carried = {tower: recorded.join.write_all({first.check.key: value})[place.text] for tower, value in own.items()}
    _save(into / "gradients_tf.npz", own)
    _save(into / "gradients_torch.npz", carried)
    assert first.worst is not None
    count = str(len(own))
    tf = _filled(TF_COMBINE, count=count, combine=case.combine, index=repr(first.worst.index))
    torch = _filled(TORCH_COMBINE, count=count, combine=repr(combine), index=repr(place.at))
    return _write_scripts(case, first, TF_IMPORT + "\n" + tf, torch, into)


def _gradients_of_towers(reference: Trace, first: FirstDifference) -> dict[str, Array]:
    """Returns what the towers give to be combined, by tower: clipped where each clips its own."""
    file = reference.step(first.check.step)
    for quantity in ("tower_clip", "tower_grad"):
        found = {key.tower: _float64(file.read(key)) for key in file.keys(quantity) if key.name == first.name}
        # A tower without a gradient, or with rows of one, would be combined by other rules than the script's.
        if found and sorted(found, key=int) == [str(tower) for tower in range(len(found))]:
            return found
    raise ReproductionError(
        f"reproduce: expected a whole gradient of {first.name} in each tower, got none. Keep the whole case with --out."
    )


def _write_update(
    case: Case, recorded: Recorded, first: FirstDifference, state: dict[str, Array], place: _Place, into: Path
) -> list[Path]:
    if case.optimizer is None:
        raise ReproductionError(
            "reproduce: expected an optimizer that the case describes, got one of the graph's own. Keep the case with --out."
        )
    step, name = first.check.step, first.name
    reference = recorded.lockstep.reference64
    given = _given(reference, step)
    counters = {parse_key(text).name: value for text, value in select(state, "state").items()}
    slots = {parse_key(t).slot: v for t, v in select(state, "slot").items() if parse_key(t).name == name}
    # Of the one variable that differs: an optimizer treats each by itself.
    own = {trace_name("slot", slot=slot): value for slot, value in slots.items()}
    _save(into / "state_tf.npz", {"var": state[trace_name("var", name)], **own, **counters})
    _save(into / "gradient_tf.npz", {"gradient": given[trace_name("grad", name)]})
    _save(into / "counters.npz", counters)
    # The port's optimizer is made for the whole model, and needs the state of all.
    of_variables = select(state, "var", "slot")
    _save(into / "state_torch.npz", recorded.join.write_all(of_variables))
    _save(into / "gradient_torch.npz", {parse_key(t).name: v for t, v in recorded.join.write_all(given).items()})
    table = case.optimizer.model_dump(exclude_none=True)
    # That of the step, which a schedule may have made; in a constant table it is the same.
    rate = float(counters.get("learning_rate", table["learning_rate"]))
    settings = ", ".join(f"{key}={value!r}" for key, value in table.items() if key not in NOT_SETTINGS)
    slot = parse_key(first.check.key).slot
    assert first.worst is not None
    tf = _filled(
        TF_UPDATE,
        optimizer=CLASSES[table["name"]],
        settings=f"{rate!r}" + (f", {settings}" if settings else ""),
        fetch=f"optimizer.get_slot(variable, {slot!r})" if first.quantity == "slot" else "variable",
        index=repr(first.worst.index),
    )
    made = {
        **{key: value for key, value in table.items() if key not in NOT_SETTINGS},
        "name": table["name"],
        "learning_rate": rate,
    }
    key = parse_key(place.text)
    partner = slot_partner(slot, recorded.lockstep.candidate64.facts.get("slots") or []) if slot else None
    torch = _filled(
        TORCH_UPDATE,
        model=repr(case.torch.model),
        precision=repr("float64"),
        optimizer=f"load({case.torch.optimizer!r})(model)"
        if case.torch.optimizer
        else f"make_optimizer({made!r}, model)",
        fetch=f"slots[{partner!r}, {key.name!r}].numpy()"
        if partner
        else f"dict(model.named_parameters())[{key.name!r}].detach().numpy()",
        index=repr(place.at),
    )
    return _write_scripts(case, first, TF_IMPORT + "\n" + tf, torch, into)


def _given(reference: Trace, step: int) -> dict[str, Array]:
    # What the reference's optimizer was given: the clipped gradients where it clips, under the names of the combined.
    file = reference.step(step)
    given = {text: file.read(text) for text in file.names("grad")}
    given.update((str(key.of("grad")), file.read(key)) for key in file.keys("clip"))
    return {text: _float64(np.asarray(value)) for text, value in given.items()}


def _write_scripts(case: Case, first: FirstDifference, tf: str, torch: str, into: Path) -> list[Path]:
    assert first.worst is not None
    written = []
    for side, body in (("TensorFlow", tf), ("torch", torch)):
        file = f"with_{side.lower()}.py"
        title = in_docstring(one_line(f"{first.check.key} at step {first.check.step} of {case.name}, by {side} alone."))
        text = _filled(HEAD, title=title, file=file, folders=repr([str(folder) for folder in case.folders]))
        tail = _filled(
            TAIL,
            what=python_string(first.check.key),
            index=str(list(first.worst.index)),
            side=side,
            reference=repr(first.worst.reference),
            candidate=repr(first.worst.candidate),
        )
        # What starts processes runs in one of them alone: their printing stands in its block.
        ended = (
            textwrap.indent(tail.lstrip(), "    ") if body.rpartition("\n\n\n")[2].startswith("if __name__") else tail
        )
        (into / file).write_text(text.rstrip() + "\n\n\n" + body + ended, encoding="utf-8")
        written.append(into / file)
    return written


def _filled(text: str, **values: str) -> str:
    # Not str.format: the scripts are full of braces of their own. In one pass: so may values be.
    return re.sub(r"\{(\w+)(?:!r)?\}", lambda field: values.get(field[1], field[0]), text)


def _placed(join: Join, key: TensorKey, first: FirstDifference, shape: tuple[int, ...]) -> _Place:
    assert first.worst is not None
    # From 1, for a transform may fill up with zeros. (the reference's shape,)
    numbered = np.arange(1, int(np.prod(shape)) + 1, dtype=np.float64).reshape(shape)
    wanted = numbered[first.worst.index]
    for text, values in join.write_all({str(key): numbered}).items():
        # Every element has a number of its own, so that where it lands is where the worst element is.
        found = np.argwhere(values == wanted)
        if len(found):
            return _Place(text, tuple(int(part) for part in found[0]))
    raise ReproductionError(f"reproduce: expected {key!s} in the candidate too, got none. Keep it with --out.")


def _float64(value: Any) -> Array:
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _save(file: Path, held: Mapping[str, Array]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(file, allow_pickle=False, **held)
