"""What a level says of its tensors in one sentence."""

from parity.judge.result import Check, what_differs


def checks(*verdicts):
    return [Check("free", step, "loss/0", verdict) for step, verdict in enumerate(verdicts)]


def test_what_differs_and_what_cannot_be_compared_is_counted_among_what_was_judged():
    found = what_differs(checks("same", "different", "incomparable", "not_run"))
    assert found == "2 of 3 tensors are not the same"


def test_nothing_is_said_where_all_that_was_judged_is_the_same():
    assert what_differs(checks("same", "not_run")) == what_differs([]) == ""
