"""Writes a result as event files for TensorBoard: scalars and histograms, of both sides and of what is between them."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parity.judge.result import Check, Level, Result
from parity.judge.tensor_details import Closer, Histogram, Losses
from parity.report.atomic import appearing
from parity.report.html.grid import RUN_NAMES
from parity.trace import parse_key

# The runs that TensorBoard shows: the same tag of two runs is drawn into one chart.
SIDES = ("reference", "candidate", "difference")
EVENTS = "events.out.tfevents"  # what TensorBoard takes a file for that has this in its name
MOST_TENSORS = 200  # of a run, with a curve of their own: those that differ first, then the nearest to their allowance


def write_tensorboard(result: Result, folder: Path) -> None:
    """Writes an event file for each of `SIDES` into a folder of its name.

    What is not finite is written as it is. Needs the package tensorboard, and loads neither TensorFlow nor torch.

    Args:
      result: what was found; losses and histograms are written where it was looked at closely.
      folder: what `tensorboard --logdir` is given.
    """
    # One time for all events: TensorBoard's axis of steps is what counts, and a report is written in one go.
    began = time.time()
    values: dict[str, list[tuple[int, Any]]] = {side: [] for side in SIDES}
    for losses in result.losses:
        _add_losses(values, losses)
    for level in result.levels.values():
        values["difference"] += _multiples(level)
    for closer in result.closer:
        _add_histograms(values, closer)
    for side in SIDES:
        _write(folder / side / f"{EVENTS}.{int(began)}.parity", values[side], began)


def _add_losses(values: dict[str, list[tuple[int, Any]]], losses: Losses) -> None:
    title = "/".join(filter(None, ("loss", _where(losses.level, losses.run), losses.section)))
    for place, step in enumerate(losses.steps):
        one, other = losses.reference[place], losses.candidate[place]
        values["reference"].append((step, _scalar(title, one)))
        values["candidate"].append((step, _scalar(title, other)))
        values["difference"].append((step, _scalar(f"{title}, absolute error", abs(other - one))))
        values["difference"].append((step, _scalar(f"{title}, tolerance", losses.allowed[place])))


def _multiples(level: Level) -> list[tuple[int, Any]]:
    judged = [check for check in level.checks if check.verdict in ("same", "different")]
    worst: dict[tuple[str, int], float] = {}
    for check in judged:
        tag = f"largest ratio to the tolerance/{_where(level.name, check.run)}/{parse_key(check.key).quantity}"
        worst[tag, check.step] = max(check.multiple, worst.get((tag, check.step), 0.0))
    found = [(step, _scalar(tag, multiple)) for (tag, step), multiple in worst.items()]
    chosen = _chosen(judged)
    for check in judged:
        if (check.run, check.key) in chosen:
            tag = f"ratio to the tolerance/{_where(level.name, check.run)}/{check.key}"
            found.append((check.step, _scalar(tag, check.multiple)))
    return found


def _chosen(judged: Iterable[Check]) -> set[tuple[str, str]]:
    chosen: set[tuple[str, str]] = set()
    counts: dict[str, int] = {}
    # Different ones first, then by how near to the tolerance: what is cut off at `MOST_TENSORS` is the farthest from
    # it.
    for check in sorted(judged, key=lambda check: (check.verdict == "same", -check.multiple)):
        if (check.run, check.key) not in chosen and counts.get(check.run, 0) < MOST_TENSORS:
            chosen.add((check.run, check.key))
            counts[check.run] = counts.get(check.run, 0) + 1
    return chosen


def _add_histograms(values: dict[str, list[tuple[int, Any]]], closer: Closer) -> None:
    title = f"{_where(closer.level, closer.run)}/{closer.key}"
    values["reference"].append((closer.step, _bars(f"values/{title}", closer.reference)))
    values["candidate"].append((closer.step, _bars(f"values/{title}", closer.candidate)))
    values["difference"].append((closer.step, _bars(f"candidate minus reference/{title}", closer.apart)))


def _where(level: str, run: str) -> str:
    return f"{level}, {RUN_NAMES.get(run, run)}"


def _scalar(tag: str, value: float) -> Any:
    # Loaded where it is used: the package is optional.
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary.Value(tag=tag, simple_value=value)


def _bars(tag: str, histogram: Histogram) -> Any:
    from tensorboard.compat.proto.histogram_pb2 import HistogramProto
    from tensorboard.compat.proto.summary_pb2 import Summary

    low, high, parts = histogram.low, histogram.high, len(histogram.counts)
    # TensorBoard draws no bar without a width: values that are all one get a bar of 1.
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    # The right ends of the bars; the last one is `high` itself, for the sum may round past it or short of it.
    limits = [low + (high - low) * ((part + 1) / parts) for part in range(parts - 1)] + [high]
    told = HistogramProto(min=low, max=high, num=sum(histogram.counts), bucket_limit=limits, bucket=histogram.counts)
    return Summary.Value(tag=tag, histo=told)


def _write(path: Path, values: list[tuple[int, Any]], began: float) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    with appearing(path) as file:
        writer = RecordWriter(file)
        # Every event file of TensorFlow's begins with this record.
        writer.write(Event(wall_time=began, file_version="brain.Event:2").SerializeToString())
        # In the order of steps, as a training would have written them.
        for step, value in sorted(values, key=lambda each: each[0]):
            event = Event(wall_time=began, step=step, summary=Summary(value=[value]))
            writer.write(event.SerializeToString())
