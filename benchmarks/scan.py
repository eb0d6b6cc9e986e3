"""How many towers `parity scan` finds, how much it reads, how fast: against labels of public repositories.

    python benchmarks/scan.py CHECKOUTS [LABELS.toml ...] [--findings]

CHECKOUTS holds a folder OWNER+NAME for each repository, at the commit that the label names. With `--findings` every error
and warning is printed with the labels near it, to be judged by reading.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from parity.scan.result import EVALUATION, Finding, Scan, Severity
from parity.scan.scan import scan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETS = (
    "labelled_before",
    "labelled_after",
    "read_afterwards",
    "labelled_unseen",
    "labelled_fourth",
    "labelled_fifth",
    "labelled_sixth",
    "labelled_seventh",
    "labelled_eighth",
    "labelled_ninth",
    "labelled_tenth",
    "labelled_eleventh",
    "labelled_twelfth",
    "labelled_thirteenth",
    "labelled_fourteenth",
)
LABELS = Path(__file__).parents[1] / "tests" / "parity" / "scan" / "labels"
NEAR = 3  # lines by which a reader and the scan may name another line of one place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("labels", type=Path, nargs="*", default=[LABELS / f"{name}.toml" for name in SETS])
    parser.add_argument("--findings", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    for path in arguments.labels:
        measure(path, arguments)


def measure(path: Path, arguments: argparse.Namespace) -> None:
    labels = tomllib.loads(path.read_text(encoding="utf-8"))["repository"]
    towers = found = files = unread = lines = 0
    seconds = 0.0
    false_repositories, missed, wrongly, counts = [], [], [], Counter[str]()
    judged = judgements()
    for label in labels:
        if arguments.only not in label["name"]:
            continue
        folder = arguments.checkouts / label["name"].replace("/", "+") / label.get("folder", "")
        if not folder.is_dir():
            print(f"{label['name']}: not there")
            continue
        began = time.process_time()
        result = scan([folder])
        seconds += time.process_time() - began
        files, unread, lines = files + result.files, unread + len(result.unread), lines + result.lines
        root = arguments.checkouts / label["name"].replace("/", "+")
        for each in label.get("tower", []):
            towers += 1
            if is_found(each, result, root):
                found += 1
            else:
                where = f"{label['name']} {each['file']}:{each['line']}"
                missed.append(f"{where} {each.get('function', '')} ({each.get('kind')})")
        wrongly += [f"{label['name']} {each['file']}:{each['line']}" for each in listed_wrongly(label, result, root)]
        if not label.get("has_towers", True) and (result.towers or result.findings):
            false_repositories.append(f"{label['name']}: {[(str(each.place), each.kind) for each in result.towers]}")
        if label.get("has_towers", True) and not result.towers:
            missed.append(f"{label['name']}: no towers at all")
        for each in result.findings:
            counts[each.severity.word] += 1
            if each.severity > Severity.NOTE:
                file = Path(each.place.path).relative_to(root).as_posix()
                right = judged.get((label["name"], file, each.place.line, each.rule))
                counts[f"{each.severity.word} {'not judged' if right is None else 'right' if right else 'wrong'}"] += 1
            if arguments.findings and each.severity > Severity.NOTE:
                show(each, label, root)
        for each in result.unread:
            print(f"unread: {Path(each.path).relative_to(root)}:{each.line} {each.why}")
    print(f"{path.name}: {len(labels)} repositories, {files} files, {lines:,} lines")
    print(f"recall of towers: {found} of {towers} = {found / max(towers, 1):.1%}")
    for each in missed:
        print(f"  missed: {each}")
    print(f"repositories without towers that give some: {len(false_repositories)}")
    for each in false_repositories:
        print(f"  {each}")
    print(f"places that train nothing, listed as if they did: {len(wrongly)}")
    for each in wrongly:
        print(f"  {each}")
    print(f"findings: {dict(counts)}")
    print(f"files read whole: {files - unread} of {files} = {(files - unread) / max(files, 1):.1%}")
    print(f"lines per second of one core: {lines / max(seconds, 1e-9):,.0f}")
    print(f"100,000 lines in {1e5 * seconds / max(lines, 1):.1f} s")


def judgements() -> dict[tuple[str, str, int, str], bool]:
    """Returns which findings are right, by repository, file, line and rule."""
    repositories = tomllib.loads((LABELS / "judged.toml").read_text(encoding="utf-8"))["repository"]
    return {
        (repository["name"], each["file"], each["line"], each["rule"]): each["right"]
        for repository in repositories
        for each in repository["judged"]
    }


def is_found(label: dict[str, Any], result: Scan, root: Path) -> bool:
    places = [(label["file"], label["line"]), *places_of(label)]
    for each in result.towers:
        file = Path(each.place.path).relative_to(root).as_posix()
        if any(file == name and abs(line - each.place.line) <= NEAR for name, line in places):
            return True
    return False


def listed_wrongly(label: dict[str, Any], result: Scan, root: Path) -> list[dict[str, Any]]:
    """Returns the places that a reader judged not to train and that are not said to be for evaluation."""
    listed = {
        (Path(each.place.path).relative_to(root).as_posix(), each.place.line)
        for each in result.towers
        if each.kind != EVALUATION
    }
    return [each for each in label.get("wrongly_listed", []) if (each["file"], each["line"]) in listed]


def places_of(label: dict[str, Any]) -> list[tuple[str, int]]:
    places = []
    for each in label.get("also", []):
        name, _, line = str(each).rpartition(":")
        if line.isdigit():
            places.append((name or label["file"], int(line)))
    return places


def show(finding: Finding, label: dict[str, Any], root: Path) -> None:
    file = Path(finding.place.path).relative_to(root).as_posix()
    print(f"{label['name']} {file}:{finding.place.line} {finding.rule} {finding.severity.word} {finding.message}")
    print(f"    | {finding.place.text.strip()[:140]}")
    for hazard in label.get("hazard", []):
        if hazard["file"] == file and abs(hazard["line"] - finding.place.line) <= 12:
            print(f"    label {hazard['line']}: {hazard.get('kind', '')} {hazard.get('what', '')[:140]}")


if __name__ == "__main__":
    main()
