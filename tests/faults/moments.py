"""The moments of each command: what a process is about to do when the fault comes."""

from typing import NamedTuple

TF, TORCH = "tf_towers.worker", "torch_ddp.worker.main"  # words of the sides' command lines
RANK, RECORDER, SHADOW = "multiprocessing", "tf_towers.record", "tf_towers.shadow"
STEP = "TraceWriter.step"


class Moment(NamedTuple):
    """A point of a process, as `hooks` takes it.

    Fields:
      command, name: as cells have them.
      module: whose import is waited for.
      function: of that module; "" for the import itself.
      process: word of the command line of the process.
      after: whether the function has ended then.
      calls: number of the call, from 1.
      whose: which process stands there, "command" or "child".
    """

    command: str
    name: str
    module: str
    function: str = ""
    process: str = "parity.cli"
    after: bool = False
    calls: int = 1
    whose: str = "command"

    def point(self) -> dict[str, object]:
        """Returns what `hooks` reads."""
        return {
            "module": self.module,
            "name": self.function,
            "process": self.process,
            "after": self.after,
            "calls": self.calls,
        }


def _child(command: str, name: str, module: str, function: str, process: str, calls: int = 1) -> Moment:
    return Moment(command, name, module, function, process, calls=calls, whose="child")


def _sides(command: str) -> list[Moment]:
    return [
        _child(command, "torch-import", "torch", "", TORCH),
        _child(command, "candidate", "parity.trace.writer", STEP, TORCH, 2),
        Moment(command, "rename", "parity.report.atomic", "Path.replace"),
    ]


WRITER = "parity.trace.writer"
FILES = "torch_ddp.checkpoint.files"
MOMENTS = (
    Moment("run", "start", "parity.cli.output", "claim_report_files", after=True),
    _child("run", "tf-import", "tensorflow", "", TF),
    _child("run", "reference", WRITER, STEP, TF, 2),
    Moment("run", "judge", "parity.experiment.session", "_judge"),
    *_sides("run"),
    _child("bare", "reference", WRITER, STEP, TF, 2),
    _child("bare", "candidate", WRITER, STEP, TORCH, 2),
    Moment("bare", "judge", "parity.experiment.session", "_judge"),
    Moment("golden", "judge", "parity.experiment.session", "_judge"),
    *_sides("golden"),
    Moment("record", "start", "parity.worker.interpreters", "probe"),
    _child("record", "tf-import", "tensorflow", "", RECORDER),
    _child("record", "script", "tf_towers.record.script", "run_as_main", RECORDER),
    _child("record", "step", WRITER, STEP, RECORDER, 2),
    _child("record", "shadow-import", "tensorflow", "", SHADOW),
    _child("record", "shadow", WRITER, STEP, SHADOW),
    Moment("program", "start", "parity.record.record", "record_program"),
    _child("program", "import", "torch", "", "program.py"),
    _child("program", "step", WRITER, STEP, "program.py", 3),
    Moment("program", "merge", "parity.record.merge", "merge"),
    Moment("replay", "start", "parity.experiment.replay.session", "replay"),
    Moment("replay", "judge", "parity.experiment.replay.session", "_judge"),
    *_sides("replay"),
    Moment("port", "start", "parity.port.source.program", "port_of"),
    Moment("port", "rename", "parity.report.atomic", "Path.replace", calls=2),
    _child("port", "proof", WRITER, STEP, TORCH, 2),
    Moment("port", "end", "parity.port.as_json", "left_to_write"),
    Moment("train", "start", "torch", "", "trainer.py"),
    _child("train", "import", "torch", "", RANK),
    _child("train", "step", "trainer_update", "update", RANK, 2),
    _child("train", "save", FILES, "_refuse_code", RANK, 2),
    _child("train", "renamed", FILES, "_flush_folder", RANK, 2),
    _child("train", "end", "torch_ddp.process_group", "leave_process_group", RANK),
    Moment("compare", "rename", "parity.report.atomic", "Path.replace", calls=2),
)
