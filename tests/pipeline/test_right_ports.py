"""What the bench of bugs varies right ports in: drawn from a seed, in force on both sides, and no matter of the verdict."""

import itertools
import random
import sys
from pathlib import Path

import pytest
from support.tiers import covering, few

from parity.case import load_case
from parity.experiment import open_sides, run_case

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("net", few(["digits_convnet", "video_moe"], "video_moe"))
def test_a_right_port_stays_right_whatever_is_varied(variation, net, tf2_sides, tmp_path):
    case = load_case(ROOT / "examples" / net, steps=2, towers=2, batch_size=8)
    chosen = variation.Variation("this", "off", "2", "2", "off", "channels_last", "unfused", "0.0005", "weights")
    changed = variation.varied(case, chosen, tmp_path / "port" / "varied")
    result = run_case(changed, tf2_sides)
    assert result.verdict == "same", result.first_difference
    assert (result.reference["threads"], result.candidate["threads"]) == (2, 2)
    assert (result.candidate["bucket_cap_mb"], result.candidate["mkldnn"]) == (0.0005, False)
    assert result.candidate["channels_last"] is (net == "digits_convnet")


PROCESSORS = {
    "sse": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
}
NEEDED = {"sse": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"}}
NETS = ("digits_mlp", "digits_convnet", "image_lrn", "text_lstm", "video_moe")


def _everywhere():
    rows = list(itertools.product(PROCESSORS, ("off", "on"), NETS, ("1", "2")))
    # Each pair of them: what instructions round otherwise, each net shows on each processor.
    for place in sorted(covering(rows, 2)):
        processor, onednn, net, threads = rows[place]
        yield pytest.param((processor, onednn), net, threads, id=f"{processor}-onednn_{onednn}-{net}-threads_{threads}")


@pytest.fixture(scope="module")
def sides_on(request):
    """The processes of a run that use no more than a processor's instructions, with TensorFlow's oneDNN on or off."""
    processor, onednn = request.param
    missing = NEEDED[processor] - _instructions()
    if missing:
        pytest.skip(f"needs a processor with {', '.join(sorted(missing))}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**PROCESSORS[processor], "TF_ENABLE_ONEDNN_OPTS": str(int(onednn == "on"))}.items():
            patch.setenv(name, value)
        with open_sides(None) as sides:
            yield sides, {"sse": "DEFAULT"}.get(processor, processor.upper()), str(int(onednn == "on"))


@pytest.mark.slow
@pytest.mark.parametrize(("sides_on", "net", "threads"), list(_everywhere()), indirect=["sides_on"])
def test_a_right_port_that_ties_is_the_same_on_every_processor(variation, sides_on, net, threads, tmp_path):
    sides, capability, onednn = sides_on
    case = load_case(ROOT / "examples" / net, steps=2, towers=2, batch_size=8)
    ties = "-" if net == "text_lstm" else "weights"
    chosen = variation.Variation("this", "-", threads, threads, "on", "contiguous", "fused", "default", ties)
    result = run_case(variation.varied(case, chosen, tmp_path / "port" / "varied"), sides)
    assert result.verdict == "same", result.first_difference
    assert (result.candidate["cpu_capability"], result.reference["flags"]["TF_ENABLE_ONEDNN_OPTS"]) == (
        capability,
        onednn,
    )
    assert (result.reference["threads"], result.candidate["threads"]) == (int(threads), int(threads))


def _instructions():
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}


def _twice() -> list[random.Random]:
    return [random.Random(5), random.Random(5)]
