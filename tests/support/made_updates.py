"""Steps that optimizers make of common states, by TensorFlow's rules or with a setting that is another one."""

import numpy as np

SHAPES = {"kernel": (6, 5), "bias": (5,), "table": (9, 4)}
KINDS = dict.fromkeys(SHAPES, "weight")
STEPS, COUNT = 2, 3  # so many steps are made, after so many updates


def momentum(g, s, w, lr=0.1, keep=0.9, take=1.0, nesterov=False, decay=0.0, decoupled=0.0):
    s["momentum"] = keep * s["momentum"] + take * (g + decay * w)
    return lr * (keep * s["momentum"] + g if nesterov else s["momentum"]) + decoupled * lr * w


def descent(g, s, w, lr=0.1):
    return lr * g


def twice(g, s, w, lr=0.1, keep=0.9):
    return momentum(g, s, w, lr, keep) + momentum(g, s, w, lr, keep)


def adam(
    g, s, w, lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-4, of_torch=False, corrected=True, ahead=0.0, decoupled=0.0
):
    s["m"], s["v"] = beta1 * s["m"] + (1 - beta1) * g, beta2 * s["v"] + (1 - beta2) * g**2
    first, second = (1 - beta**COUNT if corrected else 1.0 for beta in (beta1, beta2))
    below = np.sqrt(s["v"]) + epsilon * (np.sqrt(second) if of_torch else 1.0)
    return lr * np.sqrt(second) / first * (s["m"] + ahead * g) / below + decoupled * lr * w


def rmsprop(g, s, w, lr=0.01, decay=0.9, keep=0.5, epsilon=1e-3, inside=True, sums=False):
    s["rms"] = s["rms"] + g**2 if sums else decay * s["rms"] + (1 - decay) * g**2
    below = np.sqrt(s["rms"] + epsilon) if inside else np.sqrt(s["rms"]) + epsilon
    s["momentum"] = keep * s["momentum"] + lr * g / below
    return s["momentum"]


def adagrad(g, s, w, lr=0.1, epsilon=0.0, inside=0.0, decay=0.0, average=None):
    keep, take = (1.0, 1.0) if average is None else (average, 1 - average)
    s["accumulator"] = keep * s["accumulator"] + take * (g + decay * w) ** 2
    return lr * (g + decay * w) / (np.sqrt(s["accumulator"] + inside) + epsilon)


def adadelta(g, s, w, lr=1.0, rho=0.95, epsilon=1e-4):
    s["accum"] = rho * s["accum"] + (1 - rho) * g**2
    moved = np.sqrt(s["accum_update"] + epsilon) / np.sqrt(s["accum"] + epsilon) * g
    s["accum_update"] = rho * s["accum_update"] + (1 - rho) * moved**2
    return lr * moved


def ftrl(g, s, w, lr=0.1, power=-0.5, l1=0.0, l2=0.0, shrinkage=0.0):
    after = s["accum"] + g**2
    s["linear"] = s["linear"] + g + 2 * shrinkage * w - (after**-power - s["accum"] ** -power) / lr * w
    s["accum"] = after
    moved = (np.sign(s["linear"]) * l1 - s["linear"]) / (after**-power / lr + 2 * l2)
    return w - np.where(np.abs(s["linear"]) > l1, moved, 0.0)


SLOTS = {
    descent: [],
    momentum: ["momentum"],
    twice: ["momentum"],
    adam: ["m", "v"],
    rmsprop: ["rms", "momentum"],
    adagrad: ["accumulator"],
    adadelta: ["accum", "accum_update"],
    ftrl: ["accum", "linear"],
}
FACTS = {
    descent: {},
    momentum: {},
    adam: {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-4},
    rmsprop: {"decay": 0.9, "momentum": 0.5, "epsilon": 1e-3},
    adagrad: {},
    adadelta: {"rho": 0.95, "epsilon": 1e-4},
    ftrl: {},
}


def states():
    random = np.random.default_rng(0)
    found = []
    for _ in range(STEPS):
        state = {f"state/beta{k}_power": np.array(beta**COUNT) for k, beta in ((1, 0.9), (2, 0.999))}
        for name, shape in SHAPES.items():
            state[f"var/{name}"] = random.standard_normal(shape)
            state[f"grad/{name}"] = 0.1 * random.standard_normal(shape)
            for slot in sorted({slot for slots in SLOTS.values() for slot in slots}):
                value = 0.1 * random.standard_normal(shape)
                positive = slot not in ("momentum", "m", "linear")
                state[f"slot/{slot}/{name}"] = 0.01 + value**2 if positive else value
        found.append(state)
    return found


def made(rule, reference, noise=0.0, only=None, given=None, **settings):
    """Steps that a rule makes of the common states.

    Args:
      rule: of this optimizer.
      reference: the optimizer whose slots there are.
      noise: on the update, relative.
      only: the variables with these settings, which are the default for the others.
      given: makes of the gradients, a dict by variable, those that the optimizer works with.
      settings: of the rule.
    """
    random, found = np.random.default_rng(1), []
    for state in states():
        after = {}
        gradients = {name: state[f"grad/{name}"] for name in SHAPES}
        used = given(gradients) if given else gradients
        for name in SHAPES:
            slots = {slot: state[f"slot/{slot}/{name}"] for slot in SLOTS[reference]}
            own = settings if only is None or name in only else {}
            weight = state[f"var/{name}"]
            after[f"grad/{name}"] = gradients[name]
            moved = rule(used[name], slots, weight, **own)
            after.update({f"slot/{slot}/{name}": value for slot, value in slots.items()})
            after[f"var/{name}"] = weight - moved * (1 + noise * random.standard_normal(weight.shape))
        found.append(after)
    return found


def before(reference):
    kept = ("var/", "state/", *(f"slot/{slot}/" for slot in SLOTS[reference]))
    return [{text: value for text, value in state.items() if text.startswith(kept)} for state in states()]


# What an optimizer may be given in place of the gradients.


def times(factor):
    return lambda gradients: {name: factor * value for name, value in gradients.items()}


def of_norm(limit):
    """Clips to a global norm that all gradients are longer than."""

    def clipped(gradients):
        size = np.sqrt(sum((value**2).sum() for value in gradients.values()))
        return {name: value * limit / size for name, value in gradients.items()}

    return clipped


def to_value(limit, of_table=None):
    """Clips by value, the table to a limit of its own."""
    limits = dict.fromkeys(SHAPES, limit) | {"table": of_table or limit}
    return lambda gradients: {name: np.clip(value, -limits[name], limits[name]) for name, value in gradients.items()}
