import torch
import torch.nn as nn
import torch.nn.functional as F

HEIGHT, WIDTH = 12, 16
CATEGORIES = 4
CODES = 2
LAMBDA_CATEGORICAL = 1.0
LAMBDA_CONTINUOUS = 0.3


class BatchNorm(nn.Module):
    """Batch norm of vectors and maps whose moving variance takes the biased variance, as tf.layers' unfused one does."""

    def __init__(self, num_features, eps=1e-3, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=[0, *range(2, x.dim())], unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class Generator(nn.Module):
    def __init__(self, z_size, filters=7):
        super().__init__()
        self.size = (2 * filters, HEIGHT // 4, WIDTH // 4)
        flat = self.size[0] * self.size[1] * self.size[2]
        self.fc1 = nn.Linear(z_size, 24, bias=False)
        self.fc1_bn = BatchNorm(24)
        self.fc2 = nn.Linear(24, flat, bias=False)
        self.fc2_bn = BatchNorm(flat)
        self.deconv1 = nn.ConvTranspose2d(2 * filters, filters, 4, stride=2, padding=1, bias=False)
        self.deconv1_bn = BatchNorm(filters)
        self.deconv2 = nn.ConvTranspose2d(filters, 1, 4, stride=2, padding=1)

    def forward(self, z):
        x = F.relu(self.fc1_bn(self.fc1(z)))
        x = F.relu(self.fc2_bn(self.fc2(x)))
        x = x.view(-1, *self.size)
        x = F.relu(self.deconv1_bn(self.deconv1(x)))
        return torch.sigmoid(self.deconv2(x))


class Discriminator(nn.Module):
    def __init__(self, filters=6, hidden=20):
        super().__init__()
        self.conv1 = nn.Conv2d(1, filters, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(filters, 2 * filters, 4, stride=2, padding=1, bias=False)
        self.conv2_bn = BatchNorm(2 * filters)
        self.fc = nn.Linear(2 * filters * (HEIGHT // 4) * (WIDTH // 4), hidden, bias=False)
        self.fc_bn = BatchNorm(hidden)
        self.logit = nn.Linear(hidden, 1)

    def forward(self, images):
        x = F.leaky_relu(self.conv1(images), 0.1)
        x = F.leaky_relu(self.conv2_bn(self.conv2(x)), 0.1)
        hidden = F.leaky_relu(self.fc_bn(self.fc(x.flatten(1))), 0.1)
        return self.logit(hidden), hidden


class QHead(nn.Module):
    def __init__(self, hidden=20, width=13):
        super().__init__()
        self.fc = nn.Linear(hidden, width, bias=False)
        self.fc_bn = BatchNorm(width)
        self.codes = nn.Linear(width, CATEGORIES + 2 * CODES)

    def forward(self, hidden):
        out = self.codes(F.leaky_relu(self.fc_bn(self.fc(hidden)), 0.1))
        logits, mean, log_var = out.split([CATEGORIES, CODES, CODES], dim=1)
        return logits, mean, log_var


class Model(nn.Module):
    def __init__(self, noise_size=9):
        super().__init__()
        self.generator = Generator(CATEGORIES + CODES + noise_size)
        self.discriminator = Discriminator()
        self.q_head = QHead()

    def forward(self, images, categories, codes, noise):
        one_hot = F.one_hot(categories, CATEGORIES).to(noise.dtype)
        fake = self.generator(torch.cat([one_hot, codes, noise], dim=1))
        real = images.permute(0, 3, 1, 2)
        logits, hidden = self.discriminator(torch.cat([real, fake]))
        logit_real, logit_fake = logits.chunk(2)
        return fake, logit_real, logit_fake, self.q_head(hidden.chunk(2)[1])


def adversarial(logits, real):
    target = torch.ones_like(logits) if real else torch.zeros_like(logits)
    return F.binary_cross_entropy_with_logits(logits, target)


def loss(model, images, categories, codes, noise):
    categories = categories.long()
    fake, logit_real, logit_fake, (q_logits, q_mean, q_log_var) = model(images, categories, codes, noise)
    d_adv = adversarial(logit_real, True) + adversarial(logit_fake, False)
    g_adv = adversarial(logit_fake, True)
    nll_cat = F.cross_entropy(q_logits, categories)
    posterior = torch.distributions.Normal(q_mean, torch.exp(0.5 * q_log_var))
    nll_cont = -posterior.log_prob(codes).sum(dim=1).mean()
    mi = LAMBDA_CATEGORICAL * nll_cat + LAMBDA_CONTINUOUS * nll_cont
    return g_adv + mi, {
        "fake": fake, "logit_real": logit_real, "logit_fake": logit_fake, "q_logits": q_logits, "q_mean": q_mean,
        "nll_cat": nll_cat, "nll_cont": nll_cont, "d_loss": d_adv + mi,
    }
