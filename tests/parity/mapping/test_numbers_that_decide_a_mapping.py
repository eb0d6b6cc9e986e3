"""What one step of both sides decides of a mapping, and what each side is asked for meanwhile: on arrays."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.port_lists import Port

from parity.experiment.mapping.by_numbers import Ready, _other_constants, decide_by_numbers, moved_by_step
from parity.experiment.recording import SidePaths
from parity.experiment.spec import Capability
from parity.mapping import Variable, draft_mapping
from parity.mapping.states import write_init
from parity.mapping.trace_map import Join
from parity.trace import Trace, TraceWriter, parse_key

X = np.random.default_rng(0).standard_normal((5, 4))


def two_layers():
    """A chain of square layers that nothing but numbers tells apart: the port lists the second one first."""
    port = Port()
    port.dense("net/one", "last", 4, 4, bias=False)
    port.dense("net/two", "first", 4, 4, bias=False)
    port.candidate.reverse()
    return port


def gradients(first, second):
    """Returns the gradients of `sum(cos(tanh(x first) second))` by both kernels, [in, out]."""
    hidden = np.tanh(X @ first)
    back = -np.sin(hidden @ second)
    return X.T @ ((back @ second.T) * (1 - hidden**2)), hidden.T @ back


class Side:
    """Answers a run with the gradients of the state that it starts from."""

    def __init__(self, folder, names, turned, runs_again=True, factor=1.0):
        self.folder, self.names, self.turned, self.factor = folder, names, turned, factor
        self.asked, self.prepared = [], []
        self.capabilities = frozenset([Capability.RERUN] if runs_again else [])

    def prepare(self, precision, inputs):
        self.prepared.append((precision, inputs))
        return SimpleNamespace(result=lambda: None)

    def run(self, asked):
        self.asked.append(asked)
        start = Trace(asked.start).init()
        kernels = [np.asarray(start.read(f"var/{name}"), np.float64) for name in self.names]
        found = gradients(*[kernel.T if self.turned else kernel for kernel in kernels])
        writer = TraceWriter(self.folder / f"run-{len(self.asked)}", {"package": "made"})
        writer.init({})
        turned = [self.factor * (value.T if self.turned else value) for value in found]
        writer.step(0, {f"grad/{name}": value for name, value in zip(self.names, turned, strict=True)})
        writer.close()
        return SimpleNamespace(result=lambda: Trace(self.folder / f"run-{len(self.asked)}"))

    def forward(self, step, tower, asked):
        return None


def ready(folder, port, runs_again=True, factor=1.0):
    random = np.random.default_rng(1)
    state = {f"var/{variable.name}": random.standard_normal((4, 4)).astype(np.float32) for variable in port.reference}
    reference = Side(folder / "tf", ["net/one/kernel", "net/two/kernel"], False, runs_again)
    # The port reads as its first layer what it calls "last".
    candidate = Side(folder / "torch", ["last.weight", "first.weight"], True, factor=factor)
    start = write_init(folder / "start" / "tf", state)
    feeds = SidePaths(folder / "feeds-tf", folder / "feeds-torch")
    return Ready(reference, "inputs", candidate, lambda mapping: Join(mapping, {}, []), start, feeds, folder, {})


def joined(draft):
    return {pair.reference: pair.candidate[0] for pair in draft.mapping().pairs}


RIGHT = {"net/one/kernel": "last.weight", "net/two/kernel": "first.weight"}


@pytest.mark.parametrize("runs_again", [True, False])
def test_one_step_tells_layers_apart_that_names_and_shapes_do_not(tmp_path, runs_again):
    port = two_layers()
    sides = ready(tmp_path, port, runs_again)
    draft = draft_mapping(port.reference, port.candidate, {})
    assert joined(draft) != RIGHT
    decided = decide_by_numbers(draft, sides)
    assert joined(decided) == RIGHT and decided.agrees
    asked = [*sides.reference.asked, *sides.candidate.asked]
    for each in asked:
        assert (each.precision, each.follow, list(each.steps)) == ("float64", None, [0])
        assert set(each.quantities) == {"grad", "stat"}
    assert {str(each.feeds) for each in sides.reference.asked} == {str(tmp_path / "feeds-tf")}
    assert {str(each.feeds) for each in sides.candidate.asked} == {str(tmp_path / "feeds-torch")}
    assert sides.reference.prepared == ([("float64", "inputs")] if runs_again else [])
    # A live reference starts from weights that no guess changes, so that one run of each side decides.
    start = Trace(sides.reference.asked[0].start).init()
    equal = bool((start.read("var/net/one/kernel") == start.read("var/net/two/kernel")).all())
    assert equal == runs_again and len(sides.reference.asked) == 1
    assert (len(sides.candidate.asked) == 1) == runs_again


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_factor_that_all_gradients_have_is_left_out_and_they_verify_what_is_joined(tmp_path, factor):
    port = two_layers()
    decided = decide_by_numbers(draft_mapping(port.reference, port.candidate, {}), ready(tmp_path, port, factor=factor))
    assert joined(decided) == RIGHT and decided.agrees


def test_where_no_gradient_agrees_the_guess_that_numbers_prefer_stays_unverified(tmp_path):
    port = two_layers()
    decided = decide_by_numbers(draft_mapping(port.reference, port.candidate, {}), ready(tmp_path, port, factor=-1.0))
    assert not decided.agrees and {guess.verified for guess in decided.guesses} != {True}


def test_gradients_and_statistics_are_what_a_step_moved(tmp_path):
    writer = TraceWriter(tmp_path / "t", {"package": "made"})
    writer.init({})
    kinds = {"grad/w": 1.0, "stat/m": 2.0, "tower_grad/0/w": 3.0, "var/w": 4.0, "loss/0": 5.0}
    writer.step(0, {name: np.array(value) for name, value in kinds.items()})
    writer.close()
    moved = moved_by_step(Trace(tmp_path / "t").step(0))
    assert {name: float(value) for name, value in moved.items()} == {
        parse_key(text).name: value for text, value in kinds.items() if text in ("grad/w", "stat/m")
    }


@pytest.mark.parametrize(("forget", "meant"), [(0.0, "lstm_bias(0.0)"), (1.0, "lstm_bias(1.0)")])
def test_a_forget_bias_that_nothing_else_shows_is_the_ports_own(tmp_path, forget, meant):
    reference = [
        Variable("rnn/lstm_cell/kernel", (5, 8), use="MatMul"),
        Variable("rnn/lstm_cell/bias", (8,), use="BiasAdd"),
    ]
    shapes = {"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2), "bias_ih_l0": (8,), "bias_hh_l0": (8,)}
    candidate = [Variable(f"lstm.{name}", shape, use="LSTM") for name, shape in shapes.items()]
    own = np.zeros((4, 2))
    own[1] = forget  # torch's gates are in, forget, cell, out
    sides = ready(tmp_path, two_layers())._replace(own={"var/lstm.bias_hh_l0": own.reshape(-1).tolist()})
    variants = draft_mapping(reference, candidate, {}).variants()
    counts = {
        next(
            pair.transform.text for pair in variant.mapping().pairs if pair.reference.endswith("bias")
        ): _other_constants(variant, sides)
        for variant in variants
    }
    assert len(counts) == 3 and min(counts, key=counts.__getitem__) == meant, counts
