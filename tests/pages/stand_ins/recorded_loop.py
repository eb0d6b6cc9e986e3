import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import torch_ddp
from parity.trace import Trace

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
ddp = DistributedDataParallel(torch.nn.Linear(2, 3))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
loader = [(torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))] * 2

# the block

assert Trace("trace_torch").step_numbers == [0, 1]
