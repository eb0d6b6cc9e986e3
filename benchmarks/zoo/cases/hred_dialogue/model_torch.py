"""Hierarchical recurrent encoder-decoder for dialogues."""

import torch
from torch import nn
from torch.nn import functional as F


class GRU(nn.Module):
    """A GRU that resets the state before it is multiplied, as in the first paper; nn.GRU resets the product."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)
        nn.init.zeros_(self.candidate.bias)

    def forward(self, inputs, state=None, lengths=None):
        if state is None:
            state = inputs.new_zeros(inputs.size(0), self.hidden_size)
        outputs = []
        for t, x in enumerate(inputs.unbind(1)):
            reset, update = torch.sigmoid(self.gates(torch.cat([x, state], dim=1))).chunk(2, dim=1)
            new = torch.tanh(self.candidate(torch.cat([x, reset * state], dim=1)))
            new = update * state + (1 - update) * new
            if lengths is None:
                state = new
                outputs.append(new)
            else:
                running = (t < lengths).unsqueeze(1)
                state = torch.where(running, new, state)
                outputs.append(torch.where(running, new, torch.zeros_like(new)))
        return torch.stack(outputs, dim=1), state


class Model(nn.Module):
    def __init__(self, vocabulary=40, embedding=10, utterance=14, context=16, decoder=14):
        super().__init__()
        self.words = nn.Embedding(vocabulary, embedding)
        self.encoder = GRU(embedding, utterance)
        self.dialogue = GRU(utterance, context)
        self.bridge = nn.Linear(context, decoder)
        self.decoder = GRU(embedding, decoder)
        self.from_state = nn.Linear(decoder, embedding)
        self.from_word = nn.Linear(embedding, embedding, bias=False)

    def forward(self, dialogues, lengths, turns):
        past, following = dialogues[:, :-1], dialogues[:, 1:]
        batch, steps, _ = past.shape
        _, utterances = self.encoder(self.words(past.flatten(0, 1)), lengths=lengths[:, :-1].flatten())
        utterances = utterances.view(batch, steps, -1)
        contexts, _ = self.dialogue(utterances, lengths=turns - 1)

        # the decoder reads the word before, and 0 in front of the first
        previous = self.words(F.pad(following[:, :, :-1], (1, 0)).flatten(0, 1))
        start = torch.tanh(self.bridge(contexts.flatten(0, 1)))
        states, _ = self.decoder(previous, state=start)
        readout = self.from_state(states) + self.from_word(previous)
        logits = F.linear(readout, self.words.weight).unflatten(0, (batch, steps))
        return {"utterances": utterances, "contexts": contexts, "logits": logits}


def loss(model, dialogues, lengths, turns, weights):
    dialogues = dialogues.long()
    outputs = model(dialogues, lengths, turns)
    targets = dialogues[:, 1:].flatten()
    losses = F.cross_entropy(outputs["logits"].flatten(0, 2), targets, reduction="none")
    mask = weights.flatten()
    return (losses * mask).sum() / mask.sum(), outputs
