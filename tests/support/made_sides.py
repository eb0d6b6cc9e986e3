"""Both sides of a case as arrays in this process: they answer what the child processes answer, in milliseconds.

The net is `max(x @ kernel + bias)` over two columns, with the mean of the squared error as its loss, a moving mean of the
inputs beside it, and momentum or Adam. Columns that are equal make every example a non-differentiable point; outputs from
which their mean is taken leave the bias a gradient of nothing but rounding.
"""

from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parity.case import load_case
from parity.trace import ForwardOp, RunWriter, Trace, TraceWriter, perturb, perturbations_of, write_forward
from parity.worker.failures import SideFailed
from parity.worker.launch import Sides

CASE = """
name = "made"
steps = 4
batch_size = 8
towers = 2
combine = "mean"
batches = "data:batches"
[optimizer]
name = "momentum"
learning_rate = 0.1
momentum = 0.9
[tf]
tower = "model_tf:tower"
[torch]
model = "model_torch:Model"
loss = "model_torch:loss"
"""
MODULES = {
    "data": "def batches(steps, batch_size, seed): ...",
    "model_tf": "def tower(x, y): ...",
    "model_torch": "class Model: ...\ndef loss(model, x, y): ...\ndef optimizer(parameters): ...",
}
KERNEL, BIAS, MEAN = "dense/kernel", "dense/bias", "norm/moving_mean"
SHAPES = {KERNEL: [3, 2], BIAS: [2], MEAN: [3]}
PORTS = {KERNEL: "dense.weight", BIAS: "dense.bias", MEAN: "norm.running_mean"}
DECAY = 0.9  # of the moving mean
SLOTS = {"momentum": {"momentum": "momentum_buffer"}, "adam": {"m": "exp_avg", "v": "exp_avg_sq"}, "sgd": {}}
OWN = {"name": "momentum", "learning_rate": 0.1}  # what the function of a case's own optimizer would make
SCALE = 2.0**16  # of the loss, in half precision


