"""Threads, DDP's buckets, memory format, mkldnn: said in the case or by the port, recorded, and no matter of a verdict."""

import shutil
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import run_case

ROOT = Path(__file__).parents[2]
PORT = """

import functools


def switched(channels_last=True):
    torch.backends.mkldnn.enabled = not channels_last
    model = Model()
    return model.to(memory_format=torch.channels_last) if channels_last else model


plain = functools.partial(switched, channels_last=False)
"""


@pytest.fixture
def convnet(tmp_path):
    """Returns a function that makes the convolutional net's case with keys of [tf] and [torch] of its own."""
    shutil.copy(ROOT / "examples" / "digits.py", tmp_path)
    shutil.copytree(ROOT / "examples" / "digits_convnet", tmp_path / "net")
    model = tmp_path / "net" / "model_torch.py"
    model.write_text(model.read_text() + PORT)

    def make(tf, torch):
        case = load_case(tmp_path / "net", steps=2, towers=3, batch_size=12)
        sides = {"tf": case.tf.model_copy(update=tf), "torch": case.torch.model_copy(update=torch)}
        return case.model_copy(update=sides)

    return make


@pytest.mark.slow
def test_threads_buckets_memory_format_and_mkldnn_are_facts_and_change_no_verdict(convnet, tf2_sides):
    settings = {"threads": 2, "bucket_cap_mb": 0.001, "model": "model_torch:switched"}
    result = run_case(convnet({"threads": 2}, settings), tf2_sides)
    assert result.verdict == "same", result.first_difference
    assert result.reference["threads"] == 2
    names = ("threads", "bucket_cap_mb", "channels_last", "mkldnn")
    assert [result.candidate[name] for name in names] == [2, 0.001, True, False]


@pytest.mark.slow
def test_of_one_thread_and_torchs_own_buckets_nothing_is_said(convnet, tf2_sides):
    result = run_case(convnet({}, {"model": "model_torch:plain"}), tf2_sides, levels=("function",))
    assert (result.reference["threads"], result.candidate["threads"]) == (1, 1)
    assert (result.candidate["channels_last"], result.candidate["mkldnn"]) == (False, True)
    assert "bucket_cap_mb" not in result.candidate
