"""What differs behind the first difference is found with that mended, or with its layer given the reference's values."""

from dataclasses import replace

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence
from parity.diagnose.interventions.downstream import find_onward
from parity.diagnose.interventions.search import find_by_experiment
from parity.judge import Cause, Check, FirstDifference, Join
from parity.judge.metrics import distance
from parity.mapping import Mapping, Pair, parse_transform
from parity.worker.failures import SideFailed

RANDOM = np.random.default_rng(31)
X, Y = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(8, 3))
WEIGHTS = {
    "var/one.weight_ih": RANDOM.normal(size=(4, 5)),
    "var/two": RANDOM.normal(size=(5, 3)),
    "var/bias": RANDOM.normal(size=3),
    "var/lift": RANDOM.normal(size=5),
}
KINDS = {"one.weight_ih": "weight", "two": "weight", "bias": "weight", "lift": "weight", "moving": "statistic"}


def network(
    batch,
    state,
    *,
    read=lambda x: x,
    lifted=True,
    exchanged=False,
    biased=True,
    first=np.tanh,
    factor=1.0,
    half=1.0,
    share=0.1,
    cut=False,
):
    """Outputs, losses and gradients of two towers of two layers; outputs among the state are gone on from."""
    made, moved = {}, []
    kernel = state["var/one.weight_ih"][[0, 2, 1, 3] if exchanged else slice(None)]
    for tower, rows in (("0", slice(0, 4)), ("1", slice(4, 8))):
        x, y = read(batch["feed/x"])[rows], batch["feed/y"][rows]
        before = x @ kernel
        hidden = first(before) + lifted * state["var/lift"]
        slope = 1 - np.tanh(before) ** 2 if first is np.tanh else (before > 0) * 1.0
        given = {name: state.get(f"act/{tower}/{name}") for name in ("hidden", "output")}
        hidden = hidden if given["hidden"] is None else given["hidden"]
        output = hidden @ state["var/two"] + biased * state["var/bias"]
        output = output if given["output"] is None else given["output"]
        off = half * factor * 2 * (output - y) / output.size
        passes = {name: 0.0 if cut and each is not None else 1.0 for name, each in given.items()}
        into = off * passes["output"]
        behind = (into @ state["var/two"].T) * passes["hidden"]
        made |= {
            f"act/{tower}/hidden": hidden,
            f"act/{tower}/output": output,
            f"loss/{tower}": np.asarray(half * ((output - y) ** 2).mean()),
            f"tower_grad/{tower}/two": hidden.T @ into,
            f"tower_grad/{tower}/bias": into.sum(0),
            f"tower_grad/{tower}/one.weight_ih": x.T @ (behind * slope),
            f"tower_grad/{tower}/lift": behind.sum(0),
        }
        moved.append(hidden.mean(0))
    return made | {"stat/moving": state["stat/moving"] * (1 - share) + share * moved[0]}


