"""An experiment names what a port does to its inputs or weights: with that undone, it gives what the reference gives."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.interventions.inputs import changes_of_the_inputs
from parity.diagnose.interventions.probes import Bench, less_precision, shifted_image
from parity.diagnose.interventions.search import ahead_of, find_by_experiment
from parity.diagnose.interventions.solve import knobs, solved
from parity.diagnose.interventions.state import changes_of_the_state
from parity.judge.metrics import distance
from parity.judge.result import Cause, Check, FirstDifference
from parity.worker.failures import SideFailed

RANDOM = np.random.default_rng(21)
KEY = "act/0/hidden"
X, IMAGE = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(6, 3, 5, 5))
W, V = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(75, 3))
WORDS = np.array([[1, 2, 3, 4], [4, 2, 0, 1], [3, 3, 2, 0], [5, 1, 4, 2], [2, 5, 5, 3], [0, 1, 1, 4]])
LABELS = np.array([0, 3, 2, 1, 3, 2])
TABLE = RANDOM.normal(size=(7, 3))


class File(dict):
    """A step of a trace."""

    def read(self, text):
        return self[text]

    def shape(self, text):
        return np.shape(self[text])

    def names(self, *quantities):
        return [text for text in self if not quantities or text.partition("/")[0] in quantities]


def trace(made, step=1, **facts):
    return SimpleNamespace(step_numbers=[step], step=lambda number: File(made), variables={}, facts=facts)


JOIN = SimpleNamespace(read=lambda key, file: file.get(str(key)))


class Sides:
    """Both sides of a step, as functions of a batch (and, the port, of its state), as `Repeats` asks."""

    batch_norm_updates = "first"

    def __init__(self, reference, port, batch, state=None, towers=1, acts=None, key=KEY):
        self.reference, self.port, self.given, self.own = reference, port, batch, state or {}
        self.towers, self.acts, self.key = towers, acts or {}, key

    def batch(self, step):
        return dict(self.given)

    reference_batch = batch

    def translated_batch(self, batch):
        return batch

    def state(self, step):
        return dict(self.own)

    def repeat(self, step, batch, state, twice=False, *, ahead=None):
        return trace({self.key: self.port(batch(self.batch(step)), state(self.state(step)))})

    def repeat_seeded(self, step, seed):
        return self.repeat(step, lambda batch: batch, lambda state: state)

    def repeat_reference(self, step, updates=None, batch=lambda batch: batch):
        return trace({self.key: self.reference(batch(self.batch(step))), **self.acts})

    def bench(self, allowed=1e-12, name="hidden"):
        same = lambda each: each  # noqa: E731
        one, other = self.repeat_reference(1), self.repeat(1, same, same)
        apart = distance(*(side.step(1)[self.key] for side in (one, other)))
        check = Check("lockstep", 1, self.key, "different", apart, allowed)
        quantity = self.key.partition("/")[0]
        return Bench(FirstDifference(check, quantity, name, "0", None), self, JOIN, one, other)

    def causes(self, **settings):
        bench = self.bench(**settings)
        return find_by_experiment(bench.first, self, JOIN, bench.reference, bench.candidate)


class WithLosses(Sides):
    """Both sides with a loss each, functions of a batch, besides the layer."""

    def __init__(self, *sides, losses):
        super().__init__(*sides)
        self.losses = losses

    def repeat(self, step, batch, state, twice=False, *, ahead=None):
        made = super().repeat(step, batch, state, twice, ahead=ahead).step(step)
        return trace({**made, **{text: port(batch(self.batch(step))) for text, (_, port) in self.losses.items()}})

    def repeat_reference(self, step, updates=None, batch=lambda batch: batch):
        made = super().repeat_reference(step, updates, batch).step(step)
        return trace({**made, **{text: own(batch(self.batch(step))) for text, (own, _) in self.losses.items()}})


def layer(x):
    return np.tanh(np.asarray(x, np.float64).reshape(len(x), -1) @ V)


def of_inputs(name, value, bug, function, towers=1):
    """Causes of a port that does something to an input."""
    return Sides(
        lambda b: function(b[name]), lambda b, s: function(bug(b[name])), {name: value}, towers=towers
    ).causes()


def dealt(x):
    return np.concatenate([x[0::2], x[1::2]])


@pytest.mark.parametrize(
    ("value", "bug", "name", "title"),
    [
        (IMAGE, lambda x: x.swapaxes(2, 3), "transposed_input", "the port exchanges height and width of image"),
        (
            np.moveaxis(IMAGE, 1, -1),
            lambda x: x.swapaxes(1, 2),
            "transposed_input",
            "the port exchanges height and width of image",
        ),
        (IMAGE, lambda x: x[:, ::-1], "reversed_input", "the port reverses axis 1 of image"),
        (IMAGE, lambda x: x[:, :, ::-1], "reversed_input", "the port reverses axis 2 of image"),
        (IMAGE, lambda x: x[..., ::-1], "reversed_input", "the port reverses axis 3 of image"),
        (IMAGE, lambda x: x / 255, "input_scale", "the port multiplies image by 1/255"),
        (IMAGE, lambda x: x * 255, "input_scale", "the port multiplies image by 255"),
        (IMAGE, lambda x: x / 2, "input_scale", "the port multiplies image by 1/2"),
        (IMAGE, lambda x: x * 2, "input_scale", "the port multiplies image by 2"),
        (IMAGE, lambda x: x * 0.75, "input_scale", "the port multiplies image by 0.75"),
        (IMAGE, lambda x: x + 0.125, "input_shift", "the port adds 0.125 to image"),
    ],
)
def test_what_is_done_to_an_image_is_undone_and_named(value, bug, name, title):
    (cause,) = of_inputs("feed/image", value, bug, layer)
    assert (cause.name, cause.title) == (name, title)
    assert "the candidate gives the reference's act/0/hidden" in cause.evidence and "where it was" in cause.evidence
    assert cause.explains.share == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "value", "bug", "cause", "title"),
    [
        ("feed/words", WORDS, lambda x: x[:, ::-1], "reversed_input", "the port reads words backwards"),
        (
            "feed/words",
            WORDS,
            lambda x: np.roll(x, 1, 1),
            "rolled_input",
            "the port reads words late by one, what falls off coming back in",
        ),
        (
            "feed/words",
            WORDS,
            lambda x: np.roll(x, -1, 1),
            "rolled_input",
            "the port reads words early by one, what falls off coming back in",
        ),
        ("feed/label", LABELS, lambda x: (x + 1) % 4, "labels_shifted", "the port shifts label by +1"),
        ("feed/label", LABELS, lambda x: (x - 1) % 4, "labels_shifted", "the port shifts label by -1"),
    ],
)
def test_what_is_done_to_indices_is_undone_and_named(name, value, bug, cause, title):
    (found,) = of_inputs(name, value, bug, lambda x: TABLE[x])
    assert (found.name, found.title) == (cause, title)


def test_examples_that_were_dealt_out_are_dealt_back():
    for towers, value in ((2, X), (3, X)):
        deal = lambda x, n=towers: np.concatenate([x[at::n] for at in range(n)])  # noqa: E731
        (cause,) = of_inputs("feed/x", value, deal, lambda x: np.tanh(x @ W), towers=towers)
        assert cause.name == "order_of_examples" and "dealing" in cause.evidence
    assert of_inputs("feed/x", X, dealt, lambda x: np.tanh(x @ W)) == []


def test_what_no_single_change_undoes_has_no_cause():
    assert of_inputs("feed/x", X, lambda x: np.sin(3 * x), lambda x: np.tanh(x @ W)) == []
    few = lambda x: np.tanh(x[:2] @ W)  # noqa: E731
    assert of_inputs("feed/x", X, lambda x: 0.75 * x, few) == [], "of six numbers a factor is found by chance"


def test_a_shift_of_labels_wraps_at_the_number_of_classes_which_a_batch_need_not_show():
    def shifted(widths):
        return {
            (change.what, tuple(change.batch({"feed/label": LABELS})["feed/label"]))
            for change in changes_of_the_inputs({"feed/label": LABELS}, widths)
        }

    of_four, of_six = {tuple((LABELS + by) % 4) for by in (1, -1)}, {tuple((LABELS + by) % 6) for by in (1, -1)}
    assert {values for _, values in shifted([])} == of_four == {values for _, values in shifted([3, 4])}
    assert {values for _, values in shifted([9, 6])} == of_four | of_six
    assert {what for what, _ in shifted([])} == {"with label shifted by +1", "with label shifted by -1"}


def test_only_axes_of_one_size_are_exchanged_and_only_such_of_several_places_reversed():
    def tried(value):
        return [change.what for change in changes_of_the_inputs({"feed/x": value}) if "times" not in change.what]

    assert tried(np.zeros((2, 4, 4, 1))) == [
        "with axes 1 and 2 of x exchanged",
        "with axis 1 of x reversed",
        "with axis 2 of x reversed",
    ]
    assert tried(np.zeros((2, 3, 4, 5))) == [f"with axis {axis} of x reversed" for axis in (1, 2, 3)]
    assert tried(np.zeros((2, 4, 4))) == [] == tried(np.zeros((2, 1), int))
    assert len(tried(np.zeros((2, 2), int))) == 3


@pytest.mark.parametrize(
    ("shape", "kind", "exchanged"),
    [
        ((2, 4, 4), int, True),
        ((2, 4, 4), np.uint8, True),
        ((2, 4, 5), int, False),
        ((2, 1, 1), int, False),
        ((2, 4, 4), bool, False),
        ((4, 4), int, False),
    ],
)
def test_height_and_width_of_labels_of_each_pixel_are_exchanged(shape, kind, exchanged):
    labels = RANDOM.integers(0, 9, shape).astype(kind)
    found = [each for each in changes_of_the_inputs({"feed/label": labels}) if each.name == "transposed_input"]
    assert [each.what for each in found] == (["with axes 1 and 2 of label exchanged"] if exchanged else [])
    for each in found:
        made = each.batch({"feed/label": labels, "feed/x": X})
        assert np.array_equal(made["feed/label"], labels.swapaxes(1, 2)) and made["feed/x"] is X


def test_a_port_that_exchanges_the_axes_of_its_labels_is_named():
    labels = RANDOM.integers(0, 7, (6, 3, 3))
    (cause,) = of_inputs("feed/label", labels, lambda x: x.swapaxes(1, 2), lambda x: TABLE[x])
    assert (cause.name, cause.title) == ("transposed_input", "the port exchanges height and width of label")


def test_a_flatten_in_another_order_is_undone_in_the_weight_behind_it():
    weight = RANDOM.normal(size=(5, 24))
    image = RANDOM.normal(size=(6, 2, 3, 4))  # height, width, channels

    def port(batch, state):  # flattens as channels, height, width
        return np.moveaxis(image, -1, 1).reshape(6, -1) @ state["var/fc.weight"].T

    order = np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1).reshape(-1)
    sides = Sides(lambda b: image.reshape(6, -1) @ weight.T, port, {"feed/n": LABELS}, {"var/fc.weight": weight})
    sides.acts = {"act/0/conv": image}
    (cause,) = sides.causes()
    title = "the flatten before fc.weight counts channels first in the port, last in the towers"
    assert (cause.name, cause.title) == ("flatten_order", title)
    assert cause.evidence.startswith("with the inputs of fc.weight taken from the order 2, 3, 4 to 4, 2, 3")
    assert np.array_equal(cause.change.state(sides.own)["var/fc.weight"], weight[:, order])
    sides.acts = {"act/0/conv": image.reshape(6, 6, 4)}
    assert sides.causes() == []


def gates(x, weight, order):
    i, f, g, o = (np.split(x @ weight.T, 4, 1)[each] for each in order)
    sigmoid = lambda each: (1 + np.tanh(each / 2)) / 2  # noqa: E731  no exponential that overflows
    return sigmoid(o) * np.tanh(sigmoid(f) * 0.7 + sigmoid(i) * np.tanh(g))


def test_gates_in_the_graphs_order_are_put_into_torchs():
    own = {"var/lstm.weight_ih_l0": RANDOM.normal(size=(8, 4)), "slot/m/lstm.weight_ih_l0": np.arange(8.0)}
    weight = own["var/lstm.weight_ih_l0"]
    sides = Sides(
        lambda b: gates(b["feed/x"], weight, (0, 2, 1, 3)),
        lambda b, s: gates(b["feed/x"], s["var/lstm.weight_ih_l0"], (0, 1, 2, 3)),
        {"feed/x": X},
        own,
    )
    (cause,) = sides.causes()
    assert cause.name == "gate_order"
    assert cause.evidence.startswith("with the second and third quarter of lstm.weight_ih_l0 exchanged, ")
    assert list(cause.change.state(own)["slot/m/lstm.weight_ih_l0"]) == [0, 1, 4, 5, 2, 3, 6, 7]


def test_what_is_added_to_the_forget_gate_is_solved_for():
    weight, bias = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=8)
    forget = np.repeat([0.0, 1.0, 0.0, 0.0], 2)

    def cell(x, bias):
        i, f, g, o = np.split(x @ weight.T + bias, 4, 1)
        return i * g + np.tanh(f) * o

    sides = Sides(
        lambda b: cell(b["feed/x"], bias),
        lambda b, s: cell(b["feed/x"], s["var/lstm.bias_hh_l0"] + forget),
        {"feed/x": X},
        {"var/lstm.bias_hh_l0": bias},
    )
    (cause,) = sides.causes()
    assert cause.name == "forget_bias" and " 1 " in f"{cause.title} "
    assert cause.evidence.startswith("with -1 added to the forget gate's part of lstm.bias_hh_l0")
    assert [knob.name for knob in knobs(sides.bench())] == ["input_scale", "input_shift", "forget_bias"]


def test_a_number_is_solved_for_only_where_enough_has_to_become_right_and_it_is_no_rounding():
    def port(factor):
        return Sides(lambda b: np.tanh(b["feed/x"] @ W), lambda b, s: np.tanh(factor * b["feed/x"] @ W), {"feed/x": X})

    scale = next(knob for knob in knobs(port(0.75).bench()))
    assert solved(port(0.75).bench(), scale).title == "the port multiplies x by 0.75"
    assert solved(port(1 + 1e-9).bench(), scale) is None, "a factor of 1 to all digits that it is named with"
    assert solved(port(0.0).bench(), scale) is None, "what follows no input is off by no factor of it"
    few = Sides(lambda b: b["feed/x"][0], lambda b, s: 0.75 * b["feed/x"][0], {"feed/x": X[:, :4]})
    assert solved(few.bench(), scale) is None


@pytest.mark.parametrize(("factor", "solved_for"), [(0.1, True), (-0.25, True), (0.04, False)])
def test_a_factor_is_found_in_ten_steps_of_two_at_most(factor, solved_for):
    sides = Sides(lambda b: b["feed/x"] @ W, lambda b, s: factor * b["feed/x"] @ W, {"feed/x": X})
    cause = solved(sides.bench(), next(knobs(sides.bench())))
    assert cause is None if not solved_for else cause.title == f"the port multiplies x by {factor:g}"
    if cause is not None:
        assert cause.evidence.startswith(
            f"with x times {1 / factor:g}, the candidate gives the reference's act/0/hidden"
        )
        np.testing.assert_allclose(cause.change.batch({"feed/x": X})["feed/x"], X / factor)


def cosines(batch):
    return np.cos(batch["feed/x"]).sum()


@pytest.mark.parametrize(("factor", "written"), [(0.75, True), (1 / 0.75, True), (0.7311, True), (0.73112, False)])
@pytest.mark.parametrize(
    ("losses", "right"),
    [
        ({"loss/0": (cosines, lambda b, f: cosines({"feed/x": f * b["feed/x"]}))}, True),
        ({"loss/0": (cosines, lambda b, f: cosines({"feed/x": f * b["feed/x"]}) + 0.125)}, False),
        ({"loss/0": (cosines, lambda b, f: np.nan)}, False),
        ({"loss/0": (cosines, lambda b, f: np.inf)}, False),
        # A loss that the layer does not go into is the same to rounding.
        ({"loss/0": (lambda b: 3.0, lambda b, f: 3.0 * (1 + 4e-16))}, True),
        ({}, True),
    ],
)
def test_a_factor_that_nobody_would_write_has_to_put_the_losses_right(losses, right, factor, written):
    made = {text: (own, lambda b, port=port: port(b, factor)) for text, (own, port) in losses.items()}
    of_layer = lambda b: np.tanh(b["feed/x"] @ W), lambda b, s: np.tanh(factor * b["feed/x"] @ W)
    sides = WithLosses(*of_layer, {"feed/x": X}, losses=made)
    bench = sides.bench()
    cause = solved(bench, next(knobs(bench)))
    assert (cause is not None) == (written or right)
    assert cause is None or cause.title == f"the port multiplies x by {factor:.6g}"


@pytest.mark.parametrize(("left", "right"), [(0.9e-6, True), (1.1e-6, False)])
def test_losses_are_right_to_a_millionth_of_what_differs(left, right):
    losses = {
        "loss/0": (lambda b: 3.0, lambda b: 3.0 + (1.0 if b["feed/x"] is X else left)),
        "loss/1": (lambda b: 2.0, lambda b: 2.0),
        "loss/2": (lambda b: 1.0, lambda b: np.inf if b["feed/x"] is X else 1.0),
    }
    sides = WithLosses(lambda b: b["feed/x"] @ W, lambda b, s: 2 * b["feed/x"] @ W, {"feed/x": X}, losses=losses)
    assert sides.bench().losses_right_with(lambda b: {"feed/x": X / 2}, lambda s: s) is right


def test_a_change_that_makes_another_output_wrong_is_no_cause():
    both = lambda b: b["feed/x"] @ W  # noqa: E731
    for port, named in ((both, []), (lambda b: 2 * both(b), ["input_scale"])):
        losses = {"act/0/first": (both, port)}
        sides = WithLosses(both, lambda b, s: 2 * both(b), {"feed/x": X}, losses=losses)
        # Halving x puts the layer right; the output in front of it takes x as it is where it is right already.
        assert [cause.name for cause in sides.causes()] == named
        assert sides.bench().makes_wrong(lambda b: {"feed/x": X / 2}, lambda s: s) == (not named)


def test_a_change_that_puts_the_numbers_of_another_output_in_another_order_makes_it_not_wrong():
    both = lambda b: b["feed/x"] @ W  # noqa: E731
    sides = WithLosses(both, lambda b, s: both(b)[::-1], {"feed/x": X}, losses={"act/0/first": (both, both)})
    assert not sides.bench().makes_wrong(lambda b: {"feed/x": X[::-1]}, lambda s: s)
    assert sides.bench().makes_wrong(lambda b: {"feed/x": X[::-1] + 1e-3}, lambda s: s)


MASK = np.where(X > 0, 1.0, 0.0)


def test_a_mask_is_not_scaled_or_shifted():
    sides = Sides(lambda b: b["feed/x"], lambda b, s: 2 * b["feed/x"], {"feed/mask": MASK, "feed/x": X})
    found = list(knobs(sides.bench()))
    assert [knob.name for knob in found] == ["input_scale", "input_shift"] and "x times" in found[0].what(1.0)
    scaled = Sides(lambda b: b["feed/mask"] * X, lambda b, s: 0.73 * b["feed/mask"] * X, {"feed/mask": MASK})
    assert list(knobs(scaled.bench())) == []
    shares = Sides(lambda b: b["feed/x"], lambda b, s: 2 * b["feed/x"], {"feed/x": MASK + 1})
    assert len(list(knobs(shares.bench()))) == 2, "of two numbers, but none of them 0"


SQUARE = {name: RANDOM.normal(size=size) for name, size in {"a": (4, 4), "b": (4, 4), "c": (3, 4)}.items()}


def network(x, state):
    return np.tanh(np.tanh(x @ state["var/net.one.weight"]) @ state["var/net.two.weight"] + state["var/net.two.bias"])


OWN = {
    "var/net.one.weight": SQUARE["a"],
    "var/net.one.bias": RANDOM.normal(size=4),
    "var/net.two.weight": SQUARE["b"],
    "var/net.two.bias": RANDOM.normal(size=4),
}


EXCHANGED = dict(zip(OWN, [*list(OWN)[2:], *list(OWN)[:2]], strict=True))


@pytest.mark.parametrize(
    ("bug", "name", "title"),
    [
        (
            lambda s: {**s, "var/net.two.weight": s["var/net.two.weight"].T},
            "transposed_kernel",
            "the square kernel net.two.weight is used transposed",
        ),
        (
            lambda s: {
                **s,
                "var/net.two.weight": s["var/net.one.weight"],
                "var/net.one.weight": s["var/net.two.weight"],
            },
            "swapped_variables",
            "net.one.weight and net.two.weight stand for each other",
        ),
        (
            lambda s: {EXCHANGED[text]: value for text, value in s.items()},
            "swapped_variables",
            "the layers net.one and net.two stand for each other",
        ),
    ],
)
def test_weights_that_were_carried_over_wrongly_are_put_right(bug, name, title):
    def reference(batch):
        return network(batch["feed/x"], OWN)

    sides = Sides(reference, lambda b, s: network(b["feed/x"], bug(s)), {"feed/x": X}, OWN)
    (cause,) = sides.causes(name="net")
    assert (cause.name, cause.title) == (name, title)
    for text, value in cause.change.state(OWN).items():
        assert np.array_equal(value, bug(OWN)[text])


def test_weights_of_the_layer_that_differs_are_tried_alone_and_all_where_none_is_named_like_it():
    state = {
        "var/one.weight": SQUARE["a"],
        "var/one.bias": np.ones(4),
        "var/two.weight": SQUARE["b"],
        "var/two.bias": np.zeros(4),
        "var/three.weight": SQUARE["c"],
        "slot/m/one.weight": SQUARE["a"],
    }

    def tried(name):
        first = FirstDifference(Check("lockstep", 1, KEY, "different", 1.0, 1e-12), "act", name, "0", None)
        return [change.what for change in changes_of_the_state(first, state)]

    pair = ["with one.weight and two.weight exchanged", "with one.bias and two.bias exchanged"]
    both = "with all variables of {} and {} exchanged"
    assert tried("one/Relu") == ["with one.weight transposed", *pair, both.format("one", "two")]
    everywhere = ["with one.weight transposed", "with two.weight transposed", *pair, both.format("one", "two")]
    assert tried("elsewhere") == everywhere == tried("")
    assert tried("three") == []


def test_an_image_that_is_padded_on_the_wrong_side_is_seen_shifted():
    large = RANDOM.normal(size=(2, 14, 13, 2))
    kernel = RANDOM.normal(size=(14, 13, 2))

    def windows(x, down, right):
        padded = np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))[:, 2 - down : 18 - down, 2 - right : 17 - right]
        return padded[:, :14, :13] * kernel

    reference = lambda b: windows(b["feed/image"], 0, 0)  # noqa: E731
    for down, right in ((1, 0), (0, -1), (1, 1)):
        sides = Sides(reference, lambda b, s, at=(down, right): windows(b["feed/image"], *at), {"feed/image": large})
        (cause,) = sides.causes()
        assert cause.name == "shifted_image" and f"{-down:+d}, {-right:+d} for the candidate alone" in cause.evidence
    first = sides.bench()
    assert shifted_image(first).title == cause.title
    loss = Sides(sides.reference, sides.port, {"feed/image": large}, key="loss/0")
    assert shifted_image(loss.bench()) is None
    small = {"feed/image": large[:, :12]}
    kernel = kernel[:12]
    cut = Sides(lambda b: b["feed/image"] * kernel, lambda b, s: np.roll(b["feed/image"], 1, 1) * kernel, small)
    assert shifted_image(cut.bench()) is None, "most of a smaller image is its border"


@pytest.mark.parametrize(("kind", "name"), [(np.float32, "float32"), (np.float16, "float16")])
def test_a_port_that_computes_in_a_narrower_format_follows_no_nudge(kind, name):
    def port(batch, state):
        return np.tanh(batch["feed/x"].astype(kind) @ W.astype(kind)).astype(np.float64)

    sides = Sides(lambda b: np.tanh(b["feed/x"] @ W), port, {"feed/x": X})
    (cause,) = sides.causes()
    assert cause.name == "reduced_precision" and name in cause.title
    assert "inputs larger by 1e-12 of themselves" in cause.evidence


@pytest.mark.parametrize(
    ("apart", "name"),
    [
        (2e-10, "float32"),
        (2.9e-5, "float32"),
        (4e-5, "float16"),
        (2.9e-4, "float16"),
        (4e-4, "bfloat16"),
        (0.5e-10, None),
        (0.06, None),
    ],
)
def test_the_format_is_told_by_what_it_leaves_in_a_result(apart, name):
    wanted = np.tanh(X @ W)
    stays = wanted * (1 + apart)
    cause = less_precision(Sides(lambda b: np.tanh(b["feed/x"] @ W), lambda b, s: stays, {"feed/x": X}).bench())
    assert cause is None if name is None else name in cause.title


def test_no_precision_is_told_where_nothing_follows_the_inputs_or_the_port_does():
    stays = np.tanh(X @ W) * (1 + 1e-6)
    assert less_precision(Sides(lambda b: np.tanh(X @ W), lambda b, s: stays, {"feed/x": X}).bench()) is None
    follows = Sides(
        lambda b: np.tanh(b["feed/x"] @ W), lambda b, s: np.tanh(b["feed/x"] @ W) * (1 + 1e-6), {"feed/x": X}
    )
    assert less_precision(follows.bench()) is None
    zero = Sides(lambda b: np.tanh(b["feed/x"] @ W), lambda b, s: 0 * stays, {"feed/x": X})
    assert less_precision(zero.bench()) is None
    indices = Sides(lambda b: np.tanh(X @ W), lambda b, s: stays, {"feed/words": WORDS})
    assert less_precision(indices.bench()) is None


def test_a_mask_is_not_nudged_and_hides_no_narrow_format():
    def port(batch, state):
        return np.tanh(batch["feed/x"].astype(np.float32) @ W.astype(np.float32)) * batch["feed/mask"][:, :3]

    batch = {"feed/x": X, "feed/mask": MASK}
    sides = Sides(lambda b: np.tanh(b["feed/x"] @ W) * b["feed/mask"][:, :3], port, batch)
    assert "float32" in less_precision(sides.bench()).title
    # What follows nothing but a mask, in a port that does not: no precision is to be seen by it.
    stays = np.tanh(X @ W) * MASK[:, :3] * (1 + 1e-6)
    alone = Sides(lambda b: np.tanh(X @ W) * b["feed/mask"][:, :3], lambda b, s: stays, {"feed/mask": MASK})
    assert less_precision(alone.bench()) is None


def statistics(port_policy, own="first", towers=2):
    """Causes of moving statistics, of which each policy gives others."""
    made = {"first": X[0], "last": X[1], "all_ordered": X[2]}
    sides = Sides(
        lambda b: made[own], lambda b, s: made.get(port_policy, X[3]), {"feed/x": X}, towers=towers, key="stat/m"
    )
    sides.batch_norm_updates = own
    sides.repeat_reference = lambda step, updates=None, batch=None: trace({"stat/m": made[updates or own]})
    return sides.causes(name="m")


def test_statistics_that_another_tower_would_leave_are_told_with_whose_they_are():
    (cause,) = statistics("last")
    assert cause.name == "statistics_of_another_tower" and "the last tower's" in cause.title
    assert cause.evidence == 'with [tf] batch_norm_updates = "last" the towers give the candidate\'s stat/m'
    (cause,) = statistics("all_ordered")
    assert "all towers', one after the other" in cause.title and "the first tower's" in cause.title + cause.fix
    assert statistics("first", own="last")[0].title != cause.title
    assert statistics("none") == [] == statistics("last", towers=1)


@pytest.mark.parametrize(("over", "title"), [(None, "port"), (True, "graph")])
def test_a_batch_norm_over_all_ranks_is_told_by_running_it_the_other_way(over, title):
    wanted = np.tanh(X @ W)
    sides = Sides(lambda b: wanted, lambda b, s: wanted + 0.1 * np.tanh(3 * wanted), {"feed/x": X}, towers=2)
    sides.repeat_with_batch_norm = lambda step, given: trace({KEY: wanted if given is over else wanted + 1})
    sides.repeat_built_anew = lambda step: trace({KEY: wanted + 2})
    bench = sides.bench()
    bench.reference.variables["m"] = {"kind": "statistic"}
    (cause,) = find_by_experiment(bench.first, sides, JOIN, bench.reference, bench.candidate)
    where = "each rank's own shard" if over is None else "all ranks"
    assert cause.name == "sync_batch_norm" and cause.evidence.startswith(f"with batch norm over {where} the candidate")
    # The control: what is built anew in a later step is the reference's too, as a parameter of its own begins anew.
    bench.reference.step_numbers = [bench.first.check.step - 1, bench.first.check.step]
    sides.repeat_built_anew = lambda step: trace({KEY: wanted})
    assert find_by_experiment(bench.first, sides, JOIN, bench.reference, bench.candidate) == []
    sides.repeat_built_anew = lambda step: trace({KEY: wanted + 2})
    assert find_by_experiment(bench.first, sides, JOIN, bench.reference, bench.candidate) == [cause]
    sides.towers = 1
    assert find_by_experiment(bench.first, sides, JOIN, bench.reference, bench.candidate) == []


def test_a_port_that_does_not_take_what_is_tried_has_no_cause_from_it():
    def port(batch, state):
        if not np.array_equal(batch["feed/x"], X):
            raise SideFailed("port", "it asserts what it is fed")
        return np.tanh(2 * X @ W)

    assert Sides(lambda b: np.tanh(b["feed/x"] @ W), port, {"feed/x": X}).causes() == []


@pytest.mark.parametrize("key", ["grad/w", "var/w", "slot/m/w"])
def test_what_no_step_can_be_run_for_is_not_tried(key):
    sides = Sides(lambda b: b["feed/x"], lambda b, s: 2 * b["feed/x"], {"feed/x": X}, key=key)
    assert sides.causes() == []
    assert Sides(lambda b: b["feed/x"], lambda b, s: 2 * b["feed/x"], {"feed/x": X}).causes() != []


def test_what_experiments_find_comes_before_what_only_says_where_a_difference_is():
    def named(*names):
        return [Cause(name, "", "", "") for name in names]

    def order(known, tried):
        return [cause.name for cause in ahead_of(named(*known), named(*tried))]

    assert order(["border", "gate_order"], ["input_scale"]) == ["input_scale", "gate_order"]
    assert order(["border"], ["reduced_precision"]) == ["reduced_precision", "border"]
    assert order(["border"], []) == ["border"]
    assert order(["dropout_active", "gate_order"], ["random_draw"]) == ["dropout_active", "random_draw", "gate_order"]
    assert order(["other_operation"], ["reduced_precision"]) == ["other_operation", "reduced_precision"]
    assert order(["other_operation"], ["input_scale"]) == ["input_scale"]
