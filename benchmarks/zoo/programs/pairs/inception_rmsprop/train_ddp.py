"""Inception-like network with DistributedDataParallel and TensorFlow's RMSProp."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class RMSpropTF(torch.optim.Optimizer):
    """Epsilon is inside the root, mean squares begin with one, and the rate goes into the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.9, eps=1.0):
        super().__init__(params, {"lr": lr, "alpha": alpha, "momentum": momentum, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                root = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, root, value=group["lr"])
                p.sub_(buf)


class ConvReLU(nn.Sequential):
    def __init__(self, cin, cout, size, stride=1, padding="same"):
        super().__init__(nn.Conv2d(cin, cout, size, stride=stride, padding=padding), nn.ReLU())
        nn.init.trunc_normal_(self[0].weight, std=0.1)
        nn.init.zeros_(self[0].bias)


class Mixed(nn.Module):
    def __init__(self, cin):
        super().__init__()
        self.branch1x1 = ConvReLU(cin, 4, 1)
        self.branch5x5 = nn.Sequential(ConvReLU(cin, 3, 1), ConvReLU(3, 3, (1, 5)), ConvReLU(3, 6, (5, 1)))
        pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        self.branch_pool = nn.Sequential(pool, ConvReLU(cin, 4, 1))

    def forward(self, x):
        return torch.cat([self.branch1x1(x), self.branch5x5(x), self.branch_pool(x)], dim=1)


class Inception(nn.Module):
    def __init__(self, num_classes=7):
        super().__init__()
        self.stem = ConvReLU(3, 8, 3, stride=2, padding=0)
        self.mixed0 = Mixed(8)
        self.aux = nn.Sequential(nn.AvgPool2d(5, 3), ConvReLU(14, 4, 1), nn.Flatten(), nn.Linear(4, num_classes))
        self.mixed1 = Mixed(14)
        self.classifier = nn.Linear(14, num_classes)

    def forward(self, x):
        x = self.mixed0(self.stem(x))
        aux = self.aux(x)
        return self.classifier(self.mixed1(x).mean((2, 3))), aux


class Prototypes(Dataset):
    def __init__(self, size, num_classes=7):
        g = torch.Generator().manual_seed(8)
        self.targets = torch.randint(num_classes, (size,), generator=g)
        self.data = torch.randn(num_classes, 3, 15, 15, generator=g)[self.targets]
        self.data += 0.3 * torch.randn(self.data.shape, generator=g)

    def __getitem__(self, i):
        return {"image": self.data[i], "label": self.targets[i]}

    def __len__(self):
        return len(self.targets)


def train(args):
    torch.manual_seed(21 + dist.get_rank())  # DistributedDataParallel starts all ranks from rank 0's weights
    dataset = Prototypes(18 * args.batch_size)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
    model = DDP(Inception())
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = RMSpropTF(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=args.gamma)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            logits, aux_logits = model(batch["image"])
            loss = criterion(logits, batch["label"]) + 0.4 * criterion(aux_logits, batch["label"])
            loss.backward()
            optimizer.step()
            scheduler.step()
            running = loss.detach() / dist.get_world_size()
            dist.all_reduce(running)
            if dist.get_rank() == 0:
                print(f"epoch {epoch} loss {running:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6, help="per process")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--gamma", type=float, default=0.16)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    train(arguments)
    dist.destroy_process_group()