class Sides:
    """Both sides of a step, as `RepeatsOnward` asks.

    Args:
      folder: for traces.
      **bugs: of the port, see `network`.
    """

    towers, batch_norm_updates = 2, "first"

    def __init__(self, folder, **bugs):
        self.folder, self.bugs, self.runs, self.refuses = folder, bugs, 0, ()
        self.given = {"feed/x": X, "feed/y": Y}
        self.own = {**WEIGHTS, "stat/moving": np.arange(1.0, 6.0)}
        self.reference = self.traced(network(self.given, self.own))
        self.candidate = self.traced(network(self.given, self.own, **bugs))
        states = self.traced(self.own)
        names = {name: np.shape(self.own.get(f"var/{name}", self.own.get(f"stat/{name}"))) for name in KINDS}
        pairs = [Pair(name, (name,), parse_transform("identity"), "", shape) for name, shape in names.items()]
        self.join = Join(Mapping(pairs), {}, [])
        self.evidence = Evidence(self.join, self.reference, self.candidate, states, 2)

    def traced(self, made):
        self.runs += 1
        return trace(self.folder / str(self.runs), [{}, made], KINDS, {})

    def batch(self, step):
        return dict(self.given)

    reference_batch = batch

    def translated_batch(self, batch):
        return batch

    def state(self, step):
        return dict(self.own)

    def repeat(self, step, batch, state, twice=False, cut=False, *, ahead=None):
        before = state(self.state(step))
        if set(self.refuses) & set(before):
            raise SideFailed("port", "it cannot be given that")
        return self.traced(network(batch(self.batch(step)), before, **self.bugs, cut=cut))

    def repeat_seeded(self, step, seed):
        return self.repeat(step, lambda batch: batch, lambda state: state)

    def repeat_reference(self, step, updates=None, batch=lambda batch: batch):
        return self.traced(network(batch(self.batch(step)), self.own))

    def repeat_built_anew(self, step):
        return self.candidate

    def repeat_with_batch_norm(self, step, over_all_ranks):
        return self.candidate

    def checks(self):
        """Of level 1: what differs by more than 1e-12 of its size."""
        for key, text in self.join.ordered(self.reference.step(1).names()):
            one, other = self.reference.step(1).read(text), self.join.read(key, self.candidate.step(1))
            allowed = 1e-12 * float(np.linalg.norm(one))
            apart = distance(one, other)
            yield Check("lockstep", 1, text, "different" if apart > allowed else "same", apart, allowed)

    def first(self):
        checks = list(self.checks())
        check = next(each for each in checks if each.verdict == "different")
        quantity, tower, name = (*check.key.split("/"), "")[:3]
        return FirstDifference(check, quantity, name, tower, None), checks

    def causes(self, *known, **settings):
        first, checks = self.first()
        known = list(known) or find_by_experiment(first, self, self.join, self.reference, self.candidate)
        return find_onward(first, known, self, self.evidence, checks, **settings)


def named(*names):
    return [Cause(name, f"{name} it is", "", "") for name in names]


def names(causes):
    return [cause.name for cause in causes]


def doubled(x):
    return 2 * x


def test_what_is_left_with_an_experiments_change_made_is_found_behind_it(tmp_path):
    found = Sides(tmp_path, read=doubled, biased=False).causes()
    assert names(found) == ["input_scale", "bias_missing"]
    assert found[1].explains.key == "act/0/output"
    alone = Sides(tmp_path / "alone", read=doubled).causes()
    assert names(alone) == ["input_scale"]


def test_a_layer_that_is_off_is_given_the_references_values_and_the_next_one_looked_at(tmp_path):
    relu = lambda x: np.maximum(x, 0.0)  # noqa: E731
    (known,) = named("op_left_out")
    found = Sides(tmp_path, first=relu, biased=False).causes(known)
    assert found[0] is known and names(found) == ["op_left_out", "bias_missing"]
    assert names(Sides(tmp_path / "alone", first=relu).causes(known)) == ["op_left_out"]
    unmended = Sides(tmp_path / "no mends", read=doubled, biased=False).causes(mends=0)
    assert names(unmended) == ["input_scale", "bias_missing"]


def test_gradients_that_pass_no_given_layer_are_looked_at_too(tmp_path):
    relu = lambda x: np.maximum(x, 0.0)  # noqa: E731
    found = Sides(tmp_path, first=relu, factor=2.0).causes(*named("op_left_out"))
    assert names(found) == ["op_left_out", "gradient_factor"]
    assert found[1].explains is not None
    behind = Sides(tmp_path / "mended", read=doubled, factor=3.0).causes()
    assert names(behind) == ["input_scale", "gradient_factor"]


def test_a_loss_that_is_off_is_told_once_and_its_gradients_not_again(tmp_path):
    relu = lambda x: np.maximum(x, 0.0)  # noqa: E731
    found = Sides(tmp_path, first=relu, half=0.5).causes(*named("op_left_out"))
    assert names(found) == ["op_left_out", "gradient_factor"]
    assert found[1].explains.key == "loss/0"


def test_statistics_that_move_by_another_share_are_told_behind_a_mended_input(tmp_path):
    found = Sides(tmp_path, read=doubled, share=0.2).causes()
    assert names(found) == ["input_scale", "batch_norm_momentum"]


