"""Maps every tensor of the reference's trace to the candidate's, in the same layout."""

import copy
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from parity.mapping import Mapping as VariableMapping
from parity.mapping import MappingEntry, MappingError, only_slots_left, parse_transform, slot_partner
from parity.trace import (
    EXECUTION_RANK,
    GRADIENTS,
    PER_VARIABLE,
    UPDATED,
    TensorFile,
    TensorKey,
    format_evaluated,
    parse_evaluated,
    parse_key,
    tower_order,
    trace_name,
)
from parity.trace.arrays import Array


class Renaming:
    """Carries names and arrays of one quantity between the sides; what has no entry stays as it is.

    Args:
      quantity: "feed", "act" or "metric"; used in messages.
      entries: the reference's name to what the case says of it.

    Raises:
      MappingError: an entry names several tensors: only variables can be split.
    """

    def __init__(self, quantity: str, entries: Mapping[str, MappingEntry]) -> None:
        for name, entry in entries.items():
            if len(entry.to) != 1:
                raise MappingError(
                    f"mapping: expected one name for {name!r} in [mapping.{quantity}], got {', '.join(entry.to)}. "
                    "Only variables can become several."
                )
        self._entries = dict(entries)
        self._layouts: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        """Returns whether a name of the reference is carried otherwise than as it is."""
        return name in self._entries or name in self._layouts

    @property
    def layouts(self) -> dict[str, str]:
        """Name to transform of those whose layout was taken from the tensors."""
        return dict(self._layouts)

    def take_layout(self, name: str, transform: str) -> None:
        """Has a name of the reference carried by a transform, where no entry says by which."""
        if self._transform(name) is None:
            self._layouts[name] = transform

    def _transform(self, name: str) -> str | None:
        return self._entries[name].transform if name in self._entries else None

    def to_candidate(self, name: str) -> str:
        """Returns the candidate's name of the reference's `name`."""
        return self._entries[name].to[0] if name in self._entries else name

    def forward(self, name: str, array: Array) -> Array:
        """Carries an array of the reference to the candidate's layout."""
        text = self._transform(name) or self._layouts.get(name)
        return parse_transform(text).forward(array)[0] if text else array

    def backward(self, name: str, array: Array) -> Array:
        """Carries an array of the candidate to the layout of the reference's `name`."""
        text = self._transform(name) or self._layouts.get(name)
        return parse_transform(text).backward(array) if text else array


OPTIONAL = frozenset(["state"])
MOST_REMEMBERED = 1 << 14  # tensors whose counterparts are remembered, some 3 MB


class Held(Protocol):
    """Tensors by name: a file of them, or a dict in memory."""

    def __contains__(self, name: object, /) -> bool:
        """Returns whether there is such a tensor."""

    def read(self, name: str) -> Array:
        """Returns one tensor."""


