"""The ports: one that is right, and what combines its gradients wrongly, as a step, as a hook of DDP's, or in its loss.

The table looks up "ports:step_<way>", "ports:loss_<way>", "ports:wrapped_<way>_<kind>" and "ports:bare_<way>_<kind>",
where the kind is "dense" or "sparse".
"""

import contextlib
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import like_tf

CLIP = 0.05
TINY_BUCKETS = 1e-6  # MiB: every parameter has a bucket of its own, whatever rebuilds them
KINDS = ("dense", "sparse")


class Model(nn.Module):
    """Two words ``[shard, 2]`` looked up and added, then a dense layer."""

    def __init__(self, kind="dense"):
        super().__init__()
        self.table = nn.Embedding(10, 4, sparse=kind == "sparse")
        self.kernel = nn.Linear(4, 3, bias=False)

    def forward(self, words):
        """Maps words ``[shard, 2]`` to ``[shard, 3]``."""
        return self.kernel(self.table(words).sum(1))


def dense():
    """Returns the right model with dense gradients."""
    return Model("dense")


def sparse():
    """Returns the right model whose table has rows for a gradient."""
    return Model("sparse")


# Losses ---------------------------------------------------------------------------------------------------------------


def loss(model, words, targets):
    """Returns the mean squared error over this rank's shard."""
    return (model(words) - targets).square().mean()


def past_the_wrapper(model, words, targets):
    """Calls the module inside of DDP."""
    return loss(model.module, words, targets)


def without_sync(model, words, targets):
    """Leaves `no_sync` on."""
    with model.no_sync():
        return loss(model, words, targets)


def without_kernel_on_rank_1(model, words, targets):
    """Gives the kernel no gradient on one rank: zeros, since DDP waits for one."""
    if dist.get_rank() == 1:
        model.module.kernel.weight.register_hook(torch.zeros_like)
    return loss(model, words, targets)


LOSSES = {
    "module_called": past_the_wrapper,
    "no_sync_left_on": without_sync,
    "missing_on_one_rank": without_kernel_on_rank_1,
}
IGNORED = {"kernel_left_out": ["kernel.weight"], "table_left_out": ["table.weight"]}

# What becomes of one gradient, between the backward pass and the update ---------------------------------------------------


def total(gradient, **how):
    """Returns the sum over the ranks of one gradient, dense or rows."""
    found = gradient.clone()
    dist.all_reduce(found, **how)
    return found


def mean(gradient, first=True):
    """Returns what DDP makes of it."""
    return total(gradient) / dist.get_world_size()


def largest(gradient, first):
    """Returns the largest of the ranks', element by element."""
    found = total(gradient.to_dense(), op=dist.ReduceOp.MAX)
    return found.to_sparse(1) if gradient.is_sparse else found


def stale(gradient, first, kept={}):  # noqa: B006
    """Returns the mean of the step before."""
    place, now = (first, gradient.dtype), mean(gradient)
    before, kept[place] = kept.get(place, now), now
    return before


