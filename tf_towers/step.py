"""Runs single training steps and returns everything about them as named arrays."""

import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from parity.trace import (
    EXECUTION_RANK,
    LEARNING_RATE,
    ROW_INDICES,
    ROW_VALUES,
    SKIPPED,
    ForwardOp,
    evaluated,
    parse_key,
    quantity_of,
    section_prefix,
    trace_name,
)
from parity.trace.arrays import Array, Tensors
from tf_towers.errors import TowerError
from tf_towers.graph.forward import forward_of, gradients_of, with_values
from tf_towers.graph.input_pipeline import STEP_WITHIN
from tf_towers.graph.training import Training
from tf_towers.graph.update.apply_update import tensors_of
from tf_towers.tf_types import Pairs, Session, Tensor, Variable

# A step that takes so many times as long as any before, and as many seconds, does not end.
# Mostly the first step is the slowest: it includes placing and optimizing the graph.
TIMES_AS_LONG = 10
LEAST_SECONDS = 60.0


class Pace:
    """How long the slowest step of a tower took so far, in whatever session; a new session knows what to wait for.

    Attributes:
      slowest: in seconds, the first step's preparations included; None before any step.
    """

    def __init__(self) -> None:
        self.slowest: Optional[float] = None

    def limit(self) -> Optional[float]:
        """Returns the seconds after which a step is given up; None where nothing is known."""
        return None if self.slowest is None else max(LEAST_SECONDS, TIMES_AS_LONG * self.slowest)

    def took(self, seconds: float) -> None:
        """Notes a step that has ended."""
        self.slowest = max(self.slowest or 0.0, seconds)


class Stepper:
    """Runs a `Training` step by step in a session, with its whole state in the caller's hands.

    Args:
      training: the built graph.
      session: a session over its graph.
      pace: of the same tower in earlier sessions.
    """

    def __init__(self, training: Training, session: Session, pace: Optional[Pace] = None) -> None:
        self._training = training
        self._session = session
        self._pace = pace or Pace()
        self._keys = _state_keys(training)
        self._read: Optional[Callable[[], List[Array]]] = None
        with training.graph.as_default():
            # Once, for making dense what is sparse adds ops, and a session would take in a new graph at every step.
            self._fetches = in_order(_step_fetches(training))
        if training.source is not None:
            training.source.start(session)

    def initialize(self) -> None:
        """Runs the variables' own initialisers, and gives copies the values of the first."""
        self._session.run([variable.initializer for variable in self._training.saved])
        if self._training.broadcast is not None:
            self._session.run(self._training.broadcast)

    def state(self) -> Tensors:
        """Reads every variable: dict of trace name (``var/conv1/kernel``, ``slot/m/conv1/kernel``, ...) to array.

        In a run of its own: a resource variable fetched beside its update comes back now before it, now after it.
        """
        # A callable, for it looks its thousands of fetches up once.
        if self._read is None:
            self._read = self._session.make_callable(list(self._keys.values()))
        return dict(zip(self._keys, self._read()))

    def counters(self) -> Tensors:
        """Reads the counters alone: those of `state` whose names begin with ``state/``."""
        keys = {name: variable for name, variable in self._keys.items() if quantity_of(name) == "state"}
        return dict(zip(keys, self._session.run(list(keys.values()))))

    def load(self, state: Mapping[str, Any]) -> None:
        """Overwrites variables and their copies: dict of trace name to array, cast to the variable's dtype.

        Raises:
          TowerError: a name is no variable here, or an array has another shape.
        """
        feeds, initializers = {}, []
        for name, value in state.items():
            variable = self._keys.get(name)
            if variable is None or tuple(variable.shape.as_list()) != np.shape(value):
                expected = "a variable of this graph" if variable is None else f"shape {variable.shape}"
                raise TowerError(f"load: expected {name} to be {expected}, got an array of shape {np.shape(value)}.")
            for copy in [variable] + self._training.copies.get(variable.op.name, []):
                # By the variables' own initialisers, whose value is fed: an assignment of our own would add ops to the
                # graph.
                initializers.append(copy.initializer)
                feeds[copy.initializer.inputs[1]] = value
        self._session.run(initializers, feeds)

    def evaluate(self, batch: Mapping[str, Any]) -> Tensors:
        """Runs the model in inference mode, once with the weights and once with their averages where there are any.

        Args:
          batch: dict of input name to array ``[batch, ...]``, taken as a whole.

        Returns:
          Dict of trace name to array: ``eval/<output>``, ``eval/loss``, ``eval/ema/<output>``, ``eval/ema/loss``; empty
          where the tower function takes no mode. The variables are as they were before.

        Counterpart: torch_ddp.Stepper.evaluate
        """
        inference = self._training.inference
        if inference is None:
            return {}
        feeds = {placeholder: batch[name] for name, placeholder in inference.inputs.items()}
        found = evaluated(*self._session.run([inference.loss, inference.outputs], feeds))
        averages = {trace_name("var", name): self._keys[trace_name("ema", name)] for name in self._training.averages}
        if averages:
            # As programs that evaluate restore the averages under the names of the weights.
            weights = self._session.run({name: self._keys[name] for name in averages})
            self.load(self._session.run(averages))
            try:
                loss, outputs = self._session.run([inference.loss, inference.outputs], feeds)
            finally:
                self.load(weights)
            found.update(evaluated(loss, outputs, averages=True))
        return found

    def forward(
        self, batch: Mapping[str, Any], tower: str, gradients: bool = False, ends_at: str = ""
    ) -> List[Tuple[ForwardOp, Optional[Array]]]:
        """Runs the forward pass of one tower.

        Args:
          batch: dict of input name to array ``[batch, ...]``.
          tower: its name, as that of a `Tower`; without that of a micro-batch the first.
          gradients: whether to return the gradient of its loss in place of each output.
          ends_at: name of the output that the pass is to end at; by default the loss.

        Returns:
          List of `ForwardOp` with output, as `write_forward` takes it.

        Counterpart: torch_ddp.Stepper.forward
        """
        training = self._training
        replica = next(each for each in training.towers if tower in (each.name, each.name.partition(".")[0]))
        names = {variable.op.name: variable.op.name for variable in training.saved}
        # A tower that has copies computes with those: what it reads is told under the first one's name.
        names.update((copy.op.name, name) for name, copies in training.copies.items() for copy in copies)
        options = None if training.source is None else tf.RunOptions(timeout_in_ms=STEP_WITHIN)
        losses = [each.loss for each in training.towers]  # where towers read for themselves, all of them have to
        passed = forward_of([replica.outputs.get(ends_at, replica.loss)], names)
        passed = gradients_of(replica.loss, passed) if gradients else passed
        return list(with_values(passed, self._session, training.feeds(batch), options, losses))

    def close(self) -> None:
        """Ends what reads for the towers, then closes the session."""
        if self._training.source is not None:
            self._training.source.close()
        self._session.close()

    def step(self, batch: Mapping[str, Any]) -> Tensors:
        """Runs one update.

        Args:
          batch: dict of input name to array ``[batch, ...]``.

        Returns:
          Dict of trace name to array: feeds, outputs, losses and gradients of each tower, combined gradients, metrics.
          The rows of a sparse gradient are two arrays, ``….indices`` and ``….values``. In the order of a trace.
        """
        feeds = self._training.feeds(batch)
        begun = time.time()
        values = self._session.run([self._training.train_op, self._fetches], feeds, self._within())[1]
        self._pace.took(time.time() - begun)
        return _with_metrics(values)

    def _within(self) -> Any:
        """How long a step may take: a queue that nobody fills is waited for without end, and TensorFlow may lock up."""
        if self._training.source is not None:
            return tf.RunOptions(timeout_in_ms=STEP_WITHIN)
        limit = self._pace.limit()
        return None if limit is None else tf.RunOptions(timeout_in_ms=int(1000 * limit))


