"""Builds one tower: the model on a shard, its loss, and the checks of what it returns."""

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.cross_tower.collectives import Exchange, exchanged_so_far
from tf_towers.graph.cross_tower.scheduler import build_together, own_from_here
from tf_towers.graph.gradients import TowerGradients
from tf_towers.graph.options import Plan
from tf_towers.graph.placement import place_variables
from tf_towers.graph.regularization import decay_terms, regularization_terms
from tf_towers.graph.shard import shard
from tf_towers.graph.update.optimizer import Part
from tf_towers.graph.user_errors import explain_foreign_graph, explain_mixed_dtypes, require_dtype
from tf_towers.graph.variable_sharing import share
from tf_towers.tf_types import Operation, Pairs, Tensor, TowerFunction, Variable


class Tower(NamedTuple):
    """One replica of the model.

    Fields:
      inputs: dict of input name to its shard, ``[batch / towers, ...]``.
      loss: scalar, with the regularisation terms that this tower adds.
      outputs: dict of name to whatever else the tower function returned.
      gradients: list of ``(gradient, variable)`` over the trainable variables, without loss scale; of this tower's loss, or,
        where towers exchange tensors, of all towers' losses through this tower's computation.
      updates: the ops that this tower put into `UPDATE_OPS`, in order.
      name: "0", "1", ...; "0.1" is micro-batch 1 of tower 0.
      terms: the regularisation terms in `loss`.
      available: how many terms there were to choose from.
      copies: dict of variable name to this tower's own copy; empty unless variables are replicated.
      synchronised: the places where it exchanged tensors with the other towers, in order; see `over_towers`.
    """

    inputs: Dict[str, Tensor]
    loss: Tensor
    outputs: Dict[str, Tensor]
    gradients: Pairs
    updates: List[Operation]
    name: str
    terms: List[Tensor]
    available: int
    copies: Dict[str, Variable]
    synchronised: List[str]


class Model(NamedTuple):
    """A tower whose gradients are still to be taken.

    Fields:
      tower: `Tower`, without its gradients.
      names: of the trainable variables.
      weights: those that it computes with: its own copies where variables are replicated.
      shared: those that its gradients are of: the first tower's.
      exchanged: list of `Exchange`.
      scope: its name scope.
    """

    tower: Tower
    names: List[str]
    weights: List[Variable]
    shared: List[Variable]
    exchanged: List[Exchange]
    scope: str


# What a tower adds to these is told by how long they were before: scopes do not tell, regularisers leave the tower's.
KEYS = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.REGULARIZATION_LOSSES)


def build_replicas(
    tower: TowerFunction,
    shards: Sequence[Mapping[str, Tensor]],
    devices: Sequence[str],
    homes: Sequence[Any],
    plan: Plan,
    loss_scale: Any = None,
    parts: Optional[Mapping[str, Part]] = None,
    call: Optional[Callable[[int, Any], Any]] = None,
) -> List[List[Tower]]:
    """Builds every tower, and every micro-batch of it.

    Args:
      tower: function of the inputs by name that returns a scalar loss, or ``(loss, dict of name to tensor)``.
      shards: a list over the towers of dicts of input name to tensor.
      devices: the towers' devices.
      homes: a list over the towers of where their variables live.
      plan: a `Plan`.
      loss_scale: None, or what losses are multiplied by and gradients divided by, a number or a float32 scalar.
      parts: dict of name to `Part`, of which the losses of their own count.
      call: what `share` made of the tower; by default it is made here.

    Returns:
      A list over the towers of lists over their micro-batches of `Tower`.
    """
    steps = plan.accumulate["steps"] if plan.accumulate else 1
    together = plan.batch_norm == "synchronised"
    made = _Made(call or share(tower, plan.share), plan, len(shards))
    gradients = TowerGradients(plan, len(shards), loss_scale, parts or {})
    rows: List[List[Tower]] = [[] for _ in shards]
    models: List[List[Model]] = [[] for _ in shards]

    @contextlib.contextmanager
    def at(index: int, micro: int, scope: Optional[str] = None) -> Iterator[str]:
        name = f"tower_{index}" if steps == 1 else f"tower_{index}/micro_{micro}"
        earlier = _updates_before(plan.batch_norm_updates, rows, index, micro)
        with tf.device(place_variables(homes[index], devices[index])), tf.name_scope(scope or name) as opened:
            # Whatever is made inside waits for these: the moving statistics that it reads are those that they left.
            with tf.control_dependencies(earlier):
                yield opened

    def build(index: int, own: Callable[[Any], List[Any]]) -> None:
        inputs = shards[index]
        # A tower's micro-batches are ops of one graph, one after the other: nothing is kept between runs of a session.
        for micro, pieces in enumerate(shard(inputs, steps, parts="micro-batches") if steps > 1 else [inputs]):
            with at(index, micro) as scope:
                model = made.build(index, micro, pieces, scope, own)
                rows[index].append(model.tower if together else gradients.of([model])[0])
            models[index].append(model)

    if not together:
        for index in range(len(shards)):
            build(index, own_from_here())
        return rows
    # Models of all towers first, gradients afterwards: what one tower received goes back to those that sent it.
    build_together(build, len(shards))
    _require_exchanges(models)
    for micro in range(steps):
        column = [row[micro] for row in models]
        found = gradients.of(column, [functools.partial(at, i, micro, m.scope) for i, m in enumerate(column)])
        for row, one in zip(rows, found):
            row[micro] = one
    return rows


