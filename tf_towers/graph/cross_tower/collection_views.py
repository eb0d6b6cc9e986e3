"""Shows each of several towers that are built in turn the graph's collections as if they were built one after another."""

import contextlib
from typing import Any, Dict, Iterator, List

import tensorflow.compat.v1 as tf


class Views:
    """The collections of the default graph, as each tower sees them: its own entries behind those of the towers before it.

    Much code reads collections while it builds, and takes what it finds for what the towers so far have put there.

    Args:
      towers: their number.
    """

    def __init__(self, towers: int) -> None:
        self._graph = tf.get_default_graph()
        self._common = {key: list(self._graph.get_collection(key)) for key in self._graph.get_all_collection_keys()}
        self._own: List[Dict[Any, List[Any]]] = [{} for _ in range(towers)]

    @contextlib.contextmanager
    def of(self, index: int) -> Iterator[None]:
        """Shows tower `index` its view; what the collections hold beyond it in the end is the tower's own."""
        before = {key: self._before(key, index) for key in self._keys()}
        for key, entries in before.items():
            self._graph.get_collection_ref(key)[:] = entries + self._own[index].get(key, [])
        try:
            yield
        finally:
            for key in self._graph.get_all_collection_keys():
                entries = self._graph.get_collection_ref(key)
                self._own[index][key] = entries[len(before.get(key, [])) :]
                # In place: scripts keep the list that get_collection_ref gives. Between turns it holds all towers' in
                # their order.
                entries[:] = self._before(key, len(self._own))

    def own(self, index: int, key: Any) -> List[Any]:
        """Returns what a tower whose turn it is has put into a collection."""
        return self._graph.get_collection(key)[len(self._before(key, index)) :]

    def _before(self, key: Any, index: int) -> List[Any]:
        return self._common.get(key, []) + [entry for own in self._own[:index] for entry in own.get(key, [])]

    def _keys(self) -> List[Any]:
        return sorted(set(self._common).union(*self._own))
