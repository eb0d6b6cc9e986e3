"""Writes the module that carries what was recorded to the torch side of a replay."""

import json
from pathlib import Path
from typing import Any

from parity.experiment.replay.script import Part
from parity.mapping import Mapping


def write_module(
    out: Path,
    part: Part,
    mapping: Mapping,
    loss: str,
    own: str | None,
    step: str | None = None,
    prefix: str = "replayed_part",
) -> dict[str, str]:
    """Writes a module for one part, for a side loads functions by name, and returns what a case says of them.

    Args:
      out: folder that the side looks in.
      part: what was recorded.
      mapping: joins the variables of the script and the port.
      loss: the port's, "module:function".
      own: the port's own optimizer, "module:function" of the model; without it the twin of the recorded one is made.
      step: the port's own step, "module:function"; without it the tool combines and updates.
      prefix: what the module's name begins with.
    """
    name = f"{prefix}_{part.name or 'only'}"
    lines = ["import importlib", ""]
    lines += ["from torch_ddp.worker.replay_random import with_recorded_draws"]
    lines += ["from torch_ddp.worker.replay_optimizer import recorded_optimizer, train_only", "", ""]
    lines += [f"loss = with_recorded_draws({_loaded(loss)})", "", ""]
    lines += [f"step = with_recorded_draws({_loaded(step)})", "", ""] if step else []
    lines += ["def optimizer(model):"]
    if part.trained is not None:
        trained = (pair for pair in mapping.pairs if pair.reference in part.trained)
        names = [*dict.fromkeys(name for pair in trained for name in pair.candidate)]
        lines += [f"    train_only(model, {names!r})"]
    if own is not None:
        lines += [f"    return {_loaded(own)}(model)"]
    else:
        rates = [part.rate(number) for number in part.steps]
        lines += [f"    return recorded_optimizer(model, {_without_rate(part)!r}, {rates!r})"]
    (out / f"{name}.py").write_text("\n".join(lines) + "\n")
    draws = any("recorded_draw_" in text for text in part.batch(part.steps[0]))
    drawing = {"loss": f"{name}:loss", **({"step": f"{name}:step"} if step else {})} if draws else {}
    return {"optimizer": f"{name}:optimizer", **drawing}


def _loaded(spec: str) -> str:
    module, _, function = spec.partition(":")
    return f"getattr(importlib.import_module({module!r}), {function!r})"


def _without_rate(part: Part) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(json.dumps(part.facts["optimizer"]))
    return {name: value for name, value in described.items() if name != "learning_rate"}
