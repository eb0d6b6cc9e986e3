"""Builds the documentation into a site, where no network can be reached."""

import os
import subprocess
import sys
from pathlib import Path

from pages.blocks import ROOT

BUILD_WITHIN = 180
NOWHERE = "http://127.0.0.1:9"


def build_site(folder: Path) -> Path:
    """Builds into `folder` and returns it; a warning is a failure."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "http_proxy": NOWHERE, "https_proxy": NOWHERE, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder
