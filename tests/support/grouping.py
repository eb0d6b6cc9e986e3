"""Puts tests that need the same server, or the same recording, into one group, which one worker runs: each is made once.

The names that a group has here reach the scheduler in a file, for ids of tests stay as they are written.
"""

import json
import os
from pathlib import Path

import pytest

# What a fixture's tests share, the first of these that a test has: {tf} is tf1 or tf2, {folder} a folder of tests.
GROUPS = {
    "tf2_sides": "sides of tf2",
    "tf1_sides": "sides of tf1",
    "sides": "sides of {tf}",
    "recorded": "recordings on {tf}",
    "stage": "lessons",
    "side": "the side of {tf}",
    "tf": "child of {tf} for {folder}",
    "tf_children": "child of {tf} for {folder}",
    "two_ranks": "ranks for {folder}",
    "three_ranks": "ranks for {folder}",
    "ranks": "ranks for {folder}",
    "world": "ranks for {folder}",
    "uninterrupted": "forks of torch",
    "forked_sides": "sides of tf2",
    "sides_on": "processors",
    "tf_python": "recordings on {tf}",
    "torch_python": "forks of torch",
    "built_site": "site",
}
FILE = "groups_file"


def group_of(item: pytest.Item) -> str | None:
    """Returns the name of a test's group, None where it shares nothing."""
    names = getattr(item, "fixturenames", ())
    for name, group in GROUPS.items():
        if name in names:
            tf = "tf1" if item.get_closest_marker("tf1") else "tf2"
            folder = "/".join(item.path.relative_to(item.config.rootpath).parts[:2])
            return group.format(tf=tf, folder=folder)
    definitions = item._fixtureinfo.name2fixturedefs if hasattr(item, "_fixtureinfo") else {}
    modules = [name for name in names if name in definitions and definitions[name][-1].scope == "module"]
    return str(item.path) if modules else None


@pytest.hookimpl(tryfirst=True)  # before xdist sends the ids
def pytest_collection_finish(session: pytest.Session) -> None:
    file = getattr(session.config, "workerinput", {}).get(FILE)
    if file:
        groups = {item.nodeid: group_of(item) for item in session.items}
        written = Path(f"{file}.{os.getpid()}")
        written.write_text(json.dumps({test: group for test, group in groups.items() if group}))
        written.replace(file)