def _updates_before(policy: str, rows: Sequence[List[Tower]], index: int, micro: int) -> List[Operation]:
    # Whoever waits for an update makes it run: no tower may wait for updates that the policy leaves out.
    if (policy == "first" and index > 0) or (policy == "last" and index < len(rows) - 1):
        return []
    before = [one for row in rows[:index] for one in row] if policy == "all_ordered" else []
    return [update for one in before + rows[index][:micro] for update in one.updates]


class _Made:
    """Builds the models of towers, and remembers what the first one made: the others must share it."""

    def __init__(self, call: Callable[[int, Any], Any], plan: Plan, towers: int) -> None:
        self._call = call
        self._plan = plan
        self._towers = towers
        self._weights: List[Variable] = []
        self._names: List[str] = []

    def build(
        self, index: int, micro: int, inputs: Mapping[str, Tensor], scope: str, own: Callable[[Any], List[Any]]
    ) -> Model:
        """Builds one; `own` is a function of a collection's key that returns what this tower has put into it."""
        copied = index and self._plan.variables == "replicated"
        variables, updated, terms = (len(own(key)) for key in KEYS)
        exchanged = len(exchanged_so_far())
        # On the tower's device and in its scope: what a tower is fed is found there under its own name.
        inputs = {name: tf.identity(tensor, name) for name, tensor in inputs.items()}
        # No name scope of its own: the tower's is open, and a second one would be numbered.
        with tf.variable_scope(f"copy_{index}" if copied else tf.get_variable_scope(), auxiliary_name_scope=False):
            loss, outputs = loss_and_outputs(self._call, micro if copied else index + micro, inputs)
        # All of them, and not only those that train: a tower with moving statistics of its own would go unnoticed.
        fresh = own(tf.GraphKeys.GLOBAL_VARIABLES)[variables:]
        if not (index or micro):
            # Of the first model only: hand-made optimizers make their slots trainable later, and replicas their copies.
            self._weights = list(tf.trainable_variables())
            self._names = [weight.op.name for weight in self._weights]
            _require_weights(self._weights, inputs)
        elif fresh and not (copied and not micro):
            raise TowerError(_made_new_ones(index, fresh))
        copies = _copies(index, own(tf.GraphKeys.GLOBAL_VARIABLES)) if copied else {}
        # In the order of tower 0's, since gradients are paired with these by place.
        weights = [copies[name] for name in self._names] if copied else self._weights
        # Copies bring terms of their own into the collection; shared variables brought theirs with tower 0.
        everyones = len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
        known = everyones - len(own(tf.GraphKeys.REGULARIZATION_LOSSES)[terms:]) if copied else 0
        added, factor, available = self._terms(index, scope, known, weights)
        if added:
            loss = loss + factor * tf.add_n(added)
        updates = own(tf.GraphKeys.UPDATE_OPS)[updated:]
        name = f"{index}.{micro}" if self._plan.accumulate else str(index)
        exchanges = exchanged_so_far()[exchanged:]
        places = [exchange.place for exchange in exchanges]
        tower = Tower(inputs, loss, outputs, [], updates, name, added, available, copies, places)
        return Model(tower, self._names, weights, self._weights, exchanges, scope)

    def _terms(
        self, index: int, scope: str, known: int, weights: Sequence[Variable]
    ) -> Tuple[List[Tensor], float, int]:
        policy = self._plan.regularization
        decay = decay_terms(self._plan.weight_decay, weights, self._names) if self._plan.weight_decay else []
        available = len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) - known + len(decay)
        terms, factor = regularization_terms(policy, index, self._towers, scope, known)
        nowhere = {"none": True, "once": True, "first_tower": index > 0, "last_tower": index < self._towers - 1}
        return terms + ([] if nowhere.get(policy) else decay), factor, available


