"""Combines gradients wrongly in 30 ways, and says which of them `parity run` and `parity replay` find.

    python benchmarks/aggregation/table.py [--only WAY ...] [--markdown]

Every way is tried with dense gradients and with rows, against a case and against a recorded script, in the port's own step,
in its own wrapper, and in what a port brings that has neither: model and loss. There the tool combines, and has to say so.
"""

import argparse
import contextlib
import dataclasses
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from parity.case import Case, load_case  # noqa: E402
from parity.experiment import Sides, keep_golden, open_sides, run_case  # noqa: E402
from parity.experiment.levels import judge_function  # noqa: E402
from parity.experiment.recorder import Recorder  # noqa: E402
from parity.experiment.replay.levels import judge_part  # noqa: E402
from parity.experiment.replay.port import Port, ReplayedPort  # noqa: E402
from parity.experiment.replay.script import parts_of  # noqa: E402
from parity.experiment.sides.golden_side import GoldenSide  # noqa: E402
from parity.judge.result import Level, Result  # noqa: E402
from parity.trace import Trace  # noqa: E402
from parity.worker import bootstrap  # noqa: E402
from parity.worker.failures import SideFailed  # noqa: E402
from parity.worker.launch import launch_torch  # noqa: E402

KINDS = ("dense", "sparse")
SETTINGS = ("step", "wrapper", "neither")
SILENCE = 60.0
FOUND, SAID, SAME, REFUSED = "found", "said", "same", "refused"

