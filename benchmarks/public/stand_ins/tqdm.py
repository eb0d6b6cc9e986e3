"""Stands for tqdm: iterates without a progress bar."""


class tqdm(object):
    def __init__(self, items=None, **options):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __getattr__(self, name):
        return lambda *arguments, **options: None


def trange(count, **options):
    return tqdm(range(count))