def made_case(folder: Path, text: str = CASE):
    """Returns a case of this text whose functions nobody calls."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "case.toml").write_text(text)
    for name, source in MODULES.items():
        (folder / f"{name}.py").write_text(source)
    return load_case(folder)


@dataclass
class Habits:
    """How a side computes.

    Attributes:
      last_of_equal: whether the last of two equal columns is the larger one, and not the first.
      backwards: whether sums run from the last term to the first.
      rate: what the learning rate is multiplied by.
      loss: what the loss is multiplied by.
      double_rate: whether the rate is a double, and not rounded to float32.
      wandering: how far every answer is off anew, as a part of each gradient.
      survivor: the tower whose moving mean survives.
      evaluates: whether there is an inference.
      columns: whether both columns start equal, and slots empty.
      start: what every weight is multiplied by at the start.
      centred: whether the mean is taken from the outputs.
      nudge: what is added to every bias in each step.
      zeros: whether biases start at zero, and the first example of each tower is nothing but zeros.
      decay: of the moving mean.
      facts: further facts.
      fails: names of requests, or of runs, that end with an error.
      hidden: quantities, and names, that no trace of it has.
      blur: how far its outputs in float32 are off, as a part of each.
      anew: whether they are off by another number in every run.
      halves_loss: what the loss is multiplied by in half precision.
      overflows: numbers of the steps whose gradients overflow in half precision.
    """

    last_of_equal: bool = False
    backwards: bool = False
    rate: float = 1.0
    loss: float = 1.0
    double_rate: bool = False
    wandering: float = 0.0
    survivor: int = 0
    evaluates: bool = True
    columns: bool = False
    start: float = 1.0
    centred: bool = False
    nudge: float = 0.0
    zeros: bool = False
    decay: float = DECAY
    facts: tuple = ()
    fails: tuple = ()
    hidden: tuple = ()
    blur: float = 0.0
    anew: bool = False
    halves_loss: float = 1.0
    overflows: tuple = ()


class MadeProcess:
    """Stands for the process of a side.

    Args:
      side: "tf", "torch" or "data".
      habits: how it computes.

    Attributes:
      asked: request and arguments, in their order.
      began: by name of a run the state and the batch of its first step, as they were perturbed.
    """

    def __init__(self, side, habits=None):
        self.side, self.habits, self.asked = side, habits or Habits(), []
        self.companions, self.lost, self.outlived, self.settled, self.began = [], False, 0, 0, {}
        self._described, self._case, self._draw = {}, {}, np.random.default_rng(0)
        self._left = {}  # by build, the state that its last run ended with

    def ask(self, request, on_progress=None, **arguments):
        """Answers at once."""
        self.asked.append((request, arguments))
        answer = Future()
        try:
            name = Path(arguments.get("out", "")).name
            if {request, name} & set(self.habits.fails):
                raise SideFailed(self.side, f"{request} {name} fails")
            answer.set_result(getattr(self, f"_{request}")(**arguments))
            if on_progress:
                on_progress(1, 1)
        except SideFailed as error:
            answer.set_exception(error)
        return answer

    def close(self):
        """Ends nothing."""

    def outlive_failure(self):
        self.outlived += 1

    def settle(self):
        self.settled += 1

    def hang_up(self):
        """Ends nothing."""

    @property
    def runs(self):
        """Arguments by name of every run that it was asked for."""
        return {Path(each["out"]).name: each for request, each in self.asked if request == "run"}

    def name(self, variable):
        """Returns its own name of one of the reference's variables."""
        return PORTS[variable] if self.side == "torch" else variable

    def _batches(self, out, steps, batch_size, seed, **_):
        draw, writer = np.random.default_rng(seed), TraceWriter(out, {"package": "parity"})
        writer.init({})
        for step in range(steps):
            batch = {"feed/x": draw.standard_normal((batch_size, 3)), "feed/y": draw.standard_normal(batch_size)}
            if self.habits.zeros:
                batch["feed/x"][:: batch_size // 2] = 0.0
            writer.step(step, {name: value.astype("float32") for name, value in batch.items()})
        writer.close()
        return {"x": ["float32", [batch_size, 3]], "y": ["float32", [batch_size]]}

    def _prepare(self, case, precision, mixed=None, round_hyper_parameters=False, **_):
        key = f"{precision}, {mixed}, {round_hyper_parameters}"
        self._case, self._described[key] = case, (case, precision, round_hyper_parameters, mixed)
        self._described[precision] = self._described[key]
        return {"prepared": key, **self._known(precision)}

    def _known(self, precision):
        kinds = {KERNEL: "weight", BIAS: "weight", MEAN: "statistic"}
        shapes = {name: shape[::-1] if self.side == "torch" else shape for name, shape in SHAPES.items()}
        variables = {
            self.name(name): {"shape": shapes[name], "dtype": "float32", "kind": kind} for name, kind in kinds.items()
        }
        facts = {"precision": precision, "slots": list(self._slots.values()), "framework": self.side}
        facts.update({"towers": 2} if self.side == "tf" else {"ranks": 2, "ranks_agree": True})
        facts.update(self.habits.facts)
        return {
            "facts": facts,
            "variables": variables,
            "activations": ["out"],
            "inference": self.habits.evaluates,
            "initial_slots": {
                f"slot/{slot}/{self.name(each)}": [0.0, 0.0] for slot in self._slots.values() for each in (KERNEL, BIAS)
            },
            "own_values": {f"stat/{self.name(MEAN)}": [0.0, 0.0, 0.0]},
        }

    @property
    def _slots(self):
        names = SLOTS[_described(self._case)["name"]]
        return names if self.side == "torch" else {name: name for name in names}

    def _initialize(self, out, seed, **_):
        draw, writer = np.random.default_rng(seed), TraceWriter(out, {"package": "tf_towers"})
        kernel, bias, mean = draw.standard_normal((3, 2)), draw.standard_normal(2), draw.standard_normal(3)
        if self.habits.columns:
            kernel[:, 1], bias[1] = kernel[:, 0], bias[0]
        bias *= not self.habits.zeros
        state = {
            f"var/{KERNEL}": self.habits.start * kernel,
            f"var/{BIAS}": self.habits.start * bias,
            f"stat/{MEAN}": mean,
        }
        filled = not (self.habits.columns or self.habits.centred or self.habits.zeros)
        for slot in self._slots:
            names = {f"slot/{slot}/{name}": 0.1 * draw.random(SHAPES[name]) * filled for name in (KERNEL, BIAS)}
            state.update(names)
        written = {name: np.asarray(value, np.float32) for name, value in state.items()}
        writer.init({**written, "state/global_step": np.array(0)})
        writer.close()
        slots = self._known("float32")["initial_slots"]
        return {"initial_slots": slots, "own_values": {f"stat/{MEAN}": [0.0] * 3}, "not_in_checkpoint": []}

    def _run(self, feeds, start, follow, steps, quantities, out, precision="", prepared="", **more):
        case, precision, rounded, mixed = self._described[precision or prepared]
        rough, scale = more.get("noise") or mixed, SCALE
        asked, feeds, follow = perturbations_of(more.get("perturbations", ())), Trace(feeds), follow and Trace(follow)
        moved = () if follow else asked
        left = self._left.get(prepared or precision, {}) if more.get("resumed") else _read(Trace(start).init())
        state = self._typed(perturb(left, moved, 0, precision), precision)
        shapes = {self.name(name): np.shape(state[f"var/{self.name(name)}"]) for name in (KERNEL, BIAS)}
        state = {
            **{
                f"slot/{each}/{name}": np.zeros(shapes[name], precision)
                for each in self._slots.values()
                for name in shapes
            },
            **state,
        }
        known = self._known(precision)
        trace = TraceWriter(out, {"package": "made"}, known["facts"], known["variables"], ["out"])
        writer = RunWriter.of(trace, more, Trace)
        writer.init(state)
        keep = set(quantities) - set(self.habits.hidden)
        for number in steps:
            if follow:
                state.update(self._typed(perturb(_read(follow.step(number)), asked, number, precision), precision))
            batch = self._typed(perturb(_read(feeds.step(number)), asked, number, precision), precision)
            self.began.setdefault(Path(out).name, (dict(state), batch))
            counters = {"state/global_step": state.get("state/global_step", np.array(number))}
            found = {**counters, **self._step(state, batch, case, rounded, rough)}
            if mixed:
                found, scale = self._scaled(found, state, number in self.habits.overflows, scale)
            state = {**state, **{name: found[name] for name in found if name.split("/")[0] in ("var", "slot", "stat")}}
            state["state/global_step"] = counters["state/global_step"] + 1
            if "eval" in keep and number == steps[-1]:
                after = follow and number + 1 in follow.step_numbers
                used = self._typed(_read(follow.step(number + 1)), precision) if after else state
                found.update(self._evaluated(used, batch))
            kept = {
                name: value
                for name, value in found.items()
                if name.split("/")[0] in keep and name not in self.habits.hidden
            }
            writer.step(number, kept)
        trace.close()
        self._left[prepared or precision] = state
        return {}

    def _train(self, sections, **_):
        for each in sections:
            asked = {name: each[name] for name in ("feeds", "start", "steps", "out")}
            prepared = f"float64, None, {each['rounded']}"
            self._run(**asked, follow=None, quantities=("stat", "slot", "var"), prepared=prepared)
        return {}

    def _forward(self, out, step, tower, most=None, **_):
        value = np.zeros((8, 2))
        ops = [(ForwardOp("dense", "MatMul", [], [self.name(KERNEL)], [8, 2], {}), value)]
        write_forward(out, step, tower, ops, **({} if most is None else {"most": most}))
        return {}

    def _typed(self, tensors, precision):
        return {
            name: value.astype(precision) if value.dtype.kind == "f" and not name.startswith("state") else value
            for name, value in tensors.items()
        }

    def _weights(self, state):
        kernel, bias = (state[f"var/{self.name(name)}"] for name in (KERNEL, BIAS))
        return (kernel.T if self.side == "torch" else kernel), bias

    def _passed(self, kernel, bias, x, y, rough=None):
        order = slice(None, None, -1) if self.habits.backwards else slice(None)
        kernel, x = self._rounded(kernel, rough), self._rounded(x, rough)
        # Term by term, for the product of a library does not say in which order it adds.
        z = sum(x[:, [place]] * kernel[place] for place in range(3)[order])
        z = z if self.habits.centred else z + bias
        best = 1 - np.argmax(z[:, ::-1], 1) if self.habits.last_of_equal else np.argmax(z, 1)
        out = z[np.arange(len(z)), best]
        if self.habits.blur and x.dtype == np.float32:
            draw = self._draw if self.habits.anew else np.random.default_rng(0)
            out = out * (1 + self.habits.blur * draw.standard_normal(len(out))).astype(out.dtype)
        if self.habits.centred:
            out = out + bias.sum()
            out = out - sum(out[order]) / x.dtype.type(len(x))
        factor = x.dtype.type(self.habits.loss * (self.habits.halves_loss if isinstance(rough, dict) else 1.0))
        steep = 2 * (out - y) / x.dtype.type(len(x)) * factor
        loss = sum(((out - y) ** 2)[order]) / x.dtype.type(len(x)) * factor
        return best, out, loss, steep

    def _rounded(self, value, rough):
        if isinstance(rough, dict) and rough["half_dtype"] == "bfloat16":
            # Numpy has no such type: it is float32 without its last 16 bits.
            return (
                (value.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(value.dtype)
            )
        if isinstance(rough, dict):
            return value.astype(rough["half_dtype"]).astype(value.dtype)
        if rough is None:
            return value
        unit, seed = rough
        return value * (1 + unit * np.random.default_rng(seed).choice([-1, 1], value.shape)).astype(value.dtype)

    def _step(self, state, batch, case, rounded, rough):
        kernel, bias = self._weights(state)
        gradients, found = {KERNEL: [], BIAS: []}, {}
        order = slice(None, None, -1) if self.habits.backwards else slice(None)
        for tower in range(2):
            x, y = self._shard(batch, tower)
            best, out, loss, steep = self._passed(kernel, bias, x, y, rough)
            found.update({f"feed/{tower}/x": x, f"feed/{tower}/y": y, f"act/{tower}/out": out, f"loss/{tower}": loss})
            if self.habits.centred:
                steep = steep - sum(steep[order]) / x.dtype.type(len(x))
            columns = np.zeros((len(x), 2), x.dtype)
            columns[np.arange(len(x)), best] = steep
            gradients[KERNEL].append(x.T @ columns)
            gradients[BIAS].append(np.full(2, sum(steep[order])) if self.habits.centred else columns.sum(0))
        means = self._shard(batch, self.habits.survivor)[0].mean(0)
        stat = f"stat/{self.name(MEAN)}"
        decay = means.dtype.type(self.habits.decay)
        found[stat] = state[stat] * decay + means * (1 - decay)
        rate = _described(case)["learning_rate"] * self.habits.rate
        if not self.habits.double_rate or rounded:
            rate = float(np.float32(rate))
        found["state/learning_rate"] = np.float64(rate)
        count = int(state.get("state/global_step", 0)) + 1
        for name, towers in gradients.items():
            own = [value.T if self.side == "torch" else value for value in towers]
            off = 1 + self.habits.wandering * self._draw.standard_normal()
            whole = ((own[0] + own[1]) / 2 * off).astype(own[0].dtype)
            found.update({f"tower_grad/{tower}/{self.name(name)}": value for tower, value in enumerate(own)})
            found[f"grad/{self.name(name)}"] = whole
            moved, slots = self._moved(state, self.name(name), whole, rate, count)
            weight = f"var/{self.name(name)}"
            found.update(
                {**slots, weight: (state[weight] - moved + self.habits.nudge * (name == BIAS)).astype(whole.dtype)}
            )
        return {name: np.asarray(value) for name, value in found.items()}

    def _scaled(self, found, state, overflows, scale):
        told = {"state/loss_scale": np.float32(scale), "state/skipped": np.float32(overflows)}
        if not overflows:
            return {**found, **told}, scale
        kept = {name: state[name] for name in found if name.split("/")[0] in ("var", "slot")}
        broken = {name: np.full_like(value, np.inf) for name, value in found.items() if "grad" in name.split("/")[0]}
        return {**found, **kept, **broken, **told}, scale / 2

    def _moved(self, state, name, gradient, rate, count):
        number = gradient.dtype.type
        slots = [f"slot/{slot}/{name}" for slot in self._slots.values()]
        if not slots:
            return number(rate) * gradient, {}
        if len(slots) == 1:
            (slot,) = slots
            kept = state[slot] * number(np.float32(0.9)) + gradient
            return number(rate) * kept, {slot: kept}
        first = state[slots[0]] * number(0.9) + gradient * number(0.1)
        second = state[slots[1]] * number(0.999) + gradient**2 * number(0.001)
        rate = number(rate * (1 - 0.999**count) ** 0.5 / (1 - 0.9**count))
        return rate * first / (np.sqrt(second) + number(1e-8)), dict(zip(slots, (first, second), strict=True))

    def _shard(self, batch, tower):
        x, y = batch["feed/x"], batch["feed/y"]
        half = len(x) // 2
        return x[tower * half : (tower + 1) * half], y[tower * half : (tower + 1) * half]

    def _evaluated(self, state, batch):
        kernel, bias = self._weights(state)
        x = batch["feed/x"] - state[f"stat/{self.name(MEAN)}"]
        return {"eval/loss": np.asarray(self._passed(kernel, bias, x, batch["feed/y"])[2])}


def _described(case):
    found = case["optimizer"]
    if isinstance(found, str):
        return OWN
    recorded = found.get("recorded")
    return {**recorded["optimizer"], "learning_rate": recorded["rates"][0]} if recorded else found


def _read(file):
    return {name: file.read(name) for name in file.names()}


def made_sides(folder: Path, tf: Habits | None = None, torch: Habits | None = None) -> Sides:
    """Returns sides that compute so; by default alike, but for the order in which they add."""
    reference, port = MadeProcess("tf", tf), MadeProcess("torch", torch or Habits(backwards=True))
    return Sides(port, folder, reference, MadeProcess("data", tf))
