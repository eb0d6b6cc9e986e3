import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp import like_tf

# the block

assert Block(4)(torch.ones(2, 4, 8, 8)).shape == (2, 4, 8, 8)