def test_a_named_cause_is_taken_on_with_the_change_that_undoes_it(tmp_path):
    (known,) = named("input_scale")
    found = Sides(tmp_path, read=doubled, biased=False).causes(known)
    assert names(found) == ["input_scale", "bias_missing"]
    assert found[0].title == known.title and found[0].change.what == "with x times 1/2"


def test_nothing_is_added_where_the_step_cannot_be_run_so_or_what_differs_is_no_output(tmp_path):
    sides = Sides(tmp_path, first=lambda x: np.maximum(x, 0.0), biased=False)
    sides.refuses = ("act/0/hidden",)
    known = named("op_left_out")
    assert sides.causes(*known) == known
    first, checks = sides.first()
    of_evidence = replace(sides.evidence, states=None)
    assert find_onward(first, known, sides, of_evidence, checks) == known
    free = replace(first, check=first.check._replace(run="free"))
    assert find_onward(free, known, sides, sides.evidence, checks) == known
    assert find_onward(replace(first, quantity="tower_grad"), known, sides, sides.evidence, checks) == known


@pytest.mark.parametrize("place", [["border"], [], ["input_scale"]])
def test_two_causes_of_one_output_are_told_together_where_neither_explains_it_alone(tmp_path, place):
    sides = Sides(tmp_path, read=doubled, lifted=False)
    first, checks = sides.first()
    found = find_onward(first, named(*place), sides, sides.evidence, checks)
    assert names(found)[:2] == ["input_scale", "bias_missing"]
    assert set(names(found)) <= {"input_scale", "bias_missing", *place}
    if place != ["input_scale"]:
        words = "with x times 1/2, what is left of act/0/hidden is explained: "
        assert found[0].evidence.startswith(words) and found[0].evidence.endswith("; neither explains it alone")


@pytest.mark.parametrize("known", [[], ["input_scale"]])
def test_a_change_of_the_batch_and_one_of_the_weights_are_made_together_where_neither_does_it_alone(tmp_path, known):
    sides = Sides(tmp_path, read=doubled, exchanged=True)
    first, checks = sides.first()
    found = find_onward(first, named(*known), sides, sides.evidence, checks)
    assert names(found) == ["input_scale", "gate_order"]
    words = "with x times 1/2 and with the second and third quarter of one.weight_ih exchanged, the candidate gives"
    assert found[1].evidence.startswith(words) and found[1].evidence.endswith("; neither does it alone")
    assert found[1].explains.share == pytest.approx(1.0)
    other = find_onward(first, named("gate_order"), sides, sides.evidence, checks)
    assert names(other)[0] == "gate_order" and other[0].title == "gate_order it is"


class Stale(Sides):
    """A port that gives what the batch before makes."""

    def repeat(self, step, batch, state, twice=False, cut=False, *, ahead=None):
        given = (ahead or batch)(self.batch(step)) if twice else {"feed/x": X[::-1], "feed/y": Y[::-1]}
        return self.traced(network(given, state(self.state(step)), **self.bugs, cut=cut))


def test_a_port_that_keeps_a_batch_is_looked_at_further_with_each_fed_twice(tmp_path):
    sides = Stale(tmp_path, biased=False)
    same = lambda each: each  # noqa: E731
    sides.candidate = sides.repeat(1, same, same)
    sides.evidence = replace(sides.evidence, candidate=sides.candidate)
    sides.reference.step_numbers.append(2)
    sides.batch = lambda step: {"feed/x": X + step - 1, "feed/y": Y}
    assert names(sides.causes()) == ["stale_batch", "bias_missing"]


def test_ranks_that_read_other_examples_are_followed_by_the_reference(tmp_path):
    turned = lambda x: np.concatenate([x[4:], x[:4]])  # noqa: E731
    (known,) = named("other_shard")
    sides = Sides(tmp_path, read=turned, biased=False)
    sides.given["feed/y"] = np.concatenate([Y[:4], Y[:4]])
    found = sides.causes(known)
    assert names(found) == ["other_shard", "bias_missing"]
