"""Where forward passes are the same and gradients are not, the last output whose gradient differs is where they part."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.diagnose.interventions.backward import with_parting
from parity.experiment import run_case
from parity.judge.result import Check, FirstDifference, Level
from parity.locate.backward import part
from parity.locate.matching import Pass
from parity.trace import ForwardOp, MissingError, SourceLine, TraceError, parse_key
from parity.worker.failures import SideFailed

RANDOM = np.random.default_rng(3)
# x -> h -> (a, b) -> both -> loss: a and b are ways that join.
OUTPUTS = {name: RANDOM.standard_normal((4, 3)) for name in ("h", "a", "b", "both")}
GRADIENTS = {name: RANDOM.standard_normal((4, 3)) for name in OUTPUTS}
TAKES = {"h": [], "a": [0], "b": [0], "both": [1, 2]}


def ops(side):
    line = SourceLine(f"{side}.py", 3, "forward", "h = f(x)")
    return [
        ForwardOp(f"{side}/{n}", n, takes, ["w"] if n == "h" else [], [4, 3], {}, line) for n, takes in TAKES.items()
    ]


def passed(side, values):
    listed = [values.get(name) for name in TAKES]
    return Pass(ops(side), lambda number: listed[number])


def parted(changed, known=OUTPUTS, turned=False):
    others = {name: value.T if turned else value for name, value in OUTPUTS.items()}
    gradients = {**GRADIENTS, **changed}
    got = {name: value.T if turned and value is not None else value for name, value in gradients.items()}
    passes = passed("tf", OUTPUTS), passed("port", {name: others[name] for name in known})
    values = [list(GRADIENTS.values()), list(got.values())]
    return part(passes, (lambda n: values[0][n], lambda n: values[1][n]))


def test_gradients_that_are_the_same_part_nowhere():
    assert parted({}) == (None, True)
    assert parted({}, turned=True) == (None, True)


@pytest.mark.parametrize("turned", [False, True])
def test_they_part_at_the_last_output_whose_gradient_differs(turned):
    changed = {"h": GRADIENTS["h"] + 1, "a": 2 * GRADIENTS["a"]}
    found = parted(changed, turned=turned).parting
    assert (found.op.name, found.port.name, found.number, found.readers) == ("tf/a", "port/a", 1, [3])
    np.testing.assert_array_equal(found.candidate, 2 * found.reference)
    assert parted({"h": changed["h"]}).parting.readers == [1, 2]


def test_outputs_that_the_port_does_not_show_and_gradients_that_are_not_known_are_passed_over():
    changed = {"h": GRADIENTS["h"] + 1, "a": 2 * GRADIENTS["a"]}
    assert parted(changed, known=["h", "b", "both"]).parting.op.name == "tf/h"
    assert parted({**changed, "a": None}).parting.op.name == "tf/h"


def test_an_output_of_the_port_that_is_one_of_two_with_the_same_numbers_is_not_held_against_the_other():
    equal = {**OUTPUTS, "b": OUTPUTS["a"]}
    passes = passed("tf", equal), passed("port", {name: equal[name] for name in ("h", "a", "both")})
    own = list(GRADIENTS.values())

    def found(of_h):
        return part(passes, (lambda n: own[n], lambda n: [of_h, *own[1:]][n]))

    assert found(GRADIENTS["h"]) == (None, True), "which b is has no counterpart"
    assert found(GRADIENTS["h"] + 1).parting.op.name == "tf/h"


def test_another_multiple_of_the_whole_loss_parts_nowhere():
    assert parted({name: 2 * value for name, value in GRADIENTS.items()}) == (None, False)


def test_gradients_within_rounding_are_the_same():
    assert parted({"h": GRADIENTS["h"] * (1 + 1e-13)}) == (None, True)


class File(dict):
    names = dict.keys
    read = dict.__getitem__


class Kept:
    """Keeps passes and runs a step detached: at `edges` it gives the reference's gradients."""

    def __init__(self, changed, edges=()):
        self.changed, self.edges, self.tried = changed, edges, []

    def _pass(self, side, values):
        listed = [values[name] for name in TAKES]
        return SimpleNamespace(ops=ops(side), value=lambda number: listed[number])

    def forward(self, step, tower):
        return self._pass("tf", OUTPUTS), self._pass("port", OUTPUTS)

    def gradients(self, step, tower):
        return self._pass("tf", GRADIENTS), self._pass("port", {**GRADIENTS, **self.changed})

    def repeat_detached(self, step, edges):
        self.tried.append(tuple(edges))
        return trace(1.0 if tuple(edges) == self.edges else 2.0)


