"""The three commands that README begins with: record the legacy example, port it, train the port."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from parity.cli import main

SCRIPT = Path(__file__).parents[2] / "examples" / "legacy_towers" / "train.py"
BATCHES = """import numpy

    random = numpy.random.default_rng(rank.rank)
    while True:
        labels = random.integers(3, size=8)
        images = 0.3 * random.standard_normal((8, 12, 12, 1)) + labels[:, None, None, None]
        yield {
            "images": torch.tensor(images, dtype=torch.get_default_dtype(), device=device),
            "labels": torch.tensor(labels, device=device),
        }
"""


@pytest.mark.slow
def test_the_example_is_recorded_ported_proven_and_trains(tmp_path, capsys):
    trace, port = tmp_path / "trace", tmp_path / "port"
    assert main(["record", "--steps", "4", "--out", str(trace), "--", str(SCRIPT)]) == 0
    assert main(["port", str(trace), "--out", str(port)]) == 0
    assert "verdict: same" in capsys.readouterr().out
    source = (port / "port.py").read_text()
    assert "like_tf.local_response_normalization(net, depth_radius=4" in re.sub(r"\(\s+", "(", source)
    assert "like_tf.exponential_decay(0.05, decay_steps=10, decay_rate=0.5, staircase=True)" in source
    program = (port / "train.py").read_text()
    assert program.count("    raise NotImplementedError(") == 1
    written = re.sub(r"raise NotImplementedError\(.*\)\n", lambda _: BATCHES, program, count=1)
    (port / "train.py").write_text(written)
    command = [sys.executable, "train.py", "--gpus", "2", "--steps", "20", "--out", "training"]
    done = subprocess.run(command, cwd=port, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "2 ranks, begun at 0, 20 updates" in done.stdout