def loss_and_outputs(
    call: Callable[[int, Any], Any], index: int, inputs: Mapping[str, Tensor]
) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Calls a model; returns its loss, a scalar of the inputs' dtype, and a dict of its other outputs.

    Args:
      call: function ``(index, inputs)``, see `share`.
      index: of the tower.
      inputs: dict of input name to tensor.

    Raises:
      TowerError: there is no such loss, or two dtypes meet, or two graphs.
    """
    with explain_mixed_dtypes(inputs), explain_foreign_graph():
        returned = call(index, inputs)
    loss, outputs = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
    if not isinstance(loss, tf.Tensor):
        raise TowerError(
            f"tower: expected a scalar loss, or (loss, dict of outputs), got {type(loss).__name__}. "
            "Return a tensor; add up a list of losses with tf.add_n."
        )
    # tf.gradients would take the sum of its elements: C3D-tensorflow's vector of 22 losses has 22 times the gradient.
    if loss.shape.ndims != 0:
        raise TowerError(f"tower: expected a scalar loss, got shape {loss.shape}. Reduce it, e.g. with tf.reduce_mean.")
    # TensorFlow's own losses cast to float32 whatever they are given, and a float64 run would be no more exact than it.
    require_dtype(loss, "the loss", inputs)
    return loss, _named_outputs(outputs)


def _named_outputs(outputs: Any) -> Dict[str, Tensor]:
    named = dict(outputs) if isinstance(outputs, Mapping) else {}
    wrong = [f"{name!r}: {type(value).__name__}" for name, value in named.items() if not tf.is_tensor(value)]
    if wrong or not isinstance(outputs, Mapping):
        raise TowerError(
            "tower: expected the outputs beside the loss to be a dict of name to tensor, got "
            f"{wrong[0] if wrong else type(outputs).__name__}. "
            'Return (loss, {"logits": logits}).'
        )
    return named


def _require_weights(weights: Sequence[Variable], inputs: Mapping[str, Tensor]) -> None:
    if not weights:
        raise TowerError("tower: expected trainable variables, got none. Make them with tf.get_variable.")
    for weight in weights:
        require_dtype(weight, f"the variable {weight.op.name!r}", inputs)


def _require_exchanges(models: Sequence[Sequence[Model]]) -> None:
    if not any(model.exchanged for row in models for model in row):
        raise TowerError(
            'build: expected layers that exchange with the other towers under batch_norm="synchronised", got none. '
            "Normalise with tf_towers.batch_norm in training mode; layers of TensorFlow's own see one tower only."
        )


def _made_new_ones(index: int, fresh: Sequence[Variable]) -> str:
    return (
        f"tower: expected tower {index} to share the variables of tower 0, got new ones: "
        f"{', '.join(variable.op.name for variable in fresh)}. "
        "Make variables with tf.get_variable, which obeys the shared scope."
    )


def _copies(index: int, variables: Sequence[Variable]) -> Dict[str, Variable]:
    prefix = f"copy_{index}/"
    return {variable.op.name[len(prefix) :]: variable for variable in variables if variable.op.name.startswith(prefix)}


# Multiplies what a tower returns as its loss: for ports that scale theirs on purpose.


def with_loss_factor(tower: TowerFunction, factor: float, losses: Sequence[Optional[str]] = ()) -> TowerFunction:
    """Returns a tower whose loss is `factor` times as large; its outputs stay as they are, unless they are losses too.

    Args:
      tower: ``tower(**inputs)`` returns a scalar loss, or the loss and a dict of outputs.
      factor: a number; multiplied in the loss's own dtype.
      losses: names of the outputs that further optimizers minimise.
    """

    @functools.wraps(tower)
    def scaled(**inputs: Tensor) -> Any:
        returned = tower(**inputs)
        if isinstance(returned, tuple):
            loss, outputs = returned
            scaled_too = {name: tensor * factor for name, tensor in outputs.items() if name in losses}
            return loss * factor, dict(outputs, **scaled_too)
        return returned * factor

    return scaled
