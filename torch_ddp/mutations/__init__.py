"""Porting bugs to plant in right ports, to see what a comparison would have caught."""

# Importing a family registers its mutations.
from torch_ddp.mutations import forward, gradients, inputs, loss, optimizer  # noqa: F401
from torch_ddp.mutations.registry import MUTATIONS as MUTATIONS
from torch_ddp.mutations.registry import Mutation as Mutation
from torch_ddp.mutations.registry import Port as Port
from torch_ddp.mutations.registry import mutation as mutation
