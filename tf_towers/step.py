"""Runs single training steps and returns everything about them as named arrays."""

import numpy as np

from tf_towers.errors import TowerError
from tf_towers.optimizer import learning_rate


class Stepper(object):
    """Runs a `Training` step by step in a session, with its whole state in the caller's hands.

    Args:
      training: the built graph.
      session: a session over its graph.
    """

    def __init__(self, training, session):
        self._training = training
        self._session = session
        self._keys = _state_keys(training)
        self._fetches = _step_fetches(training)

    def initialize(self):
        """Runs the variables' own initialisers."""
        self._session.run([variable.initializer for variable in self._training.saved])

    def state(self):
        """Reads every variable: dict of trace name (``var/conv1/kernel``, ``slot/m/conv1/kernel``, ...) to array.

        In a run of its own: a resource variable fetched beside its update comes back now before it, now after it.
        """
        return dict(zip(self._keys, self._session.run(list(self._keys.values()))))

    def load(self, state):
        """Overwrites variables: dict of trace name to array, cast to the variable's dtype.

        Raises:
          TowerError: a name is no variable here, or an array has another shape.
        """
        feeds, initializers = {}, []
        for name, value in state.items():
            variable = self._keys.get(name)
            if variable is None or tuple(variable.shape.as_list()) != np.shape(value):
                expected = "a variable of this graph" if variable is None else f"shape {variable.shape}"
                raise TowerError(f"load: expected {name} to be {expected}, got an array of shape {np.shape(value)}.")
            initializers.append(variable.initializer)
            feeds[variable.initializer.inputs[1]] = value
        self._session.run(initializers, feeds)

    def close(self):
        """Closes the session."""
        self._session.close()

    def step(self, batch):
        """Runs one update.

        Args:
          batch: dict of input name to array ``[batch, ...]``.

        Returns:
          Dict of trace name to array: feeds, outputs, losses and gradients of each tower, combined gradients, metrics.
        """
        feeds = {placeholder: batch[name] for name, placeholder in self._training.inputs.items()}
        values = self._session.run([self._training.train_op, self._fetches], feeds)[1]
        return _with_metrics(values)


def _state_keys(training):
    keys = {f"state/{name}": variable for name, variable in training.counters.items()}
    keys.update((f"stat/{name}", variable) for name, variable in training.statistics.items())
    keys.update((f"slot/{slot}/{name}", variable) for (slot, name), variable in training.slots.items())
    keys.update((f"var/{name}", variable) for name, variable in training.weights.items())
    return keys


def _step_fetches(training):
    fetches = {}
    for index, tower in enumerate(training.towers):
        for name, tensor in tower.inputs.items():
            fetches[f"feed/{index}/{name}"] = tensor
        for name, tensor in tower.outputs.items():
            quantity = "act" if tensor.shape.ndims else "metric"
            fetches[f"{quantity}/{index}/{name}"] = tensor
        fetches[f"loss/{index}"] = tower.loss
        for gradient, variable in tower.gradients:
            if gradient is not None:
                fetches[f"tower_grad/{index}/{variable.op.name}"] = gradient
    for gradient, variable in training.combined:
        fetches[f"grad/{variable.op.name}"] = gradient
    rate = learning_rate(training.optimizer)
    if rate is not None:
        fetches["state/learning_rate"] = rate
    return fetches


def _with_metrics(values):
    recorded, metrics = {}, {}
    for key, value in values.items():
        if key.startswith("metric/"):
            metrics.setdefault(key.split("/", 2)[2], []).append(value)
        else:
            recorded[key] = value
    for name, towers in metrics.items():
        recorded[f"metric/{name}"] = np.mean(towers, axis=0, dtype=towers[0].dtype)
    return recorded
