"""What a comparison found: checks, levels, verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from parity.exit_codes import ExitCode
from parity.judge.metrics import Worst
from parity.trace import SourceLine

if TYPE_CHECKING:
    from parity.judge.repeatability import Repeat
    from parity.judge.tensor_details import Closer, Losses

Verdict = Literal["same", "different", "incomparable", "not_run"]
Found = Literal["holds", "absent", "not_known"]
# As `diff` has them: 0 same, 1 different, 2 trouble.
EXIT_CODES: dict[Verdict, ExitCode] = {
    "same": ExitCode.SAME,
    "different": ExitCode.DIFFERENT,
    "incomparable": ExitCode.INCOMPARABLE,
    "not_run": ExitCode.INCOMPARABLE,
}
FLOAT32_ONLY = "only float32 was judged"
COMBINED_BY_TOOL = "combination: ours, not the port's"


class Check(NamedTuple):
    """One tensor of one step, judged.

    Fields:
      run: "fresh" (what an optimizer puts into its slots), "init" (after loading), "lockstep", "free" or "train" (the
        program of a port itself).
      step: its number.
      key: its name in the reference's trace, e.g. "grad/conv1/kernel".
      verdict: what it is; "not_run" where it was skipped, with the reason in `note`.
      difference: norm of candidate minus reference.
      allowed: the largest difference that counts as rounding.
      scale: the size of what was summed or updated, for a difference in units of it.
      size: norm of the reference.
      note: why it is skipped or incomparable, or what makes it special.
      constant: whether all elements of the reference are one number, and there are several.
    """

    run: str
    step: int
    key: str
    verdict: Verdict
    difference: float = 0.0
    allowed: float = 0.0
    scale: float = 0.0
    size: float = 0.0
    note: str = ""
    constant: bool = False

    @property
    def multiple(self) -> float:
        """The difference in multiples of what is allowed."""
        # 0 of 0 is no difference: exact tensors are allowed nothing and need nothing.
        if self.difference == 0.0:
            return 0.0
        # A difference where nothing is allowed has no finite multiple: it stands before all others in lists of the
        # worst.
        return self.difference / self.allowed if self.allowed > 0.0 else float("inf")

    @property
    def of_scale(self) -> float:
        """The difference in units of the scale."""
        if self.difference == 0.0:
            return 0.0
        return self.difference / self.scale if self.scale > 0.0 else float("inf")


@dataclass(frozen=True)
class FirstDifference:
    """Where two runs differ first.

    Attributes:
      check: the judged tensor.
      quantity, name, tower: its name taken apart.
      worst: the element that differs most, or None where there is nothing to show (a missing tensor).
      where: in words, where the forward passes of both sides part, as far as that is known.
      decisive: of a layer that was found by itself, the first difference that decides, which the trace holds.
      module: path of the port's module whose own call is wrong first, "" for its model or loss; None where not known.
      next_module: where that one has modules of its own, the path of the next of them whose output is wrong; else None.
      lines: of the user's source, in the reference and in the candidate, that call what differs; None where not known.
    """

    check: Check
    quantity: str
    name: str
    tower: str
    worst: Worst | None
    where: str = ""
    decisive: "FirstDifference | None" = None
    module: str | None = None
    next_module: str | None = None
    lines: tuple[SourceLine | None, SourceLine | None] = (None, None)


class Explained(NamedTuple):
    """The difference that a cause explains, which need not be the first: a bug behind it has a difference of its own.

    Fields:
      step, key: the tensor that differs, by its name in the reference's trace.
      share: what part of that difference the cause explains, 0 to 1; None where that was not measured.
    """

    step: int
    key: str
    share: float | None = None

    @property
    def sentence(self) -> str:
        """All of it in words, e.g. "99.99% of loss/0 at step 1"."""
        # Differences are named by tensor and step, which a trace can be opened at.
        where = f"{self.key} at step {self.step}"
        if self.share is None:
            return f"{where}; how much of it was not measured"
        return f"{_percent(self.share)} of {where}"


def _percent(share: float) -> str:
    # Six digits are printed: what rounds to 100 of them is all.
    return "all" if share >= 1 - 1e-6 else f"{100 * share:.6g}%"


@dataclass(frozen=True)
class Cause:
    """A hypothesis that the numbers support.

    Attributes:
      name: its identifier, e.g. "sum_instead_of_mean".
      title: the same in words.
      evidence: the figures.
      fix: the mend, in one line.
      explains: which difference, and what part of it; None where that is told by the evidence alone.
      op: number of the port's op that does otherwise, in the forward pass that shows it; None where that is not known.
    """

    name: str
    title: str
    evidence: str
    fix: str
    explains: Explained | None = None
    op: int | None = field(default=None, kw_only=True)

    def is_of(self, first: "FirstDifference") -> bool:
        """Returns whether it explains that difference, at its layer or as the trace has it, rather than another one."""
        # Causes name the tensor that they were found by: the layer that was located, or what the trace holds of it.
        told = [first, *([first.decisive] if first.decisive else [])]
        return self.explains is None or self.explains[:2] in [(each.check.step, each.check.key) for each in told]


def own_first(causes: Sequence[Cause], first: FirstDifference | None) -> list[Cause]:
    """Returns causes in their order, but those of the first difference ahead of those of other ones."""
    # Stable: within both groups the order stays.
    return sorted(causes, key=lambda cause: first is not None and not cause.is_of(first))


class DeclaredDifference(NamedTuple):
    """What a case declares that the port does otherwise on purpose, and what became of it.

    Fields:
      key: of the case's [expect].
      text: what it is, in words.
      by: who declared it.
      why: their reason.
      found: "holds" where the port does exactly that and all else is same; "absent" where it does not do it;
        "not_known" where the sides differ otherwise.
    """

    key: str
    text: str
    by: str
    why: str
    found: Found

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        found = {"holds": "which holds", "absent": "WHICH IS NOT THERE", "not_known": "of which nothing is known"}
        return f"declared by {self.by}: {self.text}, {found[self.found]} ({self.why})"


class ChangeSince(NamedTuple):
    """One thing that is not as it was in an earlier run.

    Fields:
      topic: "error", "verdict", "level", "first difference", "cause", "tensor", "fact" or "provenance".
      name: which of them, "" where there is one only.
      before, after: what it was and what it is, in words; "" where there was or is none.
    """

    topic: str
    name: str
    before: str
    after: str


class Since(NamedTuple):
    """What changed since an earlier run.

    Fields:
      file: its JSON report, as it was named.
      time: when that was written, UTC, ISO 8601; "" where it does not say.
      changes: most important first.
      left_out: how many tensors and facts changed that are not among them.
    """

    file: str
    time: str
    changes: Sequence[ChangeSince]
    left_out: int = 0


@dataclass(frozen=True)
class Level:
    """The verdict of one level.

    Attributes:
      name: "function", "float32", "trajectory" or "mixed".
      verdict: of the level.
      reason: one sentence.
      checks: all of it.
      first_difference: where it differs first.
      causes: hypotheses that hold, best first.
      notes: facts that the verdict rests on.
    """

    name: str
    verdict: Verdict
    reason: str
    checks: Sequence[Check] = ()
    first_difference: FirstDifference | None = None
    causes: Sequence[Cause] = ()
    notes: Sequence[str] = ()

    def with_notes(self, *notes: str) -> "Level":
        """Returns the level with notes behind its own."""
        return replace(self, notes=[*self.notes, *notes])


@dataclass
class Result:
    """The outcome of a comparison.

    Attributes:
      levels: by name, those that were not run included.
      reference, candidate: the facts of both sides.
      pairs: the mapping in force, as text: reference, candidate, transform, why.
      notes: what the reader should know beside the verdict.
      closer: tensors looked at closely, where that was asked for.
      losses: the losses of each level's run, likewise.
      declared: differences declared on purpose, which the verdict sets aside.
      repeats: how far each side is from itself, where that was tried.
      reproduction: the scripts that show the first difference alone, where they were asked for.
      unjudged: what was asked for and not decided, each in a phrase.
      provenance: where the report comes from, as `parity.report.provenance` says it; {} where no command writes it.
      float32_only: why level 1 was not decided though it was asked for, else "".
      since: what changed since an earlier run, where one was named.
    """

    levels: dict[str, Level]
    reference: dict[str, Any]
    candidate: dict[str, Any]
    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    closer: "list[Closer]" = field(default_factory=list)
    losses: "list[Losses]" = field(default_factory=list)
    declared: list[DeclaredDifference] = field(default_factory=list)
    repeats: "list[Repeat]" = field(default_factory=list)
    reproduction: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    float32_only: str = ""
    provenance: dict[str, Any] = field(default_factory=dict)
    since: Since | None = None

    @property
    def verdict(self) -> Verdict:
        """A difference found anywhere decides; then anything that could not be compared; then sameness."""
        found = {level.verdict for level in self.levels.values()}
        # By what weighs most: one tensor that differs decides, whatever could not be compared.
        for verdict in ("different", "incomparable", "same"):
            if verdict in found:
                return verdict
        return "incomparable"

    @property
    def exit_code(self) -> int:
        """0 same, 1 different, 2 could not compare: as `diff`. In float32 alone a small bug is the same: that is no 0."""
        # Level 1 was asked for and could not be decided: float32 alone lets small bugs pass, which must not look like
        # success.
        return ExitCode.INCOMPARABLE if self.verdict == "same" and self.float32_only else EXIT_CODES[self.verdict]

    @property
    def strict_exit_code(self) -> int:
        """The same, but 2 where anything that the verdict seems to cover was not judged."""
        # A strict reader takes what was not judged for what may be wrong.
        return ExitCode.INCOMPARABLE if self.verdict == "same" and self.not_judged else self.exit_code

    @property
    def qualifiers(self) -> list[str]:
        """What the line of the verdict has to say beside "same": of float32 alone, gradients combined by the tool."""
        # Where the tool combines gradients, a port that forgets to do so is not seen.
        combined = int(self.candidate.get("ranks", 1)) > 1 and self.candidate.get("combination") == "tool"
        return [FLOAT32_ONLY] * bool(self.float32_only) + [COMBINED_BY_TOOL] * combined

    @property
    def not_judged(self) -> list[str]:
        """What a strict reader misses: the qualifiers, and what was asked for and not decided."""
        return [*self.qualifiers, *self.unjudged]

    @property
    def verdict_in_words(self) -> str:
        """The verdict as its line has it, e.g. "same (combination: ours, not the port's)"."""
        qualified = self.verdict == "same" and self.qualifiers
        return f"same ({'; '.join(self.qualifiers)})" if qualified else self.verdict

    @property
    def first_difference(self) -> FirstDifference | None:
        """The first difference of the first level that has one."""
        # Levels stand in the order in which they decide: function, float32, trajectory, mixed.
        return next((level.first_difference for level in self.levels.values() if level.first_difference), None)

    @property
    def causes(self) -> list[Cause]:
        """The causes of the first level that names any."""
        return next((list(level.causes) for level in self.levels.values() if level.causes), [])


def decide(checks: Sequence[Check]) -> Verdict:
    """Returns the verdict over checks: different before incomparable before same; none compared is incomparable."""
    found = {check.verdict for check in checks}
    for verdict in ("different", "incomparable", "same"):
        if verdict in found:
            return verdict
    return "incomparable"


def what_differs(checks: Sequence[Check]) -> str:
    """Returns in words how many of the tensors that were judged are not the same; empty where all of them are."""
    # What was set aside, with a note that says why, is neither right nor wrong.
    judged = [check for check in checks if check.verdict != "not_run"]
    wrong = sum(check.verdict != "same" for check in judged)
    return f"{wrong:,} of {len(judged):,} tensors are not the same" if wrong else ""
