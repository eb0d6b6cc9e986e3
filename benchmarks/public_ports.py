"""Records public TensorFlow 1 tower scripts, writes their ports with `parity port`, proves them and prints a table.

Launch: ``python benchmarks/public_ports.py --sources DIR [--only NAME ...] [--tf-python PATH] [--work DIR] [--page]``.
``DIR/OWNER+NAME`` holds a checkout of each repository that ``public_ports.toml`` names, at the commit it names; nothing
of theirs is kept here. Each script is copied, edited as the manifest says, recorded for three steps of two towers, and
ported. ``--page`` writes the table into docs/gallery.md. A recording that is there already is ported again.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
MANIFEST = BENCHMARKS / "public_ports.toml"
PAGE = ROOT / "docs" / "gallery.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
STEPS, TOWERS, SECONDS = 3, 2, 400
VERDICTS = {0: "same", 1: "different", 2: "not judged", 3: "incomplete"}


@dataclass
class Outcome:
    """What became of one script."""

    name: str
    kind: str
    repository: str
    ops: int = 0
    lines: int = 0
    verdict: str = "not recorded"
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)

    def row(self) -> str:
        """One row of the table."""
        reasons = _in_short([_brief(reason) for reason in self.reasons]) or "-"
        script = f"[{self.name}](https://github.com/{self.repository})"
        counts = f"{self.ops or '-'} | {self.lines or '-'} | {self.verdict} | {self.seconds:.0f}"
        return f"| {script} | {self.kind} | {counts} | {reasons} |"


def _brief(reason: str) -> str:
    return reason.replace("|", "\\|").replace("\n", " ")[:160]


def _environment(place: Path) -> dict[str, str]:
    # The stand-ins lie in the script's folder; the recorder itself comes from here. What a script imports is compiled
    # beside it, which public_hazards.py reads.
    path = os.pathsep.join([str(ROOT), str(place)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", "CUDA_VISIBLE_DEVICES": ""}


def _run(command: list[str], place: Path, log: Path) -> int:
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, cwd=place, env=_environment(place), stdout=file, stderr=file, start_new_session=True
        )
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the script too, which the recorder started
            process.wait()
            file.write(f"\nended after {SECONDS} s")
            return -1


def prepare(script: dict, sources: Path, folder: Path, data: Path, python: str) -> Path:
    """Copies a script's repository, edits it, puts the stand-ins in; returns where it is started."""
    checkout = folder / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    shutil.copytree(sources / script["repository"].replace("/", "+"), checkout)
    place = checkout / script.get("folder", ".")
    for edit in script.get("edits", []):
        path = place / edit["file"]
        lines = path.read_text(encoding="utf-8").split("\n")
        line, passage = "".join(lines[edit["line"] - 1 : edit["line"]]), edit["find"]
        if line.count(passage) != 1:
            raise ValueError(
                f"{script['name']}: expected {passage!r} once in line {edit['line']} of {path}, got {line!r}"
            )
        lines[edit["line"] - 1] = line.replace(passage, edit["replace"].replace("{data}", str(data)))
        path.write_text("\n".join(lines), encoding="utf-8")
    for target, stand_in in script.get("stand_ins", {}).items():
        (place / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BENCHMARKS / "public" / "stand_ins" / stand_in, place / target)
    if script.get("python2"):
        converter = [python, "-m", "lib2to3", "--write", "--nobackups", "--no-diffs", "."]
        subprocess.run(converter, cwd=place, check=True, capture_output=True)
    missing = [name for name in script.get("data", []) if not (data / name).is_dir()]
    if missing:
        subprocess.run([python, str(BENCHMARKS / "public" / "data.py"), str(data), *missing], check=True)
    return place


