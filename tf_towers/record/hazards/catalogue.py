"""Finds in the graph what is known to go wrong on the way to DistributedDataParallel."""

from tf_towers.record.hazards.gradients import OF_GRADIENTS
from tf_towers.record.hazards.losses import OF_LOSSES
from tf_towers.record.hazards.state import OF_STATE


def hazards_in_graph(plan, variables):
    """Returns the list of `Hazard` that the graph of a training run shows.

    Args:
      plan: the `Plan` of the run.
      variables: the `Variables` of its graph.
    """
    found = []
    for section in plan.sections:
        for look in OF_GRADIENTS + OF_LOSSES:
            found += look(section, plan)
    for look in OF_STATE:
        found += look(plan, variables)
    return found