def trace(gradient, **more):
    return SimpleNamespace(step=lambda number: File({"tower_grad/0/v": np.array([gradient, 1.0]), **more}))


def level_of(kept, **more):
    check = Check("lockstep", 0, "tower_grad/0/v", "different", 1.0, 1e-13)
    join = SimpleNamespace(
        ordered=lambda names: [(parse_key(text), text) for text in names],
        read=lambda key, file: file.get(f"{key.quantity}/{key.tower}/{key.name}"),
        parts=lambda name: ["w"],
    )
    level = Level("function", "different", "", [check], FirstDifference(check, "tower_grad", "v", "0", None))
    return with_parting(level, kept, SimpleNamespace(join=join, reference=trace(1.0, **more), candidate=trace(2.0)))


def test_the_place_is_told_and_no_cause_without_proof():
    kept = Kept({"h": GRADIENTS["h"] + 1})
    level = level_of(kept)
    assert not level.causes
    assert kept.tried == [((1, 0),), ((2, 0),), ((1, 0), (2, 0))]
    first = level.first_difference
    assert (first.check.key, first.module) == ("tower_grad/0/v", "port/h")
    assert "the gradients of all that is computed from tf/h (h), in the port port/h (h)" in first.where
    assert [line.file for line in first.lines] == ["tf.py", "port.py"]


@pytest.mark.parametrize(
    ("error", "notes"),
    [
        (SideFailed("torch", "x"), []),
        (MissingError("there is none"), []),
        (TraceError("expected JSON"), ["where gradients part was not looked for: expected JSON"]),
    ],
)
def test_a_pass_that_is_there_and_refused_is_a_note_and_one_that_is_missing_is_none(monkeypatch, error, notes):
    kept = Kept({})

    def refuse(*arguments):
        raise error

    monkeypatch.setattr(kept, "forward", refuse)
    level = level_of(kept)
    assert (level.first_difference.where, list(level.notes)) == ("", notes)


def test_what_the_reference_stops_is_named_where_it_explains_all_gradients():
    level = level_of(Kept({"h": GRADIENTS["h"] + 1}, ((2, 0),)))
    assert [cause.name for cause in level.causes] == ["not_detached"]
    assert level.first_difference.module == "port/b"


def test_what_the_reference_stops_in_all_rounds_but_the_last_is_named(monkeypatch):
    rounds = ["r0", "r1", "r2", "r3"]
    takes = {"h": [], **{name: [0] for name in rounds}, "both": [1, 2, 3, 4]}
    for table, own in ((TAKES, takes), (OUTPUTS, {}), (GRADIENTS, {})):
        for name in rounds:
            monkeypatch.setitem(table, name, own.get(name, RANDOM.standard_normal((4, 3))))
    monkeypatch.setattr(sys.modules[__name__], "TAKES", takes)
    stopped = tuple((number, 0) for number in (1, 2, 3))
    kept = Kept({"h": GRADIENTS["h"] + 1}, stopped)
    assert [cause.name for cause in level_of(kept).causes] == ["not_detached"]
    assert kept.tried[-1] == stopped, "the last round passes gradients"


def test_behind_an_op_that_only_lays_an_output_out_anew_its_readers_are_tried(monkeypatch):
    takes = {"h": [], "squeeze": [0], "a": [1], "b": [1]}
    for table in (OUTPUTS, GRADIENTS):
        monkeypatch.setitem(table, "squeeze", table["h"])
    monkeypatch.setattr(sys.modules[__name__], "TAKES", takes)
    kept = Kept({"h": GRADIENTS["h"] + 1, "squeeze": GRADIENTS["h"] + 1}, ((3, 1),))
    assert [cause.name for cause in level_of(kept).causes] == ["not_detached"]
    assert kept.tried == [((2, 1),), ((3, 1),)]


def test_later_micro_batches_whose_passes_are_not_detached_do_not_count(monkeypatch):
    kept = Kept({"h": GRADIENTS["h"] + 1}, ((2, 0),))
    run = kept.repeat_detached

    def repeat(step, edges):
        made = run(step, edges).step(step)
        return SimpleNamespace(step=lambda number: File({**made, "tower_grad/0.1/v": np.array([9.0, 9.0])}))

    monkeypatch.setattr(kept, "repeat_detached", repeat)
    level = level_of(kept, **{"tower_grad/0.1/v": np.array([1.0, 1.0])})
    assert [cause.name for cause in level.causes] == ["not_detached"]


