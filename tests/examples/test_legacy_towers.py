"""The three commands of README and of docs/getting_started.md on the legacy example: scan, record, port, train."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parity.cli import main

ROOT = Path(__file__).parents[2]


def commands_below(page, heading):
    """Returns the words of each line of the first shell block below a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    block = re.search(rf"## {heading}.*?```bash\n(.*?)```", text, re.DOTALL)[1]
    return [shlex.split(line, comments=True) for line in block.splitlines()]


COMMANDS = commands_below("README.md", "Three commands")
BEGINNER = commands_below("docs/getting_started.md", "A script in PyTorch")
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
@pytest.mark.timeout(1200)
def test_the_example_is_scanned_recorded_ported_proven_and_trains(tmp_path, capsys, monkeypatch):
    (tmp_path / "examples" / "legacy_towers").mkdir(parents=True)
    script = Path(shutil.copy(ROOT / "examples/legacy_towers/train.py", tmp_path / "examples" / "legacy_towers"))
    monkeypatch.chdir(tmp_path)
    port = tmp_path / "port"
    assert [command[:2] for command in COMMANDS] == [["parity", verb] for verb in ("scan", "record", "port")]
    assert BEGINNER[:2] == COMMANDS[1:] and BEGINNER[2][:2] == ["python", "port/train.py"]
    for command in COMMANDS:
        assert main(command[1:]) == 0
    assert "\nverdict: same" in capsys.readouterr().out
    assert script.read_bytes() == (ROOT / "examples" / "legacy_towers" / "train.py").read_bytes()
    source = (port / "port.py").read_text()
    assert "like_tf.local_response_normalization(net, depth_radius=4" in re.sub(r"\(\s+", "(", source)
    assert "like_tf.exponential_decay(0.05, decay_steps=10, decay_rate=0.5, staircase=True)" in source
    program = (port / "train.py").read_text()
    assert program.count("    raise NotImplementedError(") == 1
    written = re.sub(r"raise NotImplementedError\(.*\)\n", lambda _: BATCHES, program, count=1)
    (port / "train.py").write_text(written)
    command = [sys.executable, *BEGINNER[2][1:], "--out", "training"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "2 ranks, begun at 0, 1000 updates" in done.stdout