def half(gradient, first):
    """Returns the mean where only half of it is shared."""
    own, found = gradient.to_dense(), mean(gradient).to_dense().clone()
    found.view(-1)[found.numel() // 2 :] = own.reshape(-1)[found.numel() // 2 :]
    return found.to_sparse(1) if gradient.is_sparse else found


@functools.cache
def alone():
    """Returns a group of this rank only; all ranks call it."""
    return [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]


def clipped(gradient):
    """Returns a gradient clipped by its norm, as TensorFlow clips it."""
    if not gradient.is_sparse:
        return like_tf.clip_by_norm(gradient, CLIP)
    summed = gradient.coalesce()
    return torch.sparse_coo_tensor(summed.indices(), like_tf.clip_by_norm(summed.values(), CLIP), gradient.shape)


EXCHANGES = {
    "sum_for_mean": lambda gradient, first: total(gradient),
    "averaged_twice": lambda gradient, first: mean(gradient) / dist.get_world_size(),
    "reduced_twice": lambda gradient, first: total(mean(gradient)),
    "one_rank_too_many": lambda gradient, first: total(gradient) / (dist.get_world_size() + 1),
    "stale": stale,
    "weighted": lambda gradient, first: mean(gradient * (2 * (dist.get_rank() + 1) / (dist.get_world_size() + 1))),
    "first_rank_only": lambda gradient, first: total(gradient * float(dist.get_rank() == 0)),
    "last_rank_only": lambda gradient, first: total(gradient * float(dist.get_rank() == dist.get_world_size() - 1)),
    "largest": largest,
    "one_rank_silent": lambda gradient, first: mean(gradient * float(dist.get_rank() != 1)),
    "one_rank_alone": lambda gradient, first: (mean(gradient), gradient)[dist.get_rank() == 1],
    "first_parameter_only": lambda gradient, first: mean(gradient) if first else gradient,
    "last_parameter_only": lambda gradient, first: gradient if first else mean(gradient),
    "rows_summed": lambda gradient, first: total(gradient) if first else mean(gradient),
    "half_of_a_bucket": half,
    "half_precision": lambda gradient, first: mean(gradient.to(torch.bfloat16).to(gradient.dtype)),
    "group_of_one": lambda gradient, first: total(gradient, group=alone()),
    "not_waited_for": lambda gradient, first: gradient.clone(),
    "clipped_too_early": lambda gradient, first: mean(clipped(gradient)),
    "clipped_too_late": lambda gradient, first: clipped(mean(gradient)),
}

# Steps ------------------------------------------------------------------------------------------------------------------


def by_hand(exchange):
    """Returns a step that exchanges gradients itself, one by one."""

    def step(model, optimizer, scheduler, **inputs):
        optimizer.zero_grad()
        with model.no_sync():
            value = loss(model, **inputs)
            value.backward()
        for parameter in model.parameters():
            parameter.grad = exchange(parameter.grad, parameter is model.module.table.weight)
        optimizer.step()
        return value

    return step


def plain(of=loss, factor=1.0, clears=True):
    """Returns a step that leaves all to DDP."""

    def step(model, optimizer, scheduler, **inputs):
        if clears:
            optimizer.zero_grad()
        value = of(model, **inputs)
        (value * factor).backward()
        optimizer.step()
        return value

    return step


def in_halves(model, optimizer, scheduler, words, targets):
    """Accumulates over two micro-batches, as it should."""
    return _halves(model, optimizer, words, targets, 0)


def last_half_alone(model, optimizer, scheduler, words, targets):
    """Accumulates over two micro-batches, and leaves the last one on its rank."""
    return _halves(model, optimizer, words, targets, 1)


def _halves(model, optimizer, words, targets, unsynced):
    optimizer.zero_grad()
    value = 0.0
    for number, (some, wanted) in enumerate(zip(words.chunk(2), targets.chunk(2), strict=True)):
        with model.no_sync() if number == unsynced else contextlib.nullcontext():
            part = loss(model, some, wanted) / 2
            part.backward()
        value = value + part.detach()
    return _updated(optimizer, value)


def _updated(optimizer, value):
    optimizer.step()
    return value


def after_the_update(model, optimizer, scheduler, **inputs):
    """Shares gradients once the optimizer has used them."""
    optimizer.zero_grad()
    with model.no_sync():
        value = loss(model, **inputs)
        value.backward()
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = mean(parameter.grad)
    return value


def weights_shared(model, optimizer, scheduler, **inputs):
    """Averages the weights in the place of the gradients."""
    value = after_the_update(model, optimizer, scheduler, **inputs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(mean(parameter.detach()))
    return value


def second_optimizer_alone(model, optimizer, scheduler, words, targets):
    """Has two losses, of which the second is past the wrapper."""
    optimizer.zero_grad()
    value = loss(model, words, targets)
    value.backward()
    kernel = model.module.kernel.weight
    (kernel.grad,) = torch.autograd.grad(loss(model.module, words, targets), [kernel])
    optimizer.step()
    return value.detach()


STEPS = {
    "right": plain(),
    "right_in_halves": in_halves,
    "right_by_hand": by_hand(mean),
    "right_clipping": by_hand(lambda gradient, first: mean(clipped(gradient))),
    "loss_divided": plain(factor=0.5),
    "gradients_kept": plain(clears=False),
    "last_half_alone": last_half_alone,
    "after_the_update": after_the_update,
    "weights_shared": weights_shared,
    "second_optimizer_alone": second_optimizer_alone,
    **{way: plain(of) for way, of in LOSSES.items()},
    **dict.fromkeys(IGNORED, plain()),
    **{way: by_hand(exchange) for way, exchange in EXCHANGES.items()},
}

# Models and wrappers ----------------------------------------------------------------------------------------------------


def bare(way, kind):
    """Returns the module, with what a way excepts from DDP."""
    model = Model(kind)
    if way in IGNORED:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, IGNORED[way])
    return model


def wrapped(way, kind):
    """Returns the module in the port's own wrapper, with its own hook."""
    group = alone() if way == "group_of_one" else None
    model = DistributedDataParallel(bare(way, kind), process_group=group, bucket_cap_mb=TINY_BUCKETS)
    exchange = {"right_hook": mean, "right_clipping": EXCHANGES["clipped_too_early"]}.get(way) or EXCHANGES.get(way)
    if exchange is not None and group is None:
        model.register_comm_hook((exchange, model.module.table.weight), hook)
    return model


def hook(state, bucket):
    """Exchanges one bucket."""
    exchange, table = state
    whole = bucket.buffer()
    pieces = [whole] if whole.is_sparse else torch.split(whole, [each.numel() for each in bucket.parameters()])
    parameters = bucket.parameters() if len(pieces) > 1 else bucket.parameters()[:1]
    found = [exchange(piece, each is table) for piece, each in zip(pieces, parameters, strict=True)]
    done = torch.futures.Future()
    done.set_result(found[0] if len(found) == 1 else torch.cat(found))
    return done


def __getattr__(name):
    what, _, rest = name.partition("_")
    if what == "step" and rest in STEPS:
        return STEPS[rest]
    if what == "loss":
        return LOSSES.get(rest, loss)
    way, _, kind = rest.rpartition("_")
    if what in ("bare", "wrapped") and kind in KINDS:
        return functools.partial({"bare": bare, "wrapped": wrapped}[what], way, kind)
    raise AttributeError(name)
