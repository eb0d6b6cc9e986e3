"""Stands for a reader of click logs in batches, as the trainer asks for them."""

import numpy as np


class DataInput(object):
    def __init__(self, data, batch_size):
        self.batches = [data[place : place + batch_size] for place in range(0, len(data), batch_size)]

    def __iter__(self):
        for number, batch in enumerate(self.batches, 1):
            users, before, items, labels = zip(*batch)
            lengths = [len(each) for each in before]
            history = np.zeros([len(batch), max(lengths)], np.int64)
            for row, each in zip(history, before):
                row[: len(each)] = each
            yield number, (users, items, labels, history, lengths)


class DataInputTest(DataInput):
    pass