def in_order(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns a dict of trace name to array in the order in which a step computes what the names stand for."""
    return {name: tensors[name] for name in sorted(tensors, key=lambda name: EXECUTION_RANK[quantity_of(name)])}


def _state_keys(training: Training) -> Dict[str, Variable]:
    keys, parts = {}, training.parts
    for name, variable in training.counters.items():
        part, counter = parts.counters.get(variable.op.name, (None, name))
        keys[trace_name("state", counter, section=part or "")] = variable
    keys.update((trace_name("stat", name), variable) for name, variable in training.statistics.items())
    for (slot, name), variable in training.slots.items():
        keys[trace_name("slot", name, slot=slot, section=parts.variables.get(name, ""))] = variable
    keys.update((trace_name("var", name), variable) for name, variable in training.weights.items())
    keys.update((trace_name("ema", name), variable) for name, variable in training.averages.items())
    return keys


def _step_fetches(training: Training) -> Dict[str, Tensor]:
    fetches = {}
    dense = training.plan.sparse == "dense"
    for replica in training.towers:
        for name, tensor in replica.inputs.items():
            fetches[trace_name("feed", name, tower=replica.name)] = tensor
        for name, tensor in replica.outputs.items():
            quantity = "act" if tensor.shape.ndims else "metric"
            fetches[trace_name(quantity, name, tower=replica.name)] = tensor
        fetches[trace_name("loss", tower=replica.name)] = replica.loss
        fetches.update(_of_gradients("tower_grad", replica.gradients, dense, replica.name))
    for replica, clipped in zip(training.towers, training.tower_clipped):
        fetches.update(_of_gradients("tower_clip", clipped, dense, replica.name))
    fetches.update(_of_gradients("grad", training.combined, dense))
    fetches.update(_of_gradients("clip", training.clipped, dense))
    for part, rate in [("", training.rate)] + list(training.parts.rates.items()):
        if rate is not None:
            fetches[section_prefix(part) + LEARNING_RATE] = rate
    if training.finite is not None:
        fetches[SKIPPED] = tf.logical_not(training.finite)
    return fetches


def _of_gradients(quantity: str, gradients: Pairs, dense: bool, tower: str = "") -> Dict[str, Tensor]:
    fetches = {}
    for gradient, variable in gradients:
        name = trace_name(quantity, variable.op.name, tower=tower)
        if isinstance(gradient, tf.IndexedSlices) and not dense:
            fetches[name + ROW_VALUES], fetches[name + ROW_INDICES] = tensors_of([gradient])
        elif gradient is not None:
            # Where the update makes it dense as well: on a tower's device it would be copied for nothing.
            with tf.device(variable.device):
                fetches[name] = tf.convert_to_tensor(gradient)
    return fetches


def _with_metrics(values: Mapping[str, Array]) -> Tensors:
    # Metrics come last in a step's order as well.
    recorded: Tensors = {}
    metrics: Dict[str, List[Array]] = {}
    for key, value in values.items():
        if quantity_of(key) == "metric":
            metrics.setdefault(parse_key(key).name.partition("/")[2], []).append(value)
        else:
            recorded[key] = value
    for name, towers in metrics.items():
        recorded[trace_name("metric", name)] = np.mean(towers, axis=0, dtype=towers[0].dtype)
    return recorded