def test_a_parameter_whose_gradient_alone_differs_is_told_with_who_reads_it():
    level = level_of(Kept({}))
    assert "only that of v is not; the port reads it in port/h (h)" in level.first_difference.where
    assert level_of(Kept({}, ((0, "w"),))).causes[0].name == "not_detached"


@pytest.mark.parametrize(
    ("readers", "tried"), [(1, 1), (2, 3), (3, 7), (4, 15), (12, 12 + 12 + 12 + 1), (14, 12 + 12 + 1)]
)
def test_one_or_two_readers_are_tried_then_all_but_one_and_all_last(monkeypatch, readers, tried):
    names = [f"r{number}" for number in range(readers)]
    takes = {"h": [], **{name: [0] for name in names}}
    for table in (TAKES, OUTPUTS, GRADIENTS):
        for name in names:
            monkeypatch.setitem(table, name, RANDOM.standard_normal((4, 3)))
    monkeypatch.setattr(sys.modules[__name__], "TAKES", takes)
    kept = Kept({"h": GRADIENTS["h"] + 1})
    assert not level_of(kept).causes
    edges = [(number, 0) for number in range(1, readers + 1)]
    assert len(kept.tried) == tried == len(set(kept.tried))
    assert kept.tried[: min(readers, 12)] == [(edge,) for edge in edges[:12]] and kept.tried[-1] == tuple(edges)


def test_how_far_gradients_were_and_are_off_is_told_with_the_line_that_is_detached():
    level = level_of(Kept({"h": GRADIENTS["h"] + 1}, ((2, 0),)))
    [cause] = level.causes
    assert cause.explains == (0, "tower_grad/0/v", 1.0)
    assert cause.evidence.startswith("with what stands for tf/h in the port detached where it goes into port.py:")
    words = "all gradients of the towers are the reference's, 0 times what rounding allows at most, where tower_grad/0/v was"
    assert words in cause.evidence and "1e+13 times" in cause.evidence
    assert "tf/h" in cause.title
    assert level.first_difference.lines[1].file == "port.py"


class Refusing(Kept):
    def __init__(self, at):
        super().__init__({"h": GRADIENTS["h"] + 1})
        self.at = at

    def forward(self, step, tower):
        if self.at == "forward":
            raise SideFailed("RuntimeError", "it cannot be watched", "", "torch")
        return None if self.at == "no outputs" else super().forward(step, tower)

    def gradients(self, step, tower):
        return None if self.at == "no gradients" else super().gradients(step, tower)

    def repeat_detached(self, step, edges):
        if self.at == "detached":
            raise SideFailed("RuntimeError", "no gradient", "", "torch")
        return super().repeat_detached(step, edges)


def test_nothing_is_told_of_a_step_that_cannot_be_watched_and_no_cause_of_one_that_cannot_be_detached():
    for at in ("forward", "no outputs", "no gradients"):
        assert level_of(Refusing(at)).first_difference.where == ""
    level = level_of(Refusing("detached"))
    assert level.first_difference.where and not level.causes
    assert level_of(object()).first_difference.where == "", "what keeps no passes"


def test_nothing_is_told_where_what_is_minimised_differs():
    assert level_of(Kept({name: 2 * value for name, value in GRADIENTS.items()})).first_difference.where == ""


def test_nothing_is_told_where_several_optimizers_have_backward_passes_of_their_own():
    kept = Kept({"h": GRADIENTS["h"] + 1})
    first = level_of(kept, **{"section/g/slot/m/w": np.array(1.0)}).first_difference
    assert (first.where, kept.tried) == ("", [])


def test_what_the_graph_stops_is_named_end_to_end(tf2_sides, tmp_path):
    folder = write_case(
        tmp_path / "tiny",
        tf="return 1.0 * tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y)) -> "
        "out = tf.tanh(tf.matmul(x, kernel) + bias)\n"
        "    return tf.reduce_mean(tf.square(out - y)) + tf.reduce_mean(out * tf.stop_gradient(tf.exp(out)))",
        torch=f"{BREAK}\n    return 1.0 * (model(x) - y).square().mean() -> "
        "out = model(x).tanh()\n    return (out - y).square().mean() + (out * out.exp()).mean()",
    )
    result = run_case(load_case(folder), tf2_sides, levels=("function",))
    assert [cause.name for cause in result.causes] == ["not_detached"]
    assert result.first_difference.quantity == "tower_grad"
    assert "out.exp()" in result.first_difference.lines[1].text
