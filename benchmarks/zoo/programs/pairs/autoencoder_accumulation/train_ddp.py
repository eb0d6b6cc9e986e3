"""Denoising autoencoder with DistributedDataParallel: gradients of micro-batches accumulated under no_sync."""

import argparse
import contextlib
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Waves(Dataset):
    def __init__(self, size=192):
        rng = np.random.default_rng(33)
        waves = np.sin(np.arange(16) * rng.uniform(0.2, 1.0, (size, 2, 1)) + rng.uniform(0, 6.28, (size, 2, 1)))
        self.clean = (0.5 + 0.5 * waves[:, 0, :, None] * waves[:, 1, None, :])[:, None].astype(np.float32)
        self.noisy = (self.clean + 0.2 * rng.standard_normal(self.clean.shape)).astype(np.float32)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        return {"noisy": torch.from_numpy(self.noisy[i]), "clean": torch.from_numpy(self.clean[i])}


class AutoEncoder(nn.Module):
    """The code's inputs and the projection's outputs are in the order channel, height, width."""

    def __init__(self, code=10):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 6, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(6, 8, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(8 * 4 * 4, code),
        )
        self.decoder = nn.Sequential(
            nn.Tanh(),
            nn.Linear(code, 8 * 4 * 4),
            nn.ReLU(),
            nn.Unflatten(1, (8, 4, 4)),
            nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(6, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = int(os.environ["RANK"])
        dataset = Waves()
        self.sampler = DistributedSampler(dataset)
        micro = args.batch_size // args.accumulation_steps
        self.loader = DataLoader(dataset, batch_size=micro, sampler=self.sampler, drop_last=True)
        self.model = DDP(AutoEncoder())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.8, nesterov=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: 0.1 + 0.9 * (1 - min(step, 10) / 10)
        )
        self.criterion = nn.MSELoss()

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = 0.0
        for i, batch in enumerate(self.loader):
            last = (i + 1) % self.args.accumulation_steps == 0
            with contextlib.nullcontext() if last else self.model.no_sync():
                loss = self.criterion(self.model(batch["noisy"]), batch["clean"]) / self.args.accumulation_steps
                loss.backward()
            total += loss.item()
            if last:
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
                if self.rank == 0:
                    print(f"epoch {epoch} micro-batch {i}: loss {total:.6f}", flush=True)
                total = 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8, help="per process and update")
    parser.add_argument("--accumulation-steps", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group(backend="gloo")
    torch.manual_seed(9)
    trainer = Trainer(args)
    for epoch in range(args.epochs):
        trainer.run_epoch(epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