def record(script: dict, sources: Path, folder: Path, data: Path, python: str) -> int:
    """Records a script; returns the recorder's exit code."""
    place = prepare(script, sources, folder, data, python)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    words = [word.replace("{data}", str(data)).replace("{out}", str(out)) for word in script["command"]]
    command = [sys.executable, "-m", "parity.cli", "record", "--steps", str(STEPS), "--gpus", str(TOWERS)]
    command += ["--out", str(folder / "trace"), "--tf-python", python, "--", *words]
    return _run(command, place, folder / "record.log")


def record_once(script: dict, sources: Path, work: Path, python: str) -> list[str]:
    """Records a script where it is not yet recorded; returns why it could not be."""
    folder = work / script["name"]
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "trace").is_dir():
        return []
    try:
        code = record(script, sources, folder, work / "data", python)
        reasons = (_complaint(folder / "record.log") or [f"exit code {code}"]) if code else []
    except (ValueError, OSError, subprocess.CalledProcessError) as error:  # the checkout is of another commit
        reasons = [str(error)]
    if reasons:
        shutil.rmtree(folder / "trace", ignore_errors=True)  # steps before a failure are no recording of the next run
    return reasons


def port(script: dict, sources: Path, work: Path, python: str) -> Outcome:
    """Records a script where it is not yet recorded, ports it, and proves the port."""
    outcome = Outcome(script["name"], script["kind"], script["repository"])
    folder, begin = work / script["name"], time.monotonic()
    outcome.reasons = record_once(script, sources, work, python)
    outcome.seconds = time.monotonic() - begin
    if outcome.reasons:
        return outcome
    outcome.ops = count_ops(folder / "trace")
    shutil.rmtree(folder / "port", ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "parity.cli",
        "port",
        str(folder / "trace"),
        "--out",
        str(folder / "port"),
        "--quiet",
    ]
    code = _run(command, folder, folder / "port.log")
    written = folder / "port" / "port.py"
    outcome.lines = len(written.read_text(encoding="utf-8").splitlines()) if written.is_file() else 0
    # What was written and could not be judged, or in float32 alone, has the exit code of what is refused.
    outcome.verdict = "refused" if code == 2 and not outcome.lines else VERDICTS.get(code, "crashed")
    outcome.reasons = [] if code == 0 else _complaint(folder / "port.log")
    outcome.seconds = time.monotonic() - begin
    return outcome


def _complaint(log: Path) -> list[str]:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    left = [line for line in lines if line.endswith("Write it by hand.")]
    said = [line for line in lines if re.match(r"(parity|port|first difference|verdict)\b.*:", line)]
    return sorted(set(left)) or said[:2] or lines[-1:]


def count_ops(trace: Path) -> int:
    """How many ops the recorded graph has."""
    return sum(
        len(json.loads(path.read_text(encoding="utf-8"))["definition"]["node"]) for path in trace.rglob("graph.json")
    )


def _in_short(reasons: list[str]) -> str:
    """The first reason, and how many there are beside it."""
    return "; ".join([*reasons[:1], *([f"and {len(reasons) - 1} more"] if len(reasons) > 1 else [])])


def table(outcomes: list[Outcome]) -> str:
    """The table of the gallery."""
    head = "| script | what it is | ops | lines | verdict | seconds | what was refused or differs |\n|" + "--|" * 7
    return "\n".join([head, *(outcome.row() for outcome in outcomes)])


def main() -> None:
    """Runs what was asked for, one script at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--work", type=Path, default=Path("public-ports"))
    parser.add_argument("--tf-python", default=str(Path.home() / ".cache/tower-parity/tf1.15/bin/python"))
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    scripts = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["script"]
    work = arguments.work.resolve()
    outcomes = []
    for script in scripts:
        if arguments.only and script["name"] not in arguments.only:
            continue
        outcomes.append(port(script, arguments.sources.resolve(), work, arguments.tf_python))
        print(outcomes[-1].row(), flush=True)
        (work / script["name"] / "outcome.json").write_text(json.dumps(asdict(outcomes[-1])), encoding="utf-8")
    print("\n" + table(outcomes))
    if arguments.page:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{table(outcomes)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
