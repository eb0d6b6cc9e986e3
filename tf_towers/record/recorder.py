"""Records a script's own training steps from inside its `Session.run`, and writes the trace."""

import functools
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.client import session as session_module

from parity.trace import Ownership, reduce_value
from parity.trace.arrays import Tensors
from tf_towers.record.fed_values import as_fed
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.hooks import Calls, Patches, keep_iterations_in_order, stand_in_for_gpus
from tf_towers.record.inputs import share_of
from tf_towers.record.observe import BEFORE, NOT_OURS, Watch, can_be_watched, compute, fetched_inside
from tf_towers.record.plan import RecordPlan, Section, fed_beside_placeholders, fetched_by
from tf_towers.record.planner import Planner
from tf_towers.record.recorded_steps import RecordedSteps
from tf_towers.record.variables import read_variables
from tf_towers.tf_types import Graph, Session

WAIT_SECONDS = 300.0  # far more than a step takes that does not wait for the next one

WAITING = (
    "expected training runs that each end by themselves, got a thread's that did not end in %g s while another thread's "
    "waited for it: recorded steps are made one after the other, and these wait for each other. Train in one thread"
)
IN_THREADS = (
    "Each thread updates the weights by itself and in no order with the others: asynchronous training, which no port under "
    "DDP repeats. The steps are recorded one after the other, in the order in which they were made."
)


class RecordError(RuntimeError):
    """A script trains in a way that cannot be recorded."""


