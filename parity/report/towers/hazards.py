"""Where in a recorded graph a hazard is: the part of the step that it is about, and the ops and variables that it names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from parity.report.towers.ops import Ops, shown
from parity.trace.escape import one_line
from parity.trace.graph import RecordedGraph

# As `docs/record.md` lists the recorder's hazards.
PART_OF_HAZARD: Mapping[str, str] = {
    "sum_not_mean": "combination",
    "sum_of_scaled_losses": "combination",
    "sparse_sum": "combination",
    "positional_pairing": "combination",
    "gradient_missing_in_some_towers": "combination",
    "changed_before_combining": "combination",
    "norm_of_repeated_rows": "combination",
    "same_data": "shared",
    "overlapping_data": "shared",
    "uneven_shards": "shared",
    "batch_trained_twice": "shared",
    "towers_not_separated": "forward",
    "loss_is_no_scalar": "forward",
    "decay_counted": "forward",
    "regularisation_lost": "forward",
    "last_towers_loss": "forward",
    "ungated_loss": "forward",
    "unordered_statistics": "after",
    "statistics_of_all_towers": "after",
    "statistics_of_another_tower": "after",
    "statistics_not_updated": "after",
    "global_step_not_counted": "update",
    "global_step_counted_twice": "update",
    "ungated_update": "update",
    "ungated_state": "update",
    "gradient_not_applied": "update",
    "unordered_average": "update",
    "trained_in_threads": "update",
    "trainable_slots": "variables",
    "changed_between_steps": "variables",
}
NAMED_OP = re.compile(r"[\w.\-]+(?:/[\w.\-]+)*")
MOST_HAZARDS = 200  # the recorder knows some 40 names
MOST_OPS_OF_A_HAZARD = 50  # ops and variables of one
LONGEST_OF_A_HAZARD = 4000  # characters of one text


class PlacedHazard(NamedTuple):
    """A hazard and its place.

    Fields:
      name, evidence, meaning: as the recorder has them.
      part: of the step, as in `PARTS`; "" where the name is not known.
      ops: numbers of the ops and variables that its evidence names.
    """

    name: str
    evidence: str
    meaning: str
    part: str
    ops: list[int]


def placed_hazards(facts: Mapping[str, Any], graph: RecordedGraph, ops: Ops) -> list[PlacedHazard]:
    """Returns the hazards that a trace says of itself; what has not the form of one is left out."""
    listed = facts.get("hazards")
    names = {name.partition("/")[2]: variable for name, variable in graph.variables.items()}
    found = []
    for each in listed[:MOST_HAZARDS] if isinstance(listed, list) else ():
        texts = [each.get(field) for field in ("name", "evidence", "meaning")] if isinstance(each, dict) else [None]
        if all(isinstance(text, str) for text in texts):
            name, evidence, meaning = (str(text)[:LONGEST_OF_A_HAZARD] for text in texts)
            of = [names.get(word.strip("."), word.strip(".")) for word in NAMED_OP.findall(evidence)]
            named: Sequence[int] = list(dict.fromkeys(ops.of_tensors(of)))[:MOST_OPS_OF_A_HAZARD]
            found.append(
                PlacedHazard(
                    shown(name), one_line(evidence), one_line(meaning), PART_OF_HAZARD.get(name, ""), list(named)
                )
            )
    return found
