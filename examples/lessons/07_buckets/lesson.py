"""Buckets and overlap: in which order gradients get ready, and when DDP sends them."""

LAYERS, WIDTH = 6, 64
LAYER_BYTES = 4 * (WIDTH * WIDTH + WIDTH)
ARGUMENTS = {
    "layers": LAYERS,
    "width": WIDTH,
    "caps": {"a layer": LAYER_BYTES / 2**20, "two layers": 2 * LAYER_BYTES / 2**20, "everything": 25},
}


def findings(torch):
    runs = torch["runs"]
    ready = {
        name: [event["layer"] for event in run["events"] if event["what"] == "ready"] for name, run in runs.items()
    }
    sent = {name: [event for event in run["events"] if event["what"] == "sent"] for name, run in runs.items()}
    at = {name: [event["what"] for event in run["events"]] for name, run in runs.items()}
    numbers = {
        **ARGUMENTS,
        "runs": runs,
        "layer_bytes": LAYER_BYTES,
        "ready": {name: list(dict.fromkeys(order)) for name, order in ready.items()},
        "sent": {
            name: [{"layers": each["layers"], "bytes": each["bytes"]} for each in all_] for name, all_ in sent.items()
        },
        "early": {
            name: events.index("sent") < len(events) - 1 - events[::-1].index("ready") for name, events in at.items()
        },
        "unused": torch["unused"],
    }
    backwards = list(range(LAYERS - 1, -1, -1))
    claims = {
        "gradients get ready from the last layer to the first": all(
            order == backwards for order in numbers["ready"].values()
        ),
        "buckets of one layer are sent in that order too": [each["layers"] for each in sent["a layer"]]
        == [[layer] for layer in backwards],
        "the first bucket is sent before the last gradient exists": (
            numbers["early"]["a layer"] and numbers["early"]["two layers"]
        ),
        "one bucket for everything is sent when backward is done": (
            not numbers["early"]["everything"] and len(sent["everything"]) == 1
        ),
        "the bytes are the same, however they are cut": all(
            sum(each["bytes"] for each in all_) == LAYERS * LAYER_BYTES for all_ in sent.values()
        ),
        "with two ranks so are the gradients, to the bit": len({run["digest"] for run in runs.values()}) == 1,
        "a parameter that is not used keeps its bucket waiting, which DDP reports at the next step": (
            "did not receive grad" in torch["unused"] or "finished reduction" in torch["unused"]
        ),
    }
    return numbers, claims


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "7"])
