"""Sides that do not repeat themselves, on real processes."""

from pathlib import Path

from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.experiment import run_case

DRAWS = "x = x + 0.1 * tf.random.normal(tf.shape(x), dtype=x.dtype)"


def test_right_sides_repeat_bit_for_bit(tf2_sides, tmp_path):
    result = run_case(load_case(write_case(tmp_path / "tiny"), steps=2), tf2_sides, levels=("function",))
    assert result.verdict == "same"
    assert [(repeat.side, repeat.unequal) for repeat in result.repeats] == [("reference", 0), ("candidate", 0)]
    assert all(repeat.tensors >= 16 for repeat in result.repeats)


def test_a_reference_that_draws_anew_in_every_run_is_incomparable(tf2_sides, tmp_path):
    folder: Path = write_case(tmp_path / "tiny", tf=f"{BREAK} -> {DRAWS}")
    result = run_case(load_case(folder, steps=2), tf2_sides, levels=("function",))
    assert result.verdict == "incomparable" and result.exit_code == 2
    assert result.levels["function"].notes[0].startswith("the reference does not repeat itself: run-to-run difference ")
    assert (
        " in every run (tower_0/random_normal/RandomStandardNormal): leave it out, "
        in result.levels["function"].notes[0]
    )
    assert not result.repeats[0].comparable and result.repeats[1].comparable
