"""Makes optimizers and reads their slots; several in one step, one for each part of the variables."""

import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.update.learning_rate import make_learning_rate
from tf_towers.tf_types import Operation, Optimizer, Pairs, Tensor, Variable

# Several optimizers in one step: one for each part of the variables, some with a loss of their own.

OF_TENSORFLOW = frozenset(["tensorflow", "tensorflow_core", "tensorflow_estimator", "tf_towers"])

# Replicated variables: copy_1/conv1/kernel is tower 1's copy of conv1/kernel.
COPY_SCOPE = re.compile(r"^copy_\d+/")


class Part(NamedTuple):
    """One more optimizer, beside the first, which has the variables that no part takes.

    Fields:
      make: function without arguments that makes the `tf.train.Optimizer`.
      only: regular expression that is searched for in the variables' names.
      loss: name of the tower's output, a scalar, that these variables minimise; None for the tower's loss.
    """

    make: Callable[[], Optimizer]
    only: str
    loss: Optional[str]


def names_slots_as_tensorflow(optimizer: Optimizer) -> bool:
    """Tells whether no optimizer, of one or several, is of a script's own class, which may call its slots anything."""
    each = [getattr(optimizer, "first", optimizer), *getattr(optimizer, "others", {}).values()]
    return all(type(one).__module__.partition(".")[0] in OF_TENSORFLOW for one in each)


def parts_of(parts: Mapping[str, Part], names: Sequence[str]) -> Dict[str, str]:
    """Returns dict of variable name to the name of its part; variables of the first optimizer are left out.

    Args:
      parts: dict of name to `Part`.
      names: of the trainable variables.

    Raises:
      TowerError: a part has no variable, or shares one with another part, or none is left for the first optimizer.
    """
    found: Dict[str, str] = {}
    for part, described in parts.items():
        chosen = [name for name in names if re.search(described.only, name)]
        if not chosen:
            raise TowerError(
                f"optimizers: expected {described.only!r} of {part!r} to be found in a variable's name, "
                f"got {', '.join(names)}. Write a regular expression that fits one of them."
            )
        for name in chosen:
            if name in found:
                raise TowerError(
                    f"optimizers: expected one optimizer for {name!r}, got {found[name]!r} and {part!r}. "
                    "Write regular expressions that exclude each other."
                )
            found[name] = part
    if parts and len(found) == len(names):
        raise TowerError(
            "optimizers: expected variables that no part takes, for the first optimizer, got none. "
            "Leave one of the parts out and give its settings to the first."
        )
    return found


class SeveralOptimizers(tf.train.Optimizer):  # type: ignore[misc]
    """Hands every variable to the optimizer of its part, and counts one step.

    Args:
      first: the optimizer of the variables that no part takes.
      others: dict of part to optimizer.
      parts: dict of variable name to part, as `parts_of` returns it; copies of a variable go with it.
    """

    def __init__(self, first: Optimizer, others: Dict[str, Optimizer], parts: Mapping[str, str]) -> None:
        # False: no locks around the update, as optimizers of TensorFlow 1 have by default.
        super().__init__(False, "several")
        self.first = first
        self.others = others
        self._parts = parts

    def member(self, variable: Variable) -> Optimizer:
        """Returns the optimizer that a variable belongs to."""
        part = self._parts.get(COPY_SCOPE.sub("", variable.op.name))
        return self.first if part is None else self.others[part]

    def apply_gradients(
        self, grads_and_vars: Pairs, global_step: Variable = None, name: Optional[str] = None
    ) -> Operation:
        """Applies every member to its own pairs, then counts."""
        applied = []
        for member in self._members():
            pairs = [pair for pair in grads_and_vars if self.member(pair[1]) is member]
            if pairs:
                applied.append(member.apply_gradients(pairs))
        # The step is counted once, after all members: their schedules read the old count.
        with tf.control_dependencies(applied):
            return tf.group(*applied) if global_step is None else tf.assign_add(global_step, 1).op

    def get_slot_names(self) -> List[str]:
        """Returns the slots' names of all members, each once, in order."""
        names = [name for member in self._members() for name in member.get_slot_names()]
        return sorted(set(names), key=names.index)

    def get_slot(self, var: Variable, name: str) -> Variable:
        """Returns a variable's slot, or None."""
        return self.member(var).get_slot(var, name)

    def variables(self) -> List[Variable]:
        """Returns the variables of all members."""
        return [variable for member in self._members() for variable in member.variables()]

    def counters(self) -> Dict[str, Tuple[str, str]]:
        """Returns dict of variable name to ``(part, counter)`` for what the others keep beside slots, e.g. beta powers."""
        found = {}
        for part, member in self.others.items():
            for key, variable in member._non_slot_dict.items():
                found[variable.op.name] = (part, key[0])
        return found

    def _members(self) -> List[Optimizer]:
        return [self.first] + list(self.others.values())

    def _prepare(self) -> None:
        for member in self._members():
            member._prepare()

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for member in self._members():
            own = [variable for variable in var_list if self.member(variable) is member]
            if own:
                member._create_slots(own)


