"""Who may import what, and who must stay readable for Python 3.7."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEGACY = [
    ROOT / "parity" / "__init__.py",
    *(ROOT / "parity" / "trace").rglob("*.py"),
    *(ROOT / "parity" / "worker" / f"{name}.py" for name in ("__init__", "protocol", "user_code", "bootstrap")),
    *(ROOT / "tf_towers").rglob("*.py"),
    ROOT / "parity" / "teach" / "__init__.py",
    ROOT / "parity" / "teach" / "part.py",
    *(ROOT / "examples" / "lessons").glob("*/*tf*.py"),
]
BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {forbidden!r}:
            raise AssertionError("imported " + name)
sys.meta_path.insert(0, Refuse())
import importlib, pkgutil
package = importlib.import_module({package!r})
for module in pkgutil.walk_packages(package.__path__, {package!r} + "."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
"""


def imports(package: str, forbidden: list[str]) -> subprocess.CompletedProcess:
    program = BLOCK.format(package=package, forbidden=forbidden)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT)


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("parity", ["tensorflow", "tf_keras", "tf_slim", "torch", "tf_towers", "torch_ddp"]),
        ("tf_towers", ["torch", "torch_ddp"]),
        ("torch_ddp", ["tensorflow", "tf_keras", "tf_slim", "tf_towers"]),
    ],
)
def test_no_package_imports_the_other_framework(package, forbidden):
    done = imports(package, forbidden)
    assert done.returncode == 0, done.stderr


def test_the_proof_of_the_import_rule_can_fail():
    done = imports("torch_ddp", ["torch"])
    assert done.returncode != 0
    assert "imported torch" in done.stderr


def test_help_loads_no_framework_and_no_numpy():
    program = (
        "import sys, parity.cli\ntry:\n    parity.cli.main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'torch', 'tensorflow', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.tf1
def test_every_file_for_the_legacy_side_compiles_there(tf1_python):
    program = "import sys\nfor path in sys.argv[1:]: compile(open(path, 'rb').read(), path, 'exec')"
    paths = [str(path) for path in [*LEGACY, *(ROOT / "examples").glob("*/model_tf.py")]]
    done = subprocess.run([tf1_python, "-c", program, *paths], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
