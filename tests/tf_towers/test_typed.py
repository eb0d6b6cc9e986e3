from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", ["parity", "tf_towers", "torch_ddp"])
def test_every_package_says_that_it_is_typed_and_its_wheel_too(package):
    assert (ROOT / package / "py.typed").is_file()
    [line] = [line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith(f"{package} = [")]
    assert '"py.typed"' in line