class Join:
    """Finds the candidate's counterpart of a reference's tensor.

    Args:
      variables: the mapping of variables; everything that hangs on one follows it.
      names: the mapping of other names by quantity ("feed", "act", "metric"); names without an entry stay as they are.
      slots: the candidate's slot names.
      reference_slots: the reference's, where they are known: of each side's the only one that no name joins is joined too.
      loaded: names of the reference's variables that the candidate is given and that no run of the reference records.
    """

    def __init__(
        self,
        variables: VariableMapping,
        names: Mapping[str, Renaming],
        slots: Iterable[str],
        reference_slots: Iterable[str] = (),
        loaded: Iterable[str] = (),
    ) -> None:
        self._variables = variables
        self._names = dict(names)
        self._slots = tuple(slots)
        self.joined_slots = only_slots_left(tuple(reference_slots), self._slots)
        self._loaded = tuple(loaded)
        self._order = {pair.reference: place for place, pair in enumerate(variables.pairs)}
        self._candidates: dict[TensorKey, tuple[str, ...]] = {}

    def with_slots(self, slots: Mapping[str, str]) -> "Join":
        """Returns this with the reference's slots joined to those of the candidate, whatever their names say."""
        made = copy.copy(self)
        made.joined_slots, made._candidates = dict(slots), {}
        return made

    def candidates(self, key: TensorKey) -> tuple[str, ...]:
        """Returns the names in the candidate's trace that make up a tensor of the reference; none for a missing slot."""
        if key.quantity in PER_VARIABLE:
            found = self._candidates.get(key)
            if found is None:
                found = self._of_variable(key)
                # Every step has the same names. Of more than these each is asked for too seldom to be worth its memory.
                if len(self._candidates) < MOST_REMEMBERED:
                    self._candidates[key] = found
            return found
        # A feed, an activation or a metric: one tensor is one tensor there, in another layout at most.
        names, name = self._renaming(key)
        if names is None:
            return (str(key),)
        renamed = names.to_candidate(name)
        if key.quantity == "eval":
            renamed = format_evaluated(parse_evaluated(key.name)._replace(output=renamed))
        return (str(key._replace(name=renamed)),)

    def _of_variable(self, key: TensorKey) -> tuple[str, ...]:
        # A slot goes by both names, its own and its variable's: "slot/Momentum/w" is "slot/momentum_buffer/w.weight".
        slot = self.joined_slots.get(key.slot) or slot_partner(key.slot, self._slots) if key.slot else ""
        if slot is None:
            return ()
        pair = self._variables.pair(key.name)
        quantity = "var" if pair.frozen and key.quantity == "stat" else key.quantity
        return tuple([trace_name(quantity, n, tower=key.tower, slot=slot, section=key.section) for n in pair.candidate])

    @property
    def mapping(self) -> VariableMapping:
        """The joined variables."""
        return self._variables

    def parts(self, name: str) -> tuple[str, ...]:
        """Returns the candidate's names of what one of the reference's variables becomes."""
        return self._variables.pair(name).candidate

    def is_sum(self, name: str) -> bool:
        """Returns whether one of the reference's variables is a sum of several in the candidate."""
        return self._variables.pair(name).transform.is_sum

    def read(self, key: TensorKey, file: Held) -> Array | None:
        """Returns the candidate's counterpart in the reference's layout, or None where it has none."""
        texts = self.candidates(key)
        found = [text for text in texts if text in file]
        if key.quantity in PER_VARIABLE:
            pair = self._variables.pair(key.name)
            # Gradients and slots are linear in the loss, weights and averages are not: no constant is added to the
            # former.
            linear = key.quantity not in UPDATED
            # The frozen term of a sum has no gradient and no slot.
            # Half of a value is no value: what is missing is reported as missing, rather than read as zeros.
            if not found or (len(found) < len(pair.candidate) and not (linear and pair.transform.is_sum)):
                return None
            given = {name: file.read(text) for name, text in zip(pair.candidate, texts, strict=True) if text in found}
            return self._variables.to_reference(key.name, given, linear=linear)
        if not found:
            return None
        arrays = [file.read(name) for name in found]
        mapped, name = self._renaming(key)
        return mapped.backward(name, arrays[0]) if mapped else arrays[0]

    def write(self, key: TensorKey, value: Array) -> dict[str, Array]:
        """Returns a tensor of the reference under the candidate's names and in its layout; empty for a missing slot.

        Where the candidate holds it as a block of rows, this is the block: `write_all` puts blocks together.
        """
        found = self.candidates(key)
        if not found:
            return {}
        if key.quantity in PER_VARIABLE:
            names = self._variables.pair(key.name).candidate
            parts = self._variables.to_candidate(key.name, value, linear=key.quantity not in UPDATED)
            return {text: parts[name] for text, name in zip(found, names, strict=True)}
        mapped, name = self._renaming(key)
        return {found[0]: mapped.forward(name, value) if mapped else value}

    def write_all(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Returns tensors of the reference under the candidate's names and in its layout, blocks of rows put together.

        Slots that the candidate lacks are left out, blocks that are not among the tensors are zeros.
        """
        moved: dict[str, Array] = {}
        for text, value in tensors.items():
            key = parse_key(text)
            written = self.write(key, value)
            rows = self._variables.pair(key.name).transform.rows if key.quantity in PER_VARIABLE else None
            if rows is None:
                moved.update(written)
                continue
            for name, block in written.items():
                index, count = rows
                size = block.shape[0]
                # A copy per array, and never the caller's: blocks of several variables are written into it.
                whole = moved.setdefault(name, np.zeros((count * size, *block.shape[1:]), block.dtype))
                whole[index * size : (index + 1) * size] = block
        return moved

    @property
    def layouts(self) -> dict[str, str]:
        """Names of outputs whose layout was taken from the tensors, to its transform."""
        return {name: text for names in self._names.values() for name, text in names.layouts.items()}

    def take_layout(self, quantity: str, name: str, transform: str) -> None:
        """Has an output that no entry gives a transform, "act" or "metric", be carried by one."""
        self._names.setdefault(quantity, Renaming(quantity, {})).take_layout(name, transform)

    def _alone(self, key: TensorKey) -> bool:
        return key.quantity in PER_VARIABLE and key.name in self._order and not self.parts(key.name)

    def _renaming(self, key: TensorKey) -> tuple[Renaming | None, str]:
        """Returns what renames a tensor that hangs on no variable, and the name that it goes by there."""
        if key.quantity != "eval":
            return self._names.get(key.quantity), key.name
        # What is evaluated are the outputs of training, activations and metrics, which are mapped already.
        output = parse_evaluated(key.name).output or ""
        known = [names for names in map(self._names.get, ("act", "metric")) if names is not None and output in names]
        return (known[0], output) if known else (None, key.name)

    def unjoined(self, reference: TensorFile, candidate: TensorFile) -> list[str]:
        """Returns the candidate's tensors that no tensor of the reference is joined to.

        A gradient of zeros is none, and slots of a parameter without a gradient never move, of which TensorFlow makes none:
        they are left out. So is what hangs on buffers and parameters that the mapping leaves to the candidate, or that
        are loaded alone.
        """
        used = {name for text in reference.names() for name in self.candidates(parse_key(text))}
        aside = {variable.name for variable in self._variables.kept}
        aside.update(name for each in self._loaded for name in self.parts(each))
        keys = [(name, parse_key(name)) for name in candidate.names() if name not in used]
        return [name for name, key in keys if not _is_of(key, aside) and not _at_rest(key, candidate)]

    def ordered(self, texts: Iterable[str]) -> list[tuple[TensorKey, str]]:
        """Returns the reference's names in the order in which a step computes them.

        Gradients come in the order of the backward pass, the last variable first: an error spreads from there. What hangs on
        a variable that is declared to have no counterpart is left out.
        """
        keys = [(key, text) for text in texts if not self._alone(key := parse_key(text))]
        # Activations and losses are written in order of execution, so their place in the file is when they were
        # computed.
        places = {text: place for place, (_, text) in enumerate(keys)}

        def order(item: tuple[TensorKey, str]) -> tuple[int, tuple[int, ...], int]:
            key, text = item
            # Files are written in an order of each side's own: variables go by the mapping, which is the model's order.
            place = self._order.get(key.name, 0) if key.quantity in PER_VARIABLE else places[text]
            backwards = key.quantity in GRADIENTS
            return EXECUTION_RANK[key.quantity], tower_order(key.tower), -place if backwards else place

        return sorted(keys, key=order)


def _is_of(key: TensorKey, variables: set[str]) -> bool:
    return key.quantity in PER_VARIABLE and key.name in variables


def _at_rest(key: TensorKey, file: TensorFile) -> bool:
    if key.quantity in GRADIENTS:
        # Of a parameter that no loss reaches DistributedDataParallel makes zeros, and TensorFlow no gradient at all.
        return not file.read(key).any()
    if key.quantity != "slot":
        return key.quantity in OPTIONAL
    # The live towers' gradients belong to no section, a recorded script's to that of its optimizer.
    gradient = key.of("grad")
    known = [each for each in (gradient, gradient._replace(section="")) if each in file]
    return not any(file.read(each).any() for each in known) and (not known or not file.read(key).any())
