"""What docs/cases.md says of a case file is what a case file may say."""

import re
import shutil
from pathlib import Path

from parity.case import load_case, load_mapping
from parity.case.optimizers import OPTIMIZERS, Accumulate, Clip, Ema, LossScale, Schedule, WeightDecay
from parity.case.schema import Case, Expect, TfSide, TorchSide
from parity.mapping.transforms import TRANSFORMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cases.md").read_text()


def test_every_block_of_the_page_is_a_case_that_loads(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    shutil.copytree(ROOT / "tests" / "cases" / "square", tmp_path / "square")
    for block in blocks:
        (tmp_path / "square" / "case.toml").write_text(block)
        if block.startswith("[mapping]"):
            assert load_mapping(tmp_path / "square" / "case.toml")[0]
            continue
        case = load_case(tmp_path / "square")
        assert (case.optimizer.ema is None) == (case.expect is not None)


def test_every_key_of_a_case_is_on_the_page():
    tables = (Case, Expect, TfSide, TorchSide, Schedule, Clip, WeightDecay, Ema, Accumulate, LossScale)
    described_elsewhere = {"directory", "mapping_of"}
    of_schedules = set(Schedule.model_fields) - {"schedule", "learning_rate"}
    keys = {name for table in tables for name in table.model_fields} - described_elsewhere - of_schedules
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", PAGE)] == []
    assert [name for name in OPTIMIZERS if f"`{name}`" not in PAGE] == []


def test_every_transform_is_on_the_page():
    assert [name for name in TRANSFORMS if not re.search(rf"`{name}\b", PAGE)] == []
