"""Deals tests to the workers by group, and none a second time that has ended its worker."""

import json
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadGroupScheduling

from .grouping import FILE

FOLDER = pytest.StashKey[tempfile.TemporaryDirectory]()


class GroupScheduling(LoadGroupScheduling):
    """xdist's, but for where groups are from, and for what happens after a worker has died.

    xdist's has the test that killed a worker run again, in the next worker and in the one after that; and it gives the next
    worker one group and no more, where that waits, before it runs the group's last test, to hear what comes then.
    """

    def __init__(self, config, log, file: Path) -> None:
        super().__init__(config, log)
        self._file, self._groups = file, {}

    def add_node_collection(self, node, collection):
        """Takes the tests that a worker has found, in groups that it has written."""
        self._groups = json.loads(self._file.read_text())
        super().add_node_collection(node, collection)

    def remove_node(self, node):
        """Takes a worker out; returns the test that it died of, which counts as run."""
        for unit in self.assigned_work[node].values():
            for test, run in unit.items():
                if not run:
                    unit[test] = True
                    super().remove_node(node)
                    return test
        return super().remove_node(node)

    def _split_scope(self, nodeid):
        return self._groups.get(nodeid, nodeid)

    def _reschedule(self, node):
        """Gives a worker enough to go on with, or tells it that nothing comes."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def pytest_configure_node(node):
    """Tells a worker where to write its groups."""
    node.workerinput[FILE] = str(_file(node.config))


def pytest_xdist_make_scheduler(config, log):
    return GroupScheduling(config, log, _file(config)) if config.getvalue("dist") == "loadgroup" else None


def pytest_unconfigure(config):
    if FOLDER in config.stash:
        config.stash[FOLDER].cleanup()


def _file(config) -> Path:
    if FOLDER not in config.stash:
        config.stash[FOLDER] = tempfile.TemporaryDirectory()
    return Path(config.stash[FOLDER].name, "groups.json")
