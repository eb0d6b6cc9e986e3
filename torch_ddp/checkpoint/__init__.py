"""Saves the whole state of a training, whole or not at all, and finds the newest whole one again."""

from torch_ddp.checkpoint.checkpoints import Checkpoints as Checkpoints
from torch_ddp.checkpoint.checkpoints import Progress as Progress
from torch_ddp.checkpoint.files import newest_whole as newest_whole
from torch_ddp.checkpoint.files import read_whole as read_whole
from torch_ddp.checkpoint.files import write_whole as write_whole
from torch_ddp.checkpoint.generators import random_state as random_state
from torch_ddp.checkpoint.generators import seed_all as seed_all
from torch_ddp.checkpoint.generators import set_random_state as set_random_state
from torch_ddp.checkpoint.masters import MasterWeights as MasterWeights
