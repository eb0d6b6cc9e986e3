"""Builds towers cooperatively, a thread each: they meet at barriers where one needs something of the others."""

import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.cross_tower.collection_views import Views

if TYPE_CHECKING:
    from tf_towers.graph.cross_tower.collectives import Exchange

# Runs the models of all towers in turn, each up to where it needs something of the others.

WITHIN = 600.0  # seconds for a model to come to where it meets the others, or to its end
ENDING = 10.0  # seconds for a model to be left

_OF_THREAD = threading.local()


class _Ended(BaseException):
    """Leaves a model that another one's failure has made pointless, past every `except Exception` of its own."""


def in_turn(
    functions: Sequence[Callable[[], Any]], around: Callable[[int], ContextManager[None]], within: float = WITHIN
) -> List[Any]:
    """Runs one function for each tower, one at a time, and returns the list of what they return.

    Tower 0 runs until it meets the others (`current_turn().meet`) or ends, then tower 1, and so on, round after round. So
    whatever they do to a graph comes in the same order in every run. Each has a thread of its own, in which TensorFlow's
    thread-local state is as in a fresh one.

    Args:
      functions: a list over the towers of functions without arguments.
      around: function of a tower's index that makes the context manager in which that tower goes on for a while; it is
        entered in the caller's thread.
      within: seconds in which a tower has to come to its next meeting or its end.

    Raises:
      TowerError: the towers do not come to the same meetings in the same order, or one of them does not come in time.
      Exception: whatever a tower raises, with its own traceback. The other towers are ended first.
    """
    # A waiting tower outlasts all others' turns, so that a time-out names the one that hangs.
    patience = within * len(functions) + ENDING
    # Daemon threads, one for each tower: a model that cannot be left does not keep the process alive.
    turns = [_Turn(index, function, within, patience) for index, function in enumerate(functions)]
    for turn in turns:
        turn.start()
    try:
        return _rounds(turns, around)
    finally:
        for turn in turns:
            turn.end()


def current_turn() -> "Optional[_Turn]":
    """Returns the turn of the tower whose model is running in this thread, or None."""
    return getattr(_OF_THREAD, "turn", None)


def _rounds(turns: "Sequence[_Turn]", around: Callable[[int], ContextManager[None]]) -> List[Any]:
    everyones = None
    while True:
        came = []
        for turn in turns:
            with around(turn.index):
                came.append(turn.go_on(everyones))
        if all(place is None for place, _ in came):
            return [result for _, result in came]
        _require_one_place([place for place, _ in came])
        everyones = [value for _, value in came]


def _require_one_place(places: Sequence[Optional[str]]) -> None:
    for index, place in enumerate(places):
        if place != places[0]:
            one, other = ("the end of its model" if it is None else repr(it) for it in (places[0], place))
            raise TowerError(
                "tower: expected every tower to come to the same synchronised layers in the same order, "
                f"got {one} in tower 0 where tower {index} came to {other}. Build the same layers in every tower."
            )


class _Turn(threading.Thread):
    """The thread of one tower's model; of all of them one runs at a time."""

    def __init__(self, index: int, function: Callable[[], Any], within: float, patience: float) -> None:
        super().__init__(name=f"tower {index}", daemon=True)
        self.index = index
        self.exchanged: "List[Exchange]" = []
        self._function = function
        self._within, self._patience = within, patience
        self._told: "queue.Queue[Any]" = queue.Queue()
        self._came: "queue.Queue[Any]" = queue.Queue()
        self._places: Dict[str, int] = {}

    def run(self) -> None:
        _OF_THREAD.turn = self
        try:
            self._wait()
            self._came.put((None, self._function(), None))
        except _Ended:
            pass
        except BaseException as error:  # raised again, with its traceback, where the towers were started
            self._came.put((None, None, error))

    def meet(self, place: str, value: Any) -> List[Any]:
        """Waits until every tower has come to this place; returns the list over the towers of what they brought.

        Args:
          place: name of the place, the same in every tower. Further meetings at one place are counted.
          value: whatever this tower brings.
        """
        count = self._places[place] = self._places.get(place, 0) + 1
        # A layer that is called twice meets twice under one name: the count tells the meetings apart.
        self._came.put((place if count == 1 else f"{place} ({count})", value, None))
        return self._wait()

    def go_on(self, everyones: Optional[List[Any]]) -> Tuple[Optional[str], Any]:
        """Lets the model run; returns where it came to (None: its end) and what it brought there."""
        self._told.put((True, everyones))
        try:
            place, value, error = self._came.get(timeout=self._within)
        except queue.Empty:
            raise TowerError(
                f"tower: expected the model of tower {self.index} to come to a synchronised layer or its end within "
                f"{self._within:.3g} s, got neither. Look for what it waits for."
            ) from None
        if error is not None:
            raise error
        return place, value

    def end(self) -> None:
        """Ends the thread, wherever its model waits."""
        self._told.put((False, None))
        self.join(min(ENDING, self._within))

    def _wait(self) -> Any:
        try:
            going_on, everyones = self._told.get(timeout=self._patience)
        except queue.Empty:
            going_on, everyones = False, None
        if not going_on:
            self._told.put((False, None))  # for whatever meets again on its way out
            raise _Ended()
        return everyones


# Builds the towers in turn, in one graph, as if they were built one after another.


def build_together(build: Callable[[int, Callable[[Any], List[Any]]], None], towers: int) -> None:
    """Builds all towers in turn, each in a thread of its own: they meet wherever they exchange tensors.

    Devices, name scopes, variable scopes and control dependencies belong to a thread in TensorFlow 1, or are made to here;
    each tower starts with those of the caller.

    Args:
      build: function of a tower's index, and of a function that returns what this tower has put into a collection.
      towers: their number.

    Source: tensorflow/python/distribute/mirrored_strategy.py (1.15), which runs its replicas' threads one at a time.
    """
    graph, scope, views = tf.get_default_graph(), tf.get_variable_scope(), Views(towers)
    # Otherwise devices and control dependencies are stacks of the graph, shared by all threads.
    graph.switch_to_thread_local()

    def started(index: int) -> Callable[[], None]:
        def run() -> None:
            with graph.as_default(), tf.variable_scope(scope, auxiliary_name_scope=False):
                build(index, lambda key: views.own(index, key))

        return run

    in_turn([started(index) for index in range(towers)], views.of)


def own_from_here() -> Callable[[Any], List[Any]]:
    """Returns a function of a collection's key that returns what has been put into it since."""
    graph = tf.get_default_graph()
    known = {key: len(graph.get_collection(key)) for key in graph.get_all_collection_keys()}
    return lambda key: graph.get_collection(key)[known.get(key, 0) :]
