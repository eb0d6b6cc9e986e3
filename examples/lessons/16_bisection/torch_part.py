"""The port and its two bugs, trained from the same weights on the same batches as the towers' net."""

import port
import port_both
import port_second
import torch

PORTS = {"right": port, "both": port_both, "second": port_second}


def load(model, weights):
    """Copies the towers' weights into a port: as many on both sides, none left over, each of the right shape."""
    parameters = {towers_name(name): parameter for name, parameter in model.named_parameters()}
    assert sorted(parameters) == sorted(weights)
    for name, parameter in parameters.items():
        value = torch.tensor(weights[name], dtype=parameter.dtype)
        value = value.T if name.endswith("kernel") else value
        assert value.shape == parameter.shape, name
        parameter.data.copy_(value)


def towers_name(name):
    place, _, kind = name.replace(".", "/").rpartition("/")
    norm = {"weight": "gamma", "bias": "beta"}
    return f"{place}/{norm[kind] if place.endswith('norm') else kind.replace('weight', 'kernel')}"


def run(ported, dtype, weights, batches):
    model = ported.Model().to(dtype)
    load(model, weights)
    optimizer = ported.optimizer(model)
    scheduler = ported.scheduler(optimizer)
    tensors, losses, states = {}, [], []
    for x, y in batches:
        states.append(state(model))
        loss, seen = ported.step(model, optimizer, scheduler, torch.tensor(x, dtype=dtype), torch.tensor(y))
        losses.append(loss.item())
        tensors = tensors or {**{name: each.detach() for name, each in seen.items()}, "loss": loss.item()}
    return {"tensors": tensors, "losses": losses, "states": [*states, state(model)]}


def state(model):
    """Returns all weights in one row, in the towers' order and layout."""
    values = {towers_name(name): parameter.detach() for name, parameter in model.named_parameters()}
    return torch.cat(
        [values[name].T.reshape(-1) if values[name].dim() == 2 else values[name] for name in sorted(values)]
    )


def not_transposed(weights, batches):
    """Returns how many kernels a forgotten transposition would get past the check of shapes, and the loss they give."""
    square = [name for name, value in weights.items() if name.endswith("kernel") and len(value) == len(value[0])]
    model = port.Model().double()
    load(model, {**weights, **{name: torch.tensor(weights[name]).T.tolist() for name in square}})
    x, y = batches[0]
    return {
        "kernels": len(square),
        "loss": port.loss(model, torch.tensor(x, dtype=torch.float64), torch.tensor(y))[0].item(),
    }


def measure(weights, batches, rates):
    runs = {
        name: {
            str(dtype).removeprefix("torch."): run(ported, dtype, weights, batches)
            for dtype in (torch.float64, torch.float32)
        }
        for name, ported in PORTS.items()
    }
    return {"runs": runs, "not transposed": not_transposed(weights, batches)}
