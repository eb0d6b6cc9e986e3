"""Evaluates over ranks so that every example counts once, and combines what the ranks found."""

from torch_ddp.evaluation.evaluate import evaluate as evaluate
from torch_ddp.evaluation.exact_sampler import ExactSampler as ExactSampler
from torch_ddp.evaluation.ragged import gather_by_index as gather_by_index
from torch_ddp.evaluation.ragged import gather_ragged as gather_ragged
from torch_ddp.evaluation.reduce import mean_over_ranks as mean_over_ranks
from torch_ddp.evaluation.reduce import reduce_tensor as reduce_tensor
from torch_ddp.evaluation.statistics import broadcast_statistics as broadcast_statistics
