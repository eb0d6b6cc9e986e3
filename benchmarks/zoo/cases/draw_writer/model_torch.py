import torch
from torch import nn

HEIGHT, WIDTH = 10, 14
EPS = 1e-8


def lstm_cell(inputs, hidden):
    """An nn.LSTMCell with one trained bias; the other is a constant, 1 for the forget gate."""
    cell = nn.LSTMCell(inputs, hidden)
    nn.init.zeros_(cell.bias_ih)
    nn.init.zeros_(cell.bias_hh)
    nn.init.ones_(cell.bias_hh[hidden:2 * hidden])
    cell.bias_hh.requires_grad_(False)
    return cell


class GaussianWindow(nn.Module):
    """A grid of n by n gaussian filters, placed by a state."""

    def __init__(self, state, n):
        super().__init__()
        self.n = n
        self.place = nn.Linear(state, 5)

    def filters(self, centre, stride, variance, size):
        offsets = torch.arange(self.n, dtype=centre.dtype, device=centre.device) - self.n / 2 - 0.5
        means = (centre + offsets * stride).unsqueeze(2)
        pixels = torch.arange(size, dtype=centre.dtype, device=centre.device)
        bank = torch.exp(-(pixels - means).square() / (2 * variance.unsqueeze(2)))
        return bank / bank.sum(dim=2, keepdim=True).clamp(min=EPS)

    def forward(self, state):
        x, y, log_variance, log_stride, log_gain = self.place(state).unbind(1)
        x, y = (WIDTH + 1) / 2 * (x + 1), (HEIGHT + 1) / 2 * (y + 1)
        stride = (max(WIDTH, HEIGHT) - 1) / (self.n - 1) * log_stride.exp()
        variance = log_variance.exp()
        columns = self.filters(x.unsqueeze(1), stride.unsqueeze(1), variance.unsqueeze(1), WIDTH)
        rows = self.filters(y.unsqueeze(1), stride.unsqueeze(1), variance.unsqueeze(1), HEIGHT)
        return rows, columns, log_gain.exp().view(-1, 1, 1)


class Reader(nn.Module):
    def __init__(self, state, n):
        super().__init__()
        self.window = GaussianWindow(state, n)

    def forward(self, image, canvas, state):
        rows, columns, gain = self.window(state)
        error = image - torch.sigmoid(canvas)
        pair = torch.stack([image, error], dim=1)
        glimpse = gain.unsqueeze(1) * torch.einsum("brh,bkhw,bcw->bkrc", rows, pair, columns)
        return glimpse.flatten(1)


class Writer(nn.Module):
    def __init__(self, state, n):
        super().__init__()
        self.n = n
        self.patch = nn.Linear(state, n * n)
        self.window = GaussianWindow(state, n)

    def forward(self, state):
        patch = self.patch(state).view(-1, self.n, self.n)
        rows, columns, gain = self.window(state)
        return rows.transpose(1, 2) @ patch @ columns / gain


class Model(nn.Module):
    def __init__(self, hidden_enc=26, hidden_dec=22, read=3, write=4, latent=6):
        super().__init__()
        self.hidden_enc, self.hidden_dec = hidden_enc, hidden_dec
        self.reader = Reader(hidden_dec, read)
        self.encoder = lstm_cell(2 * read * read + hidden_dec, hidden_enc)
        self.mean = nn.Linear(hidden_enc, latent)
        self.log_std = nn.Linear(hidden_enc, latent)
        self.decoder = lstm_cell(latent, hidden_dec)
        self.writer = Writer(hidden_dec, write)

    def forward(self, images, noise):
        canvas = torch.zeros_like(images)
        h_enc = c_enc = images.new_zeros(len(images), self.hidden_enc)
        h_dec = c_dec = images.new_zeros(len(images), self.hidden_dec)
        glimpses, means, log_stds = [], [], []
        for draw in noise.unbind(1):
            glimpse = self.reader(images, canvas, h_dec)
            h_enc, c_enc = self.encoder(torch.cat([glimpse, h_dec], dim=1), (h_enc, c_enc))
            mean, log_std = self.mean(h_enc), self.log_std(h_enc)
            latent = mean + log_std.exp() * draw
            h_dec, c_dec = self.decoder(latent, (h_dec, c_dec))
            canvas = canvas + self.writer(h_dec)
            glimpses.append(glimpse)
            means.append(mean)
            log_stds.append(log_std)
        return canvas, torch.stack(glimpses, 1), torch.stack(means, 1), torch.stack(log_stds, 1)


def loss(model, images, noise):
    canvas, glimpses, mean, log_std = model(images, noise)
    p = torch.sigmoid(canvas)
    log_likelihood = images * torch.log(p + EPS) + (1 - images) * torch.log(1 - p + EPS)
    reconstruction_loss = -log_likelihood.sum(dim=(1, 2)).mean()
    divergence = 0.5 * (mean.square() + log_std.exp().square() - 2 * log_std).sum(dim=2) - 0.5
    latent_loss = divergence.sum(dim=1).mean()
    outputs = {"glimpses": glimpses, "reconstruction": p, "Lx": reconstruction_loss, "Lz": latent_loss}
    return reconstruction_loss + latent_loss, outputs