# Where a way can be: in the step, in the wrapper or its hook, in model or loss. A way that is not in what a port brings
# cannot be seen there, and the verdict line has to say that the combination was not the port's.
STEP, WRAPPER, LOSS = "step", "wrapper", "loss"
WAYS: dict[str, tuple[str, frozenset[str]]] = {
    "module_called": ("the module is called, not its wrapper", frozenset({STEP, WRAPPER, LOSS})),
    "no_sync_left_on": ("`no_sync` is left on", frozenset({STEP, WRAPPER, LOSS})),
    "kernel_left_out": ("one parameter is excepted from DDP", frozenset({STEP, WRAPPER, LOSS})),
    "table_left_out": ("the embedding is excepted from DDP", frozenset({STEP, WRAPPER, LOSS})),
    "missing_on_one_rank": ("one rank gives a parameter no gradient", frozenset({STEP, WRAPPER, LOSS})),
    "sum_for_mean": ("summed, not averaged", frozenset({STEP, WRAPPER})),
    "averaged_twice": ("divided by the number of ranks twice", frozenset({STEP, WRAPPER})),
    "reduced_twice": ("all-reduced twice", frozenset({STEP, WRAPPER})),
    "one_rank_too_many": ("divided by one rank too many", frozenset({STEP, WRAPPER})),
    "stale": ("those of the step before", frozenset({STEP, WRAPPER})),
    "weighted": ("ranks weighted 1 to 2", frozenset({STEP, WRAPPER})),
    "first_rank_only": ("the first rank's only", frozenset({STEP, WRAPPER})),
    "last_rank_only": ("the last rank's only", frozenset({STEP, WRAPPER})),
    "largest": ("the largest in the place of the mean", frozenset({STEP, WRAPPER})),
    "one_rank_silent": ("one rank sends zeros", frozenset({STEP, WRAPPER})),
    "one_rank_alone": ("one rank keeps its own", frozenset({STEP, WRAPPER})),
    "first_parameter_only": ("the first parameter's only", frozenset({STEP, WRAPPER})),
    "last_parameter_only": ("the last parameter's only", frozenset({STEP, WRAPPER})),
    "rows_summed": ("the embedding's summed, the others averaged", frozenset({STEP, WRAPPER})),
    "half_of_a_bucket": ("half of every bucket", frozenset({STEP, WRAPPER})),
    "half_precision": ("sent in bfloat16", frozenset({STEP, WRAPPER})),
    "group_of_one": ("in a process group of one rank", frozenset({STEP, WRAPPER})),
    "not_waited_for": ("the all-reduce is not waited for", frozenset({STEP, WRAPPER})),
    "clipped_too_early": ("clipped before they are combined, not after", frozenset({STEP, WRAPPER})),
    "clipped_too_late": ("clipped after they are combined, not before", frozenset({STEP, WRAPPER})),
    "loss_divided": ("the loss divided, and the gradients averaged", frozenset({STEP})),
    "gradients_kept": ("added to those of the step before", frozenset({STEP})),
    "last_half_alone": ("the last micro-batch stays on its rank", frozenset({STEP})),
    "after_the_update": ("shared after the update", frozenset({STEP})),
    "weights_shared": ("weights averaged, gradients not", frozenset({STEP})),
    "second_optimizer_alone": ("the second loss is not shared", frozenset({STEP})),
}
RIGHT: dict[str, frozenset[str]] = {
    "right": frozenset({STEP, WRAPPER, LOSS}),
    "right_in_halves": frozenset({STEP}),
    "right_by_hand": frozenset({STEP}),
    "right_hook": frozenset({WRAPPER}),
    "right_clipping": frozenset({STEP, WRAPPER}),
}
# What the towers do for a way to be one: they clip after combining, or before.
TOWERS = {"clipped_too_early": "clip_combined", "clipped_too_late": "clip_tower", "right_clipping": "clip_tower"}
CLIPPING = {
    ("dense", "plain"): "",
    ("sparse", "plain"): "",
    ("dense", "clip_combined"): ', clip = { by = "norm", limit = 0.05 }',
    ("sparse", "clip_combined"): ', clip = { by = "norm", limit = 0.05, sum_duplicates = true }',
    ("dense", "clip_tower"): ', clip = { by = "norm", limit = 0.05, at = "tower", sum_duplicates = true }',
    ("sparse", "clip_tower"): ', clip = { by = "norm", limit = 0.05, at = "tower", sum_duplicates = true }',
}
CASE = """
name = "aggregation"
steps = 2
batch_size = 12
towers = 2
combine = "mean"
batches = "data:batches"
optimizer = {{ name = "momentum", learning_rate = 0.1, momentum = 0.9{clip} }}
tf = {{ tower = "model_tf:tower", sparse = "{sparse}" }}
torch = {{ model = "ports:{kind}", loss = "ports:loss" }}
"""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One way in one setting.

    Attributes:
      way: among `WAYS` or `RIGHT`.
      kind: "dense" or "sparse".
      against: "run" or "replay".
      setting: where the port could have it: "step", "wrapper" or "neither".
    """

    way: str
    kind: str
    against: str
    setting: str

    @property
    def towers(self) -> str:
        """What the towers do."""
        return TOWERS.get(self.way, "plain")

    @property
    def port(self) -> dict[str, str]:
        """The functions of the port, by the keys of a case."""
        way = "right" if self.hidden else self.way
        wrapping = "wrapped" if self.setting == "wrapper" else "bare"
        found = {"model": f"ports:{wrapping}_{way}_{self.kind}", "loss": f"ports:loss_{way}"}
        return {**found, "step": f"ports:step_{way}"} if self.setting == "step" else found

    @property
    def hidden(self) -> bool:
        """Whether the way is in nothing that such a port brings."""
        places = WAYS[self.way][1] if self.way in WAYS else RIGHT[self.way]
        return {"neither": LOSS}.get(self.setting, self.setting) not in places

    @property
    def wanted(self) -> str:
        """The outcome that is right."""
        if self.setting == "neither":
            return FOUND if self.way in WAYS and not self.hidden else SAID
        return FOUND if self.way in WAYS else SAME


def cells(ways: Iterable[str]) -> Iterator[Cell]:
    """Yields every cell of some ways; where own step or wrapper cannot have a way there is none."""
    for way in ways:
        for against in ("run", "replay"):
            for kind in KINDS:
                for setting in SETTINGS:
                    cell = Cell(way, kind, against, setting)
                    recorded = against == "run" or cell.towers != "clip_tower"
                    if recorded and (setting == "neither" or not cell.hidden):
                        yield cell


def outcome(level: Level, facts: dict[str, object]) -> str:
    """Returns "found", "said", "same" or "refused" for what level 1 says of a port with these facts."""
    qualified = Result({"function": level}, {}, facts).qualifiers
    return {"different": FOUND, "same": SAID if qualified else SAME}.get(level.verdict, REFUSED)


class Bench:
    """Keeps the references of both kinds, each made once, and the ranks that play all ports.

    Args:
      folder: for all that is written.
      sides: gives the ranks, ready for another port.
      live: opens sides with TensorFlow, which make a reference.
    """

    def __init__(
        self,
        folder: Path,
        sides: Callable[[], Sides],
        live: Callable[[], contextlib.AbstractContextManager[Sides]] = lambda: open_sides(None),
    ) -> None:
        self._folder = folder
        self._sides = sides
        self._live = live
        self._goldens: dict[tuple[str, str], tuple[Case, Path]] = {}
        self._traces: dict[tuple[str, str], Path] = {}
        self._known: dict[tuple[str, ...], str] = {}
        self._made = 0

    def judge(self, cell: Cell) -> str:
        """Returns the outcome of one cell; what brings the same port against the same towers is run once."""
        key = (cell.kind, cell.against, cell.towers if not cell.hidden else "plain", *cell.port.values())
        if key not in self._known:
            self._made += 1
            out = self._folder / f"cell-{self._made}"
            try:
                self._known[key] = self._run(cell, out) if cell.against == "run" else self._replay(cell, out)
            except SideFailed as error:
                self._known[key] = REFUSED
                print(f"{cell}: {error}", file=sys.stderr)
        return self._known[key]

    def _run(self, cell: Cell, out: Path) -> str:
        case, golden = self._golden(cell.kind, "plain" if cell.hidden else cell.towers)
        case = case.model_copy(update={"torch": case.torch.model_copy(update=cell.port)})
        recorder = Recorder(case, self._sides(), out, False, reference=GoldenSide(golden, case))
        recorded = recorder.record(recorder.begin())
        level = judge_function(recorded, range(case.steps), recorder.rules)
        return outcome(level, recorded.lockstep.candidate32.facts)

    def _replay(self, cell: Cell, out: Path) -> str:
        recorded = Trace(self._trace(cell.kind, "plain" if cell.hidden else cell.towers))
        (part,) = parts_of(recorded)
        steps = {"": cell.port["step"]} if "step" in cell.port else {}
        port = Port(cell.port["model"], {"": cell.port["loss"]}, {}, [str(HERE)], SILENCE, steps)
        out.mkdir(parents=True)
        replayed = ReplayedPort(part, port, self._sides().torch, {}, {}, out)
        judged = judge_part(replayed, Trace(Path(recorded.directory) / "shadow"), out, lambda what, done, total: None)
        return outcome(judged.levels[0], replayed.prepared["float32"]["facts"])

    def _golden(self, kind: str, towers: str) -> tuple[Case, Path]:
        if (kind, towers) not in self._goldens:
            self._goldens[kind, towers] = self._bless(kind, towers)
        return self._goldens[kind, towers]

    def _bless(self, kind: str, towers: str) -> tuple[Case, Path]:
        folder = self._folder / f"{kind}-{towers}"
        folder.mkdir()
        for file in ("data.py", "model_tf.py", "ports.py"):
            (folder / file).symlink_to(HERE / file)
        sparse = "slices" if kind == "sparse" else "dense"
        (folder / "case.toml").write_text(CASE.format(kind=kind, sparse=sparse, clip=CLIPPING[kind, towers]))
        case = load_case(folder)
        with self._live() as sides:
            result = run_case(case, sides, ("function",), out=folder / "recorded", blessing=True)
        if result.verdict != "same":
            raise RuntimeError(f"{kind}, {towers}: the reference and its right port are {result.verdict}")
        keep_golden(case, folder / "recorded", folder / "golden")
        return case, folder / "golden"

    def _trace(self, kind: str, towers: str) -> Path:
        if (kind, towers) not in self._traces:
            out = self._folder / f"trace-{kind}-{towers}"
            words = [kind, *(["clip"] if towers == "clip_combined" else [])]
            program = [sys.executable, str(bootstrap.__file__), "tf_towers.record", "--out", str(out), "--"]
            subprocess.run([*program, str(HERE / "train_tf.py"), *words], check=True, capture_output=True)
            self._traces[kind, towers] = out
        return self._traces[kind, towers]


def main() -> int:
    """Prints the table; returns 1 where a cell is not as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="WAY", help="some of the ways")
    options = parser.parse_args()
    ways = options.only or [*RIGHT, *WAYS]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="aggregation-") as folder, played() as sides:
        bench = Bench(Path(folder), sides)
        print(f"| how the gradients are combined | {' | '.join(_columns())} |")
        print("|" + " --- |" * (1 + len(_columns())))
        for way in ways:
            found = {cell: bench.judge(cell) for cell in cells([way])}
            wrong += sum(cell.wanted != got for cell, got in found.items())
            shown = [_shown(found, way, *column.split()) for column in _columns()]
            print(f"| {WAYS[way][0] if way in WAYS else way.replace('_', ' ')} | {' | '.join(shown)} |", flush=True)
    print(f"\n{wrong} cells are not as they have to be")
    return int(bool(wrong))


@contextlib.contextmanager
def played() -> Iterator[Callable[[], Sides]]:
    """Yields what gives the ranks, started once, and anew after a failure that they did not outlive."""
    with tempfile.TemporaryDirectory() as logs, contextlib.ExitStack() as stack:
        torch = stack.enter_context(contextlib.closing(launch_torch(Path(logs) / "torch.log", SILENCE)))
        sides = Sides(torch, Path(logs))

        def ready() -> Sides:
            sides.outlive_failure()
            return sides

        yield ready


def _columns() -> list[str]:
    return [f"{against}, {setting}" for against in ("run", "replay") for setting in SETTINGS]


def _shown(found: dict[Cell, str], way: str, against: str, setting: str) -> str:
    each = [found.get(Cell(way, kind, against.rstrip(","), setting)) for kind in KINDS]
    texts = [text or "-" for text in each]
    return texts[0] if texts[0] == texts[1] else " / ".join(texts)


if __name__ == "__main__":
    sys.exit(main())
