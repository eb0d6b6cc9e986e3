import inspect
import subprocess
import sys

import pytest

from torch_ddp import like_tf

from .semantics_table import COMMAND, committed_names

NAMES = []
# Rules of their own that have no row: what a user meets is the row of the name that calls them, or an error.
WITHOUT_A_ROW = {"LikeTfError"}


def test_the_public_names_are_these():
    assert like_tf.__all__ == NAMES
    assert all(hasattr(like_tf, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_does(name):
    doc = inspect.getdoc(getattr(like_tf, name))
    assert doc
    assert doc.splitlines()[0].endswith(".")


def test_the_page_of_semantics_names_every_public_name_and_no_other():
    missing = set(like_tf.__all__) - WITHOUT_A_ROW - committed_names()
    unknown = committed_names() - set(like_tf.__all__)
    assert not missing, f"docs/semantics.md has no row for {sorted(missing)}. Add one to a test, then: {COMMAND}"
    assert not unknown, f"docs/semantics.md names {sorted(unknown)}, which torch_ddp.like_tf has not. Run: {COMMAND}"


def _modules_after(statement):
    code = f"{statement}\nimport sys\nprint('tensorflow' in sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout


def test_importing_does_not_import_tensorflow():
    assert _modules_after("import torch_ddp.like_tf").strip() == "False"


def test_the_check_for_tensorflow_can_fail():
    assert _modules_after("import sys, types\nsys.modules['tensorflow'] = types.ModuleType('tensorflow')") == "True\n"
