"""A script that `parity record` could have left, with its float64 shadow, made of arrays by the sides of `made_sides`."""

from dataclasses import replace

import numpy as np

from parity.experiment.replay.script import parts_of
from parity.mapping.states import states_before, write_states
from parity.trace import (
    QUANTITIES,
    SHADOW,
    SHADOW_EMPTY,
    SHADOW_FREE,
    SHADOW_SPREAD,
    SHADOW_TIES,
    SHADOW_TIES_OF_INPUTS,
    Perturbation,
    Trace,
    TraceWriter,
)
from support.made_sides import Habits, MadeProcess

MOMENTUM = {"name": "momentum", "learning_rate": 0.1, "momentum": 0.9}
RECORDED = tuple(quantity for quantity in QUANTITIES if quantity not in ("eval", "noise"))
STEPS = [0, 1, 2, 3]


def made_recording(folder, habits=None, optimizer=None, empty=None, kinks=(), facts=(), batch_size=8):
    """Leaves a recorded trace and returns its folder.

    Args:
      folder: to make things in.
      habits: how the script computes.
      optimizer: name and hyper-parameters.
      empty: by step, dict of name to how far rounding moves it.
      kinks: numbers of the steps that the shadow has where weights, and inputs too, were moved.
      facts: further ones.
    """
    optimizer = optimizer or MOMENTUM
    habits = habits or Habits()
    told = (("combine", "mean"), ("optimizer", optimizer), ("towers", 2), *habits.facts, *facts)
    script = MadeProcess("tf", replace(habits, facts=told))
    script.ask("batches", out=folder / "feeds", steps=len(STEPS), batch_size=batch_size, seed=0)
    script.ask("prepare", case={"optimizer": optimizer}, precision="float32").result()
    script.ask("prepare", case={"optimizer": optimizer}, precision="float64").result()
    script.ask("initialize", out=folder / "start", seed=0).result()

    def run(out, precision, follow=None, feeds=folder / "feeds", start=folder / "start", steps=STEPS, moved=()):
        asked = {"perturbations": [each._asdict() for each in moved]}
        words = {"feeds": feeds, "start": start, "follow": follow, "steps": steps, "quantities": RECORDED}
        script.ask("run", **words, out=out, precision=precision, **asked).result()
        return Trace(out)

    recorded = run(folder / "trace", "float32")
    shadow = folder / "trace" / SHADOW
    run(shadow, "float64", write_states(folder / "states", states_before(recorded, STEPS)))
    _leave_free(run, shadow)
    [part] = parts_of(recorded)
    for inputs, name in ((False, SHADOW_TIES), (True, SHADOW_TIES_OF_INPUTS)):
        moved = replace(part, aside="inputs" if inputs else "weights")
        feeds = write_states(folder / f"{name}-feeds", ((step, moved.batch(step)) for step in STEPS))
        states = write_states(folder / f"{name}-states", ((step, moved.before(step)) for step in STEPS))
        run(shadow / name, "float64", states, feeds, steps=list(kinks))
    _write(shadow / SHADOW_EMPTY, empty or {})
    return folder / "trace"


def _leave_free(run, shadow):
    free = run(shadow / SHADOW_FREE, "float64")
    ulp = [(Perturbation("ulp", "var", n, 1), Perturbation("ulp", "feed", 1000 * n, 1)) for n in range(3)]
    replicas = [run(shadow.parent / f"replica-{n}", "float64", moved=moved) for n, moved in enumerate(ulp)]
    spread = {
        step: {
            text: max(np.linalg.norm(each.step(step).read(text) - free.step(step).read(text)) for each in replicas)
            for text in free.step(step).names()
        }
        for step in STEPS
    }
    start = [
        np.concatenate([np.ravel(each.init().read(text)) for text in free.init().names("var")])
        for each in (free, *replicas)
    ]
    _write(shadow / SHADOW_SPREAD, spread, ulp=min(float(np.linalg.norm(each - start[0])) for each in start[1:]))


def _write(folder, steps, **facts):
    writer = TraceWriter(folder, {"package": "made"}, facts)
    writer.init({})
    for step, tensors in steps.items():
        writer.step(step, {text: np.array(value) for text, value in tensors.items()})
    writer.close()
