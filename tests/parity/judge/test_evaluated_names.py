"""Names of what is evaluated after training."""

from hypothesis import given
from hypothesis import strategies as st

from parity.judge import Join
from parity.mapping import Mapping, MappingEntry
from parity.mapping.trace_map import Renaming
from parity.trace import Evaluated, evaluated, format_evaluated, parse_evaluated, parse_key

WORDS = st.sampled_from(["loss", "ema", "outputs", "logits", "a"])
OUTPUTS = st.lists(WORDS, min_size=1, max_size=3).map("/".join)


@given(st.booleans(), st.none() | OUTPUTS)
def test_a_name_taken_apart_and_put_together_is_the_same(averages, output):
    parts = Evaluated(averages, output)
    assert parse_evaluated(format_evaluated(parts)) == parts


@given(st.booleans(), st.lists(OUTPUTS, unique=True, max_size=4))
def test_no_two_things_that_are_evaluated_share_a_name(averages, outputs):
    named = {**evaluated(0, dict.fromkeys(outputs)), **evaluated(0, dict.fromkeys(outputs), averages=True)}
    assert len(named) == 2 * (len(outputs) + 1)


def test_outputs_come_first_and_the_loss_after_them():
    assert list(evaluated(1, {"hidden": 2, "loss": 3, "ema/x": 4})) == [
        "eval/hidden",
        "eval/outputs/loss",
        "eval/outputs/ema/x",
        "eval/loss",
    ]


def test_an_evaluated_output_follows_the_mapping_of_activations_and_metrics():
    names = {
        "act": Renaming("act", {"image": MappingEntry(to="picture", transform="nhwc_to_nchw")}),
        "metric": Renaming("metric", {"accuracy": MappingEntry(to="loss")}),
    }
    join = Join(Mapping([]), names, [])

    def candidate(text):
        return join.candidates(parse_key(text))

    assert candidate("eval/image") == ("eval/picture",)
    assert candidate("eval/ema/image") == ("eval/ema/picture",)
    assert candidate("eval/accuracy") == ("eval/outputs/loss",)
    assert candidate("eval/loss") == ("eval/loss",)
    assert candidate("eval/ema/other") == ("eval/ema/other",)