# Makes the optimizer that a case describes, and names its state.

# By their use in 58 published codebases: Adam and its kin in 38, momentum in 16, SGD in 10, RMSProp in 7.
MAKERS = {
    "sgd": tf.train.GradientDescentOptimizer,
    "momentum": tf.train.MomentumOptimizer,
    "adam": tf.train.AdamOptimizer,
    "rmsprop": tf.train.RMSPropOptimizer,
    "adagrad": tf.train.AdagradOptimizer,
    "adadelta": tf.train.AdadeltaOptimizer,
    "ftrl": tf.train.FtrlOptimizer,
}
HYPER_PARAMETERS = {
    "_learning_rate": "learning_rate",
    "_lr": "learning_rate",
    "_momentum": "momentum",
    "_use_nesterov": "use_nesterov",
    "_beta1": "beta1",
    "_beta2": "beta2",
    "_epsilon": "epsilon",
    "_decay": "decay",
    "_rho": "rho",
    "_centered": "centered",
    "_learning_rate_power": "learning_rate_power",
    "_l1_regularization_strength": "l1_regularization_strength",
    "_l2_regularization_strength": "l2_regularization_strength",
    "_l2_shrinkage_regularization_strength": "l2_shrinkage_regularization_strength",
    "_initial_accumulator_value": "initial_accumulator_value",
}
# Not through float32: it fills the slot in the variable's own dtype.
UNROUNDED = frozenset(["initial_accumulator_value"])


def make_optimizer(description: Mapping[str, Any]) -> Optimizer:
    """Makes a `tf.train` optimizer.

    Args:
      description: dict with `name` (a key of `MAKERS`), `learning_rate` (a number, or a schedule: see
        `make_learning_rate`), and whatever else the optimizer takes, by TensorFlow's names: `momentum`, `use_nesterov`;
        `beta1`, `beta2`, `epsilon`; `decay`, `centered`; `rho`; `initial_accumulator_value`; ...

    Raises:
      TowerError: the name is another one, or TensorFlow does not know an argument.
    """
    settings = dict(description)
    name = settings.pop("name")
    if name not in MAKERS:
        raise TowerError(f"optimizer: expected one of {', '.join(sorted(MAKERS))}, got {name!r}.")
    if isinstance(settings.get("learning_rate"), dict):
        settings["learning_rate"] = make_learning_rate(settings["learning_rate"], tf.train.get_or_create_global_step())
    try:
        return MAKERS[name](**settings)
    except TypeError as error:
        raise TowerError(
            f"optimizer: expected what {MAKERS[name].__name__} takes, got {', '.join(sorted(settings))}: {error}. "
            "Use TensorFlow's own names."
        ) from error


def hyper_parameters(optimizer: Optimizer) -> Dict[str, Any]:
    """Returns the optimizer's class and its hyper-parameters as the graph holds them, rounded to float32.

    Returns:
      Dict of JSON values: `name`, and e.g. `learning_rate` ("scheduled" where it changes), `momentum`, `use_nesterov`,
      `beta1`.
    """
    found: Dict[str, Any] = {"name": type(optimizer).__name__}
    for attribute, name in HYPER_PARAMETERS.items():
        value = getattr(optimizer, attribute, None)
        if isinstance(value, bool) or (name in UNROUNDED and value is not None):
            found[name] = value
        elif isinstance(value, (int, float)):
            # TensorFlow makes float32 tensors of them whatever the variables' dtype. Not rounded they are 2.2e-8 off in
            # a learning rate, and 1.3e-5 in Adam's second moments (measured).
            found[name] = float(np.float32(value))
        elif isinstance(value, tf.Tensor):
            found[name] = "scheduled"
    return found


def learning_rate(optimizer: Optimizer) -> Tensor:
    """Returns the float32 scalar that the updates multiply by, or None where the optimizer keeps none."""
    # Adam and Adadelta have the first, the others of `MAKERS` the second.
    for attribute in ("_lr_t", "_learning_rate_tensor"):
        tensor = getattr(optimizer, attribute, None)
        if tensor is not None:
            return tensor
    return None


def slot_variables(optimizer: Optimizer, variables: Iterable[Variable]) -> Dict[Tuple[str, str], Variable]:
    """Returns the slots as a dict of ``(slot name, variable name)`` to variable, in TensorFlow's order."""
    slots = {}
    for slot in optimizer.get_slot_names():
        for variable in variables:
            found = optimizer.get_slot(variable, slot)
            if found is not None:
                slots[(slot.lower(), variable.op.name)] = found
    return slots
