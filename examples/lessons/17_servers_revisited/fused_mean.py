"""What Horovod's DistributedOptimizer does, on torch's own all-reduce: hooks, fusion, the mean, a wait in `step`."""

import torch
import torch.distributed as dist


class DistributedOptimizer:
    """Combines gradients over ranks while backward still runs, and waits for them before the update.

    Args:
      optimizer: the one that it stands around.
      parameters: of the model.
      passes: backward passes of a step; the gradient is sent in the last of them.
      threshold: bytes that are sent together at most.
    """

    def __init__(self, optimizer, parameters, passes=1, threshold=64 * 2**20):
        self.optimizer, self.parameters, self.passes, self.threshold = optimizer, list(parameters), passes, threshold
        self.left = dict.fromkeys(self.parameters, passes)
        self.waiting, self.running, self.sent = [], [], []
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self.is_ready)

    def is_ready(self, parameter):
        self.left[parameter] -= 1
        if self.left[parameter]:
            return
        if sum(each.grad.nbytes for each in [*self.waiting, parameter]) > self.threshold:
            self.send()
        self.waiting.append(parameter)

    def send(self):
        if self.waiting:
            buffer = torch.cat([each.grad.reshape(-1) for each in self.waiting])
            self.running.append((self.waiting, buffer, dist.all_reduce(buffer, async_op=True)))
            self.sent.append(buffer.nbytes)
            self.waiting = []

    def synchronize(self):
        self.send()
        for parameters, buffer, work in self.running:
            work.wait()
            means = (buffer / dist.get_world_size()).split([each.numel() for each in parameters])
            for each, mean in zip(parameters, means, strict=True):
                each.grad.copy_(mean.view_as(each))
        self.running, self.left = [], dict.fromkeys(self.parameters, self.passes)

    def step(self, synchronized=False):
        if not synchronized:
            self.synchronize()
        self.optimizer.step()
        self.optimizer.zero_grad()
