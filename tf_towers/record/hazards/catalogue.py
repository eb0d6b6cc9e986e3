"""Finds in the graph what is known to go wrong on the way to DistributedDataParallel."""

from typing import List

from tf_towers.record.hazards.gradients import OF_GRADIENTS
from tf_towers.record.hazards.losses import OF_LOSSES
from tf_towers.record.hazards.state import OF_STATE
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.plan import RecordPlan
from tf_towers.record.variables import Variables


def hazards_in_graph(plan: RecordPlan, variables: Variables) -> List[Hazard]:
    """Returns the list of `Hazard` that the graph of a training run shows.

    Args:
      plan: the `RecordPlan` of the run.
      variables: the `Variables` of its graph.
    """
    found = []
    for section in plan.sections:
        for look in OF_GRADIENTS + OF_LOSSES:
            found += look(section, plan)
    for look_at_state in OF_STATE:
        found += look_at_state(plan, variables)
    return found
