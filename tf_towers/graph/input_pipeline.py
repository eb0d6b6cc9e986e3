"""Towers that read their batches themselves: from a queue that a thread fills, or from an iterator over a data set."""

import queue
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from parity.trace.arrays import Array
from tf_towers.errors import TowerError
from tf_towers.graph.shard import shard
from tf_towers.tf_types import DType, Feeds, InputSpecs, Operation, Session, Tensor

READ_BY_TOWERS = ("queue", "iterator")
# A thread that waits in Python for a piece is not woken by the end of the session.
LOOKS_FOR_THE_END_EVERY = 0.05  # seconds
JOINED_WITHIN = 20.0  # seconds
STEP_WITHIN = 120000  # milliseconds


class Reading(NamedTuple):
    """What towers read.

    Fields:
      shards: a list over the towers of dicts of input name to tensor.
      source: the `Source` behind them.
    """

    shards: List[Dict[str, Tensor]]
    source: "Source"


class Line(NamedTuple):
    """A queue in the graph, and the op that puts one piece into it."""

    queue: Any
    placeholders: List[Tensor]
    enqueue: Operation


class Source:
    """Hands a batch, piece by piece, to what reads in the graph; is started with a session and closed before it.

    Args:
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      towers: number of towers.
    """

    def __init__(self, inputs: InputSpecs, towers: int) -> None:
        self._dtypes = {name: tf.as_dtype(dtype).as_numpy_dtype for name, (dtype, _) in inputs.items()}
        self._towers = towers
        self._pieces: "queue.Queue[Any]" = queue.Queue()
        self._closed = False
        self._coordinator = None
        self._threads: List[threading.Thread] = []
        self._end: Any = None
        self.initializer = None
        self.line: Optional[Line] = None

    def push(self, batch: Mapping[str, Any]) -> Feeds:
        """Cuts a batch over the towers and puts the pieces in line; returns what a session is fed besides: nothing.

        Raises:
          TowerError: the batch does not divide, or the source is closed.
        """
        if self._closed:
            raise TowerError("step: expected towers that still read, got a closed source. Open another session.")
        arrays = {name: np.asarray(batch[name], dtype) for name, dtype in self._dtypes.items()}
        for name, value in arrays.items():
            if len(value) % self._towers:
                raise TowerError(
                    f"step: expected {name!r} to have a multiple of {self._towers} examples, got {len(value)}. "
                    "Feed a whole batch."
                )
        cut = {name: np.split(value, self._towers) for name, value in arrays.items()}
        for tower in range(self._towers):
            self._pieces.put([cut[name][tower] for name in self._dtypes])
        return {}

    def pull(self) -> List[Array]:
        """Waits for the next piece, a list of arrays; raises StopIteration once closed, which ends queue and iterator."""
        while not self._closed:
            try:
                return self._pieces.get(timeout=LOOKS_FOR_THE_END_EVERY)
            except queue.Empty:
                continue
        raise StopIteration

    def start(self, session: Session) -> None:
        """Starts the thread that fills the queue, under a coordinator, or initialises the iterator."""
        line = self.line
        if line is None:
            session.run(self.initializer)
            return
        with session.graph.as_default():
            self._end = (session, line.queue.close(cancel_pending_enqueues=True))
        self._coordinator = tf.train.Coordinator()
        thread = threading.Thread(target=self._fill, args=(session, self._coordinator, line), daemon=True)
        thread.start()
        self._threads = [thread]

    def close(self) -> None:
        """Ends the thread and waits for it.

        Raises:
          RuntimeError: it did not end.
        """
        self._closed = True
        if self._coordinator is not None:
            session, end = self._end
            session.run(end)
            self._coordinator.request_stop()
            self._coordinator.join(self._threads, stop_grace_period_secs=JOINED_WITHIN)
            self._coordinator = None

    def _fill(self, session: Session, coordinator: Any, line: Line) -> None:
        # Not inside an op: whatever waits there holds one of the session's threads, perhaps the only one.
        while not coordinator.should_stop():
            try:
                session.run(line.enqueue, dict(zip(line.placeholders, self.pull())))
            except StopIteration:
                return
            # The queue was closed while it waited for room: the end, and no error.
            except tf.errors.CancelledError:
                return


def read_by_towers(inputs: InputSpecs, towers: int, kind: str) -> Reading:
    """Makes the towers' inputs from one shared queue or iterator, of which they take turns.

    In the code that this stands for, whichever tower comes first takes the next batch, so that no two runs need agree on
    which tower has which. Here a tower waits for the one before it.

    Args:
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch, sizes known.
      towers: number of towers; divides the batch size.
      kind: "queue": a `tf.FIFOQueue` that a thread under a `tf.train.Coordinator` fills, as `tf.train.batch` and its
        `tf.train.QueueRunner` do; "iterator": a `tf.data.Dataset`.

    Returns:
      A `Reading`.

    Raises:
      TowerError: the batch size is not divisible by the number of towers, or not known.
    """
    pieces = _piece_shapes(inputs, towers)
    dtypes = [tf.as_dtype(dtype) for dtype, _ in inputs.values()]
    source = Source(inputs, towers)
    take = _from_queue if kind == "queue" else _from_iterator
    with tf.device("/cpu:0"), tf.name_scope("reading"):
        taking = take(source, dtypes, pieces, towers)
        shards = []
        before: List[Tensor] = []
        for _ in range(towers):
            # One input is enough: a dequeue gives all of them at once.
            with tf.control_dependencies(before):
                taken = taking()
            before = [taken[0]]
            for tensor, shape in zip(taken, pieces):
                tensor.set_shape(shape)
            shards.append(dict(zip(inputs, taken)))
    return Reading(shards, source)


def _piece_shapes(inputs: InputSpecs, towers: int) -> List[List[Any]]:
    unknown = sorted(name for name, (_, shape) in inputs.items() if not shape or shape[0] is None)
    if unknown:
        raise TowerError(
            f"build: expected a batch of known size for towers that read by themselves, got none for "
            f"{', '.join(unknown)}. Say how many examples it has."
        )
    with tf.Graph().as_default():  # only for the refusal, which says what would divide
        shard({name: tf.placeholder(dtype, shape) for name, (dtype, shape) in inputs.items()}, towers)
    return [[shape[0] // towers] + list(shape[1:]) for _, shape in inputs.values()]


def _from_queue(
    source: Source, dtypes: Sequence[DType], shapes: Sequence[Any], towers: int
) -> Callable[[], List[Tensor]]:
    # One batch long: whoever fills it waits for the towers, and no step is far ahead of what was pushed.
    line = tf.FIFOQueue(towers, dtypes, shapes, name="line")
    placeholders = [tf.placeholder(dtype, shape) for dtype, shape in zip(dtypes, shapes)]
    source.line = Line(line, placeholders, line.enqueue(placeholders))

    def take() -> List[Tensor]:
        taken = line.dequeue()
        return list(taken) if isinstance(taken, (list, tuple)) else [taken]

    return take


def _from_iterator(
    source: Source, dtypes: Sequence[DType], shapes: Sequence[Any], towers: int
) -> Callable[[], List[Tensor]]:
    def pieces() -> Iterator[Tuple[Array, ...]]:
        while True:
            try:
                yield tuple(source.pull())
            except StopIteration:
                return

    dataset = tf.data.Dataset.from_generator(pieces, tuple(dtypes), tuple(tf.TensorShape(shape) for shape in shapes))
    iterator = tf.data.make_initializable_iterator(dataset)
    source.initializer = iterator.initializer
    return lambda: list(iterator.get_next())
