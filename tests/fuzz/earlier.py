"""What an earlier command has left and another one reads: a result for --since, a scan for --baseline, a port, a log."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

from parity.cli import compare, port, scan
from parity.experiment.compare import compare_traces
from parity.judge.result import Result
from parity.port.files import MANIFEST
from parity.report import report, write_html, write_json, write_junit, write_markdown
from parity.report.since import changes_since, read_earlier
from parity.trace import decode, write_tensors

from . import seeds
from .demands import captured, require_text
from .file_mutations import mutated_below, mutated_files
from .inputs import Entry, Files, Place, read_folder
from .pages import require_page
from .sources import sources
from .verbs import run_verb

EARLIER = "earlier.json"
ORIGIN = "origin"
REPORTS = "since"
CHANGED = "b/step-000001.safetensors"


def mutated_earlier(draw: Random, known: Sequence[Files]) -> Files:
    """Returns an input whose earlier file is another, and all that is there now as it was."""
    return mutated_files(draw, draw.choice(known), known, (EARLIER,))


# ---- a result


def results(folder: Path) -> list[Files]:
    """Returns two traces with the results of both, of others, and of an error."""
    same, other = folder / "same", folder / "other"
    for name in ("a", "b"):
        _lay(folder / "same" / name, seeds.without_rows(seeds.trace)(folder / "made"))
        _lay(folder / "other" / name, seeds.without_rows(seeds.trace)(folder / "made"))
    _change(other / CHANGED)
    found = []
    for earlier in (same, other):
        run_verb(compare, earlier / "a", earlier / "b", "--json", folder / EARLIER)
        text = (folder / EARLIER).read_bytes()
        # Asked for once, for it starts git.
        origin = json.dumps(json.loads(text)["provenance"]).encode()
        found += [{**read_folder(now), EARLIER: text, ORIGIN: origin} for now in (same, other)]
    return found


def _lay(folder: Path, files: Files) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    Place(folder).lay(files)


def _change(path: Path) -> None:
    found = {
        name: value + 1 if name.startswith("grad/") else value for name, value in decode(path.read_bytes()).items()
    }
    write_tensors(path, found)


def compare_since(place: Place, files: Files) -> None:
    """Compares with what was found earlier, in every form of a report."""
    folder, out = place.lay(files), place.folder.parent / REPORTS
    earlier = read_earlier(folder / EARLIER)
    result = _result_of(folder, files)
    result.since = changes_since(folder / EARLIER, earlier, result)
    write_json(result, out / "new.json")
    for write, name in ((write_html, "html"), (write_markdown, "markdown"), (write_junit, "junit")):
        write(result, out / f"new.{name}", "now")
    with captured() as shown:
        report(result, "now")
    require_text(shown.getvalue())
    require_page(out / "new.html")


_RESULTS: dict[Entry, Result] = {}


def _result_of(folder: Path, files: Files) -> Result:
    # Of what is there now, which no stranger has written: judged once.
    key = files[CHANGED]
    if key not in _RESULTS:
        _RESULTS[key] = compare_traces(folder / "a", folder / "b")
        _RESULTS[key].provenance = json.loads((folder / ORIGIN).read_bytes())
    return _RESULTS[key]


# ---- a scan


def scans(folder: Path) -> list[Files]:
    """Returns scripts with what a scan of them has found."""
    found = []
    for text in sources()[:3]:
        _lay(folder, {"x.py": text})
        run_verb(scan, folder / "x.py", "--json", folder / EARLIER)
        found.append(read_folder(folder))
    return found


def scan_since(place: Place, files: Files) -> None:
    """Scans what an earlier scan has looked at."""
    folder = place.lay(files)
    run_verb(scan, folder / "x.py", "--baseline", folder / EARLIER)


# ---- a port


def ports(folder: Path) -> list[Files]:
    """Returns a trace with the port that was written of it, as it was and edited."""
    _lay(folder / "trace", seeds.script(folder / "made"))
    run_verb(port, folder / "trace", "--out", folder / "port", "--no-prove", "--quiet")
    shutil.rmtree(folder / "made")
    whole = read_folder(folder)
    edited = {name: entry for name, entry in whole.items() if name.endswith("port.py") and isinstance(entry, bytes)}
    return [whole, {**whole, **{name: entry + b"# edited\n" for name, entry in edited.items()}}]


def mutated_port(draw: Random, known: Sequence[Files]) -> Files:
    """Returns an input whose earlier port is another: mostly its list of files, which is all that is believed of it."""
    return mutated_below(draw, draw.choice(known), "port", (), (MANIFEST,) if draw.random() < 0.6 else ("",))


def port_again(place: Place, files: Files) -> None:
    """Writes a port where an earlier one is."""
    # In a folder that is new each time: what is written here is no input's.
    folder = Place(place.folder.parent / "ported").lay(files)
    run_verb(port, folder / "trace", "--out", folder / "port", "--no-prove", "--quiet")
