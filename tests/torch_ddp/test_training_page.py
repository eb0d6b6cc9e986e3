"""Runs every block of docs/training.md, from top to bottom, in one folder."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from process_tree import end_tree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "training.md"
BLOCK = re.compile(r"(?:<!-- (file|prints): (.*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORTS = ("29517", "29518")
WITHIN = 240


class Block(NamedTuple):
    """A fenced block: its language and text, and the file to save it as, or what it must print."""

    language: str
    text: str
    file: str
    prints: str


def blocks() -> list[Block]:
    found = []
    for kind, note, language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        found.append(Block(language, text, note if kind == "file" else "", note if kind == "prints" else ""))
    return found


def run(block: Block, folder: Path) -> str:
    interpreter = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-c"]
    kept = {name: value for name, value in os.environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
        "PYTHONPATH": str(ROOT),
        "EXAMPLES": str(ROOT / "examples"),
        "OMP_NUM_THREADS": "1",
    }
    merged = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen([*interpreter, block.text], cwd=folder, env=environment, **merged)
    try:
        printed, _ = process.communicate(timeout=WITHIN)
    finally:
        end_tree(process)
    assert process.returncode == 0, f"{block.text}\n{printed}"
    return printed


def with_free_ports(text: str) -> str:
    for port in PORTS:
        with socket.socket() as listener:
            listener.bind(("localhost", 0))
            text = text.replace(port, str(listener.getsockname()[1]))
    return text


def test_every_block_is_known_and_every_command_says_what_it_prints():
    found = blocks()
    assert PAGE.read_text(encoding="utf-8").count("```") == 2 * len(found)
    assert {block.language for block in found} == {"bash", "python"}
    assert all(block.prints for block in found if block.language == "bash")


@pytest.mark.slow
def test_every_block_does_what_the_page_says(tmp_path):
    for block in blocks():
        if block.file:
            (tmp_path / block.file).write_text(block.text)
            continue
        printed = run(block._replace(text=with_free_ports(block.text)), tmp_path)
        assert block.prints in printed, f"{block.text}\n{printed}"
