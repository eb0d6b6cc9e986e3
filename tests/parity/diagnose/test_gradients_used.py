"""What an optimizer was given, where it is not what was computed: scaled, turned, clipped, or left over."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at
from support.made_updates import FACTS, KINDS, before, descent, made, momentum, of_norm, times, to_value

from parity.diagnose.detectors.updates.optimizer_gradients import gradients_used, left_over

WORKS = "the candidate's optimizer works with"


def said(folder, detector, rule=momentum, step=0, only_first=False, **settings):
    """Title and evidence of what is said of a slot, or of a weight where there is none; None where nothing is."""
    one, other, states = made(rule, rule), made(rule, rule, **settings), before(rule)
    if only_first:
        one, other, states = one[:1], other[:1], states[:1]
    evidence = evidence_between(folder, one, other, states, KINDS, {"optimizer": FACTS[rule]})
    key = "slot/momentum/kernel" if rule is momentum else "var/kernel"
    cause = detector(first_at(key, step), evidence)
    return cause and f"{cause.title}: {cause.evidence}"


def of_variable(limit):
    """Clips each variable's gradient to a norm."""
    return lambda gradients: {
        name: value * min(1.0, limit / np.linalg.norm(value)) for name, value in gradients.items()
    }


def of_kernel(factor):
    return lambda gradients: gradients | {"kernel": factor * gradients["kernel"]}


def sizes(step):
    return [np.linalg.norm(value) for key, value in made(momentum, momentum)[step].items() if key.startswith("grad/")]


NORMS = [float(np.linalg.norm(sizes(step))) for step in (0, 1)]  # global ones, of the two steps
BETWEEN = sum(NORMS) / 2


def to_norm(limit):
    return lambda gradients: {
        name: value * min(1.0, limit / np.sqrt(sum((each**2).sum() for each in gradients.values())))
        for name, value in gradients.items()
    }


@pytest.mark.parametrize("rule", [momentum, descent])
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (times(3.0), f"the update's gradient is off by the factor 3: {WORKS} 3 times the gradient of every variable"),
        (
            times(0.3),
            f"the update's gradient is off by the factor 0.3: {WORKS} 0.3 times the gradient of every variable",
        ),
        (times(-1.0), f"the update goes uphill: {WORKS} -1 times the gradient of every variable"),
        (of_kernel(3.0), f"the update's gradient is off by the factor 3: {WORKS} 3 times the gradient of kernel"),
        (of_kernel(0.5), f"the update's gradient is off by the factor 0.5: {WORKS} 0.5 times the gradient of kernel"),
        (
            of_norm(0.25),
            "the gradients are brought to the global norm 0.25 before the update: at all 2 steps the candidate's optimizer "
            f"works with gradients of that norm, {0.25 / max(NORMS):.4g} to {0.25 / min(NORMS):.4g} times the combined ones",
        ),
        (
            to_value(0.1),
            "the candidate clips the gradients by value to 0.1: in 2 of 3 variables the larger elements of the gradient "
            "are cut off, no others differ",
        ),
        (times(1.0), None),
        (times(1.0 + 4e-6), None),
    ],
)
def test_what_an_optimizer_was_given_is_said(tmp_path, rule, given, text):
    assert said(tmp_path, gradients_used, rule, given=given) == text


def test_a_factor_below_1_at_one_step_may_be_a_clip(tmp_path):
    text = said(tmp_path / "one", gradients_used, given=times(0.3), only_first=True)
    assert text.startswith(
        "the gradients are scaled to 0.3 of what they are before the update, by clipping by global norm"
    )
    assert text.endswith(
        f"works with 0.3 times the gradient of every variable; their global norm is then {0.3 * NORMS[0]:.6g}"
    )
    at = NORMS.index(max(NORMS))
    text = said(tmp_path / "two", gradients_used, given=to_norm(BETWEEN), step=at)
    assert (
        f"scaled to {BETWEEN / max(NORMS):.4g} of what they are before the update, as clipping by global norm" in text
    )
    text = said(tmp_path / "more", gradients_used, given=times(1.3), only_first=True)
    assert text.startswith("the update's gradient is off by the factor 1.3")


def test_a_gradient_of_each_variable_may_be_clipped_by_itself(tmp_path):
    limit = min(sizes(0)) * 0.9
    text = said(tmp_path / "all", gradients_used, given=of_variable(limit))
    assert text.startswith(f"each variable's gradient is clipped to norm {limit:.6g}: ")
    assert text.endswith("for 3 of 3 variables, in the direction of the combined ones")
    limit = (sorted(sizes(0))[0] + sorted(sizes(0))[1]) / 2
    assert "for 2 of 3 variables" in said(tmp_path / "two", gradients_used, given=of_variable(limit))
    unlike = lambda gradients: {name: value * (0.3 + 0.1 * at) for at, (name, value) in enumerate(gradients.items())}  # noqa: E731
    assert said(tmp_path / "unlike", gradients_used, given=unlike) is None


@pytest.mark.parametrize(("above", "counted"), [(0, 3), (1, 2), (2, None)])
def test_each_variable_may_be_clipped_by_itself_where_the_reference_clips_a_global_norm(tmp_path, above, counted):
    limit = (sorted(sizes(0))[above] + ([0.0, *sorted(sizes(0))])[above]) / 2
    one, other = (made(momentum, momentum, given=each(limit)) for each in (to_norm, of_variable))
    evidence = evidence_between(tmp_path, one, other, before(momentum), KINDS, {"optimizer": FACTS[momentum]})
    cause = gradients_used(first_at("slot/momentum/kernel", 0), evidence)
    if counted is None:  # of one alone nothing tells a limit from a factor
        assert cause is None or "each variable" not in cause.title
        return
    own = limit / NORMS[0]
    # Where all are clipped nothing shows what the reference's own rule scales them by.
    assert cause.title == f"each variable's gradient is clipped to norm {limit if counted < 3 else limit / own:.6g}"
    assert f"for {counted} of 3 variables" in cause.evidence
    assert cause.evidence.endswith("ones" if counted == 3 else f"; the reference's with {own:.9g} times all of them")


def test_of_a_weight_nothing_is_said_where_slots_are_recorded(tmp_path):
    one, other = made(momentum, momentum), made(momentum, momentum, given=times(3.0))
    evidence = evidence_between(tmp_path, one, other, before(momentum), KINDS, {"optimizer": {}})
    assert gradients_used(first_at("slot/momentum/kernel"), evidence) is not None
    assert gradients_used(first_at("var/kernel"), evidence) is None
    assert gradients_used(first_at("grad/kernel"), evidence) is None


def leaving(share, now=1.0):
    """Gives a share of the gradients of the step before on top."""
    earlier = {}

    def given(gradients):
        found = {name: now * value + share * earlier.get(name, 0.0) for name, value in gradients.items()}
        earlier.update(gradients)
        return found

    return given


@pytest.mark.parametrize("rule", [momentum, descent])
@pytest.mark.parametrize(("share", "now"), [(1.0, 1.0), (0.5, 1.0), (-0.25, 2.0)])
def test_a_gradient_of_the_step_before_is_told_with_its_share(tmp_path, rule, share, now):
    text = said(tmp_path, left_over, rule, step=1, given=leaving(share, now))
    assert f"at step 1 is {now:.6g} times the reference's plus {share:.6g} times that of step 0" in text


def test_without_a_step_before_or_without_its_share_nothing_is_left_over(tmp_path):
    assert said(tmp_path / "first", left_over, step=0, given=leaving(1.0)) is None
    assert said(tmp_path / "factor", left_over, step=1, given=times(2.0)) is None
    for share, is_told in ((0.8e-6, False), (1.5e-6, True)):
        text = said(tmp_path / str(share), left_over, descent, step=1, given=leaving(share, 2.0))
        assert (text is not None) == is_told