class Recorder:
    """Watches sessions; every run that makes an update is a step of the trace.

    The script's own run is made once. Variables are read in runs of their own, before and after it; losses and gradients are
    computed as `tf_towers.record.observe` decides. In a process that the script forks nothing is recorded.

    Args:
      out: folder of the trace.
      steps: number of steps to record, or None for all.
      skip: number of training steps that go by before the first is recorded.
      on_enough: function without arguments, called after the last step that is to be recorded.
      on_failure: function of an exception of ours; the script goes on without us when it returns.
      on_step: function of the `RecordedSteps`, called after every step that is recorded.

    Attributes:
      calls: the `Calls` of the script.
      seen: number of training steps that the script has made.
      failed: whether recording stopped early.
      left_out: dict of what is not recorded to the reason.

    Raises:
      TraceError: another process writes a trace to `out`.
    """

    def __init__(
        self,
        out: str,
        steps: Optional[int],
        skip: int,
        on_enough: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        on_step: Callable[[RecordedSteps], None] = lambda steps: None,
    ) -> None:
        self._ownership = Ownership(out)
        self.calls = Calls()
        self.seen = 0
        self.left_out: Dict[str, str] = {}
        self._steps, self._skip = steps, skip
        self._on_enough, self._on_failure, self._on_step = on_enough, on_failure, on_step
        self._patches = Patches()
        self._lock, self._planning = threading.RLock(), threading.RLock()
        self._since = 0.0
        self._threads: List[str] = []
        self._watch = Watch()
        self._planner = Planner(self.calls, self.left_out, self._watch.works)
        self._trace = RecordedSteps(out, self._planner)
        self._after: Optional[Tensors] = None
        self.failed = False
        self._touched = False
        self._unseen = False
        self._session = None
        # As it was before it is wrapped: runs of our own are no steps of the script.
        self._run = session_module.BaseSession.run

    @property
    def of_this_process(self) -> bool:
        """Whether the trace is this process's, and not that of one that this was forked from."""
        return self._ownership.held

    @property
    def recorded(self) -> int:
        """Number of steps in the trace."""
        return self._trace.count

    @property
    def hazards(self) -> Dict[Tuple[str, str], Hazard]:
        """The hazards found so far, a dict of ``(name, evidence)`` to `Hazard`, in the order of finding."""
        return self._trace.hazards

    @property
    def sections(self) -> List[Section]:
        """The list of `Section` that trained."""
        return self._trace.sections

    def clip_never_in_effect(self, section: Section) -> bool:
        """Tells whether a `Section` clips, and never did so to any effect in the recorded steps."""
        return self._trace.clip_never_in_effect(section)

    def install(self) -> None:
        """Starts to watch."""
        self.calls.install()
        # Before the script builds anything: a session has no use for attributes that change once it has run an op.
        keep_iterations_in_order(self._patches)
        self._patches.wrap(session_module.BaseSession, "run", self._watched_run)
        self._patches.wrap(session_module.BaseSession, "make_callable", self._watched_callable)
        self._patches.wrap(session_module.BaseSession, "__init__", self._softly_placed)

    def stand_in_for_gpus(self, count: int) -> None:
        """Has the script find `count` GPUs wherever it counts them."""
        stand_in_for_gpus(self._patches, count)
        self._trace.gpus = count

    def finish(self, whole: bool) -> bool:
        """Stops watching; marks the trace complete where the script ended `whole`.

        Returns:
          Whether there is a trace.

        Raises:
          OSError: it cannot be written any more; it stays incomplete.
        """
        self._patches.undo()
        self.calls.remove()
        self._watch.close()
        try:
            if whole and not self.failed and self._trace.begun:
                self._trace.close(self._so_far())
        finally:
            self._ownership.release()
        return self._trace.begun

    def _watched_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(
            session: Session, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
        ) -> Any:
            plan = self._planned(session, fetches, feed_dict)
            if plan is None:
                self._touched = True
                try:
                    return original(session, fetches, feed_dict, options, run_metadata)
                finally:
                    self._touched = True  # it may have gone on while another thread's step was read
            # Recorded are whole steps, one after the other, whichever threads they come from.
            if not self._begun():
                self._give_up(RecordError(WAITING % WAIT_SECONDS))
                return original(session, fetches, feed_dict, options, run_metadata)
            try:
                return self._step(session, plan, fetches, feed_dict, options, run_metadata)
            finally:
                self._lock.release()

        return run

    def _begun(self) -> bool:
        """Takes the lock; tells whether it was to be had before the step that another thread makes took too long."""
        # One second at a time: the clock starts anew with every step that another thread ends.
        while not self._lock.acquire(timeout=min(1.0, WAIT_SECONDS)):
            if time.time() - self._since > WAIT_SECONDS:
                return False
        self._since = time.time()
        return True

    def _watched_callable(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def make_callable(
            session: Session, fetches: Any, feed_list: Any = None, accept_options: bool = False
        ) -> Callable[..., Any]:
            if accept_options or self._planned(session, fetches) is None:
                # A callable goes past `run`: from now on a variable may change between two steps without a run that is
                # seen.
                self._unseen = True
                return original(session, fetches, feed_list, accept_options)

            def run(*values: Any) -> Any:
                return session.run(fetches, dict(zip(feed_list or (), values)))

            return run

        return make_callable

    def _softly_placed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def init(session: Session, target: str = "", graph: Graph = None, config: Any = None) -> None:
            # Towers that are pinned to GPUs fail without it where there are none; 33 of 58 codebases turn it on
            # themselves.
            ours = config is None or isinstance(config, tf.ConfigProto)  # TensorFlow itself refuses anything else
            if ours and not (config and config.allow_soft_placement):
                # A copy: the script may open further sessions with its own, or print it.
                own = tf.ConfigProto()
                if config is not None:
                    own.CopyFrom(config)
                own.allow_soft_placement = True
                self._trace.soft_placement = "turned on by the recorder"
                config = own
            original(session, target, graph, config)

        return init

    def _planned(self, session: Session, fetches: Any, feed_dict: Any = None) -> Optional[RecordPlan]:
        if not self.of_this_process:
            return None
        # Before the first gradient nothing trains: initialising and restoring are not looked at.
        if self.failed or not self.calls.gradients or (self._steps is not None and self.recorded >= self._steps):
            return None
        try:
            fetched = fetched_by(session.graph, fetches)
            if fetched is None:
                return None
            # A lock of its own: a step may wait for what another thread's run puts into a queue.
            with self._planning:
                self._trace.fetched(each.name for each in fetched)
                return self._planner.plan(session.graph, fetched, fed_beside_placeholders(session.graph, feed_dict))
        except Exception as error:
            self._give_up(error)
            return None

    def _step(
        self, session: Session, plan: RecordPlan, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        recording = self.seen >= self._skip and not self.failed
        before, error = self._tried(self._before, session, plan, feed_dict) if recording else (None, None)
        if before is None:
            # What is wrong with a feed is the script's to find out, in its own run and with its own traceback.
            values = self._run(session, fetches, feed_dict, options, run_metadata)
            self.seen += 1
            if error is not None:
                self._give_up(error)
            return values
        self._look_at_thread()
        extra = fetched_inside(plan.observed)
        options = self._watching(session, plan, options)
        # With nothing to be fetched beside it, the script's run is the very same call.
        if extra:
            values, found = self._run(session, [fetches, extra], feed_dict, options, run_metadata)
        else:
            values, found = self._run(session, fetches, feed_dict, options, run_metadata), []
        self.seen += 1
        if self.failed:
            return values
        error = self._tried(self._after_step, session, plan, before, found, feed_dict)[1]
        if error is not None:
            self._give_up(error)
        else:
            self._on_step(self._trace)
        if self._steps is not None and self.recorded >= self._steps:
            self._on_enough()
        return values

    def _watching(self, session: Session, plan: RecordPlan, options: Any) -> Any:
        if not plan.watched:
            return options
        if not can_be_watched(session, options):
            self.left_out.update(dict.fromkeys(plan.watched, NOT_OURS))
            return options
        return self._watch.options(list(plan.watched.values()), options)

    def _observed(self, session: Session, plan: RecordPlan, state: Tensors, found: Any, feed_dict: Any) -> Tensors:
        tensors = compute(functools.partial(self._run, session), plan.observed, state, found, feed_dict)
        reduced = {key: reduce_value(tensors[key], each) for key, each in plan.reductions.items() if key in tensors}
        shares = {key: share_of(tensors[key], *share) for key, share in plan.shares.items() if key in tensors}
        return dict(tensors, **reduced, **shares)

    def _tried(self, function: Callable[..., Any], *arguments: Any) -> Tuple[Any, Optional[Exception]]:
        # The script must not notice what goes wrong here: its output and exit code are its own.
        try:
            return function(*arguments), None
        except Exception as error:
            return None, error

    def _give_up(self, error: BaseException) -> None:
        self.failed = True
        self._on_failure(error)

    def _before(self, session: Session, plan: RecordPlan, feed_dict: Any) -> Tuple[Tensors, Optional[Tensors]]:
        if session is not self._session:
            self._session, self._after = session, None
        # Saves one of two reads of all variables in each step.
        if self._after is not None and not self._touched and not self._unseen:
            state = self._after  # nothing has run since it was read
        else:
            state = self._read(session)
            self._compare_with_last(state)
        self._touched = True  # until the script's run has ended well
        early = plan.observed.mode == BEFORE
        return state, self._observed(session, plan, state, [], feed_dict) if early else None

    def _look_at_thread(self) -> None:
        name = threading.current_thread().name
        if name not in self._threads:
            self._threads.append(name)
        if len(self._threads) == 2:
            what = f"training runs come from several threads, e.g. {self._threads[0]} and {self._threads[1]}"
            self._trace.keep([Hazard("trained_in_threads", what, IN_THREADS)])

    def _read(self, session: Session) -> Tensors:
        return read_variables(functools.partial(self._run, session), self._planner.variables.keys)

    def _compare_with_last(self, state: Tensors) -> None:
        last = self._after or {}
        # By bytes: NaN is the same as NaN then, and -0.0 another number than 0.0.
        changed = [
            name
            for name, value in state.items()
            if name in last and np.asarray(value).tobytes() != np.asarray(last[name]).tobytes()
        ]
        if changed:
            what = f"between two steps the script changed {changed[0]}"
            meaning = "It writes variables outside its train op: the port has to do the same between its steps."
            self._trace.keep([Hazard("changed_between_steps", what, meaning)])

    def _after_step(
        self, session: Session, plan: RecordPlan, before: Tuple[Tensors, Optional[Tensors]], found: Any, feed_dict: Any
    ) -> None:
        state, tensors = before
        self._touched = False
        after = self._read(session)
        if tensors is None:
            tensors = self._observed(session, plan, state, found, feed_dict)
        draws, missed = self._watch.stacked({k: each for k, each in plan.watched.items() if k not in self.left_out})
        self.left_out.update(missed)
        tensors = dict(tensors, **as_fed(plan.given, feed_dict))
        self._trace.step(session, plan, state, dict(tensors, **draws), after, self._so_far())
        self._after = after

    def _so_far(self) -> Dict[str, int]:
        return {"skipped_steps": self._skip, "steps_of_the_script": self.seen}
