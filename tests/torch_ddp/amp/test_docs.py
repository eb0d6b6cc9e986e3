"""The page docs/amp.md: its example runs, and it names what there is."""

import re
from pathlib import Path

from torch_ddp import amp

PAGE = (Path(__file__).parents[3] / "docs" / "amp.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 1
    names = {}
    exec(compile(blocks[0], "docs/amp.md", "exec"), names)
    assert names["checkpoint"]["amp"]["loss_scaler0"] == {"loss_scale": 65536.0, "unskipped": 3}
    assert capsys.readouterr().out == ""


def test_the_page_names_every_public_name():
    missing = [name for name in amp.__all__ if not re.search(rf"\b{name}\b", PAGE)]
    assert set(missing) <= {"BannedFunctionError"} | {n for n in amp.__all__ if n.startswith("register_")}
