"""What the bench of bugs varies right ports in: drawn from a seed, in force on both sides, and no matter of the verdict."""

import random
import sys
from pathlib import Path

import pytest

from parity.case import load_case
from parity.run import run_case

ROOT = Path(__file__).parents[1]
BOTH = {"this": "2.21.0", "other": "1.15.5"}


@pytest.fixture(scope="module")
def variation():
    """The bench's module, whose folder is no package."""
    folder = str(ROOT / "benchmarks" / "bugs")
    sys.path.insert(0, folder)
    try:
        import variation

        yield variation
    finally:
        sys.path.remove(folder)


def test_a_seed_draws_the_same_variations_again(variation):
    one, other = ([variation.drawn_variation("digits_convnet", chance, BOTH) for _ in range(20)] for chance in _twice())
    assert one == other and len(set(one)) > 15


def test_what_a_net_or_a_tensorflow_has_not_is_not_varied(variation):
    chance = random.Random(1)
    drawn = [variation.drawn_variation("text_lstm", chance, BOTH) for _ in range(40)]
    assert {(each.memory_format, each.batch_norm, each.ties) for each in drawn} == {("-", "-", "-")}
    assert {each.tf_onednn for each in drawn if each.tensorflow == "other"} == {"-"}
    assert {each.tf_onednn for each in drawn if each.tensorflow == "this"} == {"on", "off"}


@pytest.mark.parametrize("net", ["digits_convnet", "video_moe"])
def test_a_right_port_stays_right_whatever_is_varied(variation, net, tf2_sides, tmp_path):
    case = load_case(ROOT / "examples" / net, steps=2, towers=2, batch_size=8)
    chosen = variation.Variation("this", "off", "2", "2", "off", "channels_last", "unfused", "0.0005", "weights")
    changed = variation.varied(case, chosen, tmp_path / "port" / "varied")
    result = run_case(changed, tf2_sides)
    assert result.verdict == "same", result.first_difference
    assert (result.reference["threads"], result.candidate["threads"]) == (2, 2)
    assert (result.candidate["bucket_cap_mb"], result.candidate["mkldnn"]) == (0.0005, False)
    assert result.candidate["channels_last"] is (net == "digits_convnet")


def _twice() -> list[random.Random]:
    return [random.Random(5), random.Random(5)]
