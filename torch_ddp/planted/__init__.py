"""Porting bugs to plant in right ports, to see what a comparison would have caught."""

from torch_ddp.planted import aggregation, batch_norm, data, loss, net, optimizer, recurrent
from torch_ddp.planted.registry import MUTATIONS as MUTATIONS
from torch_ddp.planted.registry import Mutation as Mutation
from torch_ddp.planted.registry import Port as Port
from torch_ddp.planted.registry import mutation as mutation

# Importing a family registers its mutations.
FAMILIES = (aggregation, data, loss, net, batch_norm, recurrent, optimizer)
