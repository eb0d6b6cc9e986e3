"""Blocks that are run apart: two launchers of docs/machines.md, a copy of the checkout for docs/extending.md."""

import re
import shutil
import socket
import subprocess

import pytest

from pages.blocks import ROOT, blocks_of
from pages.test_blocks import environment

HERE = "tests/pages/test_blocks_apart.py"
WITHIN = 1500
MACHINE = """
import argparse, os
import torch, torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", required=True)
backend = parser.parse_args().backend
dist.init_process_group(backend)
total = torch.ones(1)
dist.all_reduce(total)
print("rank {RANK} of {WORLD_SIZE}, node {GROUP_RANK}".format(**os.environ), "sum", int(total))
dist.destroy_process_group()
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def text_of_block(page, words):
    """Returns the one block of a page that is run here and has these words in it."""
    [block] = [each for each in blocks_of(page) if words in each.text and each.marks.get("run by") == HERE]
    return block.text


def bash(text, folder, **more):
    """Returns a process that runs a text in a folder, where `parity` and `python` are this checkout's."""
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder, env={**environment(folder), **more}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def printed(process, code=0):
    try:
        text, _ = process.communicate(timeout=WITHIN)
    finally:
        process.kill()
    assert process.returncode == code, text
    return text


def copy_of_checkout(into):
    """Copies what is committed or would be, and nothing that was built."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in (
        subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")
    ):
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, into / name)
    return into


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_two_launchers_meet_as_two_machines_do(tmp_path):
    """The page's command for two machines, as two launchers of one: another address, gloo, and two ranks each."""
    command = text_of_block("docs/machines.md", "--nnodes 2")
    instead = {
        "first-machine:29500": f"127.0.0.1:{free_port()}",
        "--nproc-per-node 8": "--nproc-per-node 2",
        "--backend nccl": "--backend gloo",
        "torchrun": "torchrun --local-addr 127.0.0.1",  # the host's name need not be known to itself
    }
    for old, new in instead.items():
        assert command.count(old) == 1, old
        command = command.replace(old, new)
    (tmp_path / "train.py").write_text(MACHINE)
    environment(tmp_path)
    both = [bash(command, tmp_path) for _ in range(2)]
    lines = "".join(printed(each) for each in both).splitlines()
    told = sorted(re.findall(r"rank \d of 4, node \d sum 4", "\n".join(lines)))
    assert [line[5] for line in told] == ["0", "1", "2", "3"] and len({line[-7] for line in told}) == 2, lines


def test_the_page_on_extending_says_how_a_row_of_the_semantics_is_written(tmp_path):
    """In a copy of the checkout that has one of the tests, whose row is missing from the page."""
    copy = copy_of_checkout(tmp_path / "checkout")
    tests = copy / "tests" / "torch_ddp" / "like_tf"
    for path in tests.rglob("test_*.py"):
        if path.name != "test_dropout.py":
            path.unlink()
    page = copy / "docs" / "semantics.md"
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [line for line in lines if line.startswith("| Dropout from")]
    assert rows
    page.write_text("".join(line for line in lines if line not in rows), encoding="utf-8")
    printed(bash(text_of_block("docs/extending.md", "REFRESH_SEMANTICS"), copy, PYTHONPATH=f"{copy}:{copy / 'tests'}"))
    written = page.read_text(encoding="utf-8")
    assert [row for row in rows if row.split("|")[1] not in written] == []
