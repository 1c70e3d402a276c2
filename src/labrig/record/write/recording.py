"""Records a training: begins an attempt, touches its heartbeat, and ends it in any case.

When one of several processes ends, the others lose their connection to it and fail too. Each writes what
ended it into attempts/<n>/failed-<rank>.json. The first process, which has the record, takes the earliest
reason: never a lost connection where another process wrote why it ended.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

from ... import env
from ...config.schema import all_settings
from ...errors import Failed, LabError
from ...failure import debugging, describe, is_interruption, shown_path
from ...machine.disk import explain_disk_error
from ...project import Project
from ..files.atomic import read_advisory
from ..files.manifest import write_listed
from ..files.schema import RaisedError, StartRecord
from ..freeze.imported import Policy
from ..freeze.loading import OWN
from ..read.attempt_files import further_nodes, read_attempts
from ..read.run import Run
from ..read.status import CANCELLED
from .attempt import TRACEBACK, Attempt, describe_exception, write_traceback
from .begin import prepare_attempt, withdraw_attempt
from .claim import is_superseded
from .ran import DEFAULT_POLICY, RanCode, code_of_attempt, imported_code

HEARTBEAT_S = 30


class Recording:
    """What a training adds to the record of its attempt; only the first rank writes it.

    `earlier` is start.json of the run's first attempt. What the training puts into `metrics` and
    `measured` is written when the attempt ends. `ran` is the code that this process runs.

    `tested` names what the test measured; False: no test; None: the project's train.py has not said it.

    The attempt of a resumed run begins when its parts are built: what cannot be built leaves the
    run as it was.
    """

    def __init__(
        self,
        attempt: Attempt | None,
        n: int,
        earlier: StartRecord,
        ran: RanCode | None = None,
    ) -> None:
        self.attempt = attempt
        self.n = n
        self.earlier = earlier
        self.ran = ran or RanCode()
        self.metrics: dict[str, float] = {}
        self.measured: dict[str, Any] = {}
        self.tested: list[str] | bool | None = None
        self.has_started = False

    def begin(self, **facts: Any) -> None:
        """Makes the attempt a part of the record, if it is none yet, and adds facts to start.json."""
        self.note(**facts)
        if self.has_started:
            return
        self.has_started = True
        if self.attempt:
            self.attempt.start()

    def note(self, **facts: Any) -> None:
        """Adds to start.json, now or once the attempt has begun."""
        if self.attempt and self.has_started:
            self.attempt.note(**facts)
        elif self.attempt:
            self.attempt.facts |= facts

    @property
    def fit_finished(self) -> bool:
        """Whether the fit is over and only the test of its weights can go wrong."""
        return "global_step" in self.measured

    def check_code(self) -> None:
        """Makes sure that the code which runs is the code which was frozen, and records it.

        To be called once all parts are built, before the training.
        """
        self.note_ran(self.ran.check())

    def note_ran(self, code_facts: dict[str, Any]) -> None:
        """Adds to start.json what was imported."""
        if self.attempt:
            self.note(code=self.attempt.facts.get("code", {}) | code_facts)


@contextmanager
def record_attempt(
    run: Run,
    project: Project,
    env_policy: str,
    policy: Policy = DEFAULT_POLICY,
    *,
    elsewhere: Sequence[Path] = (),
    when_built: bool = False,
    **facts: Any,
) -> Iterator[Recording]:
    """Records an attempt and ends it: finished, trained, interrupted or failed, with the reason.

    Args:
        env_policy: see `prepare_attempt`.
        policy: what to do about files that the freeze left out.
        elsewhere: directories of runs, data and caches, where files that are only read do not count.
        when_built: start the attempt when the parts of the training are built; else at once.
        facts: for start.json.
    """
    all_settings()["record.code"].check(policy.code, "record_attempt")
    all_settings()["record.unfrozen"].check(policy.unfrozen, "record_attempt")
    attempt = prepare_attempt(run, project, env_policy)
    attempt.facts |= facts
    # True once it was compared with what runs: an attempt that is killed before never says so.
    attempt.facts["code"] = attempt.facts["code"] | {"complete": False}
    earlier = read_attempts(run.dir)
    start: Any = attempt.facts
    OWN.report_to(attempt.dir, is_owner=True)
    imported = imported_code(project, code_of_attempt(run, start))
    ran = RanCode(imported, policy, elsewhere)
    recording = Recording(attempt, attempt.n, earlier[0].start if earlier else {}, ran)
    if not when_built:
        recording.begin()
    os.environ[env.RUN_DIR] = str(run.dir)
    os.environ[env.ATTEMPT] = str(attempt.n)
    stop = threading.Event()
    threading.Thread(target=keep_heartbeat, args=(attempt, stop), daemon=True).start()
    try:
        try:
            yield recording
        finally:
            # On a full disk, the end of the attempt reports it.
            with suppress(OSError):
                recording.note_ran(ran.check_late())
            OWN.end_reports()
    except BaseException as error:
        reason = end_badly(run, recording, attempt, error)
        shown = error_to_show(error, run, recording, attempt, reason)
        if shown is error or debugging():
            raise
        raise shown from error
    else:
        recording.begin()
        attempt.end("finished", recording.metrics, **recording.measured)
    finally:
        stop.set()
        os.environ.pop(env.RUN_DIR, None)
        os.environ.pop(env.ATTEMPT, None)


def end_badly(
    run: Run, recording: Recording, attempt: Attempt, error: BaseException
) -> RaisedError | None:
    """Records how an attempt ended that `error` ended, and prints how the run continues.

    Returns:
        Why it failed, which may be the error of another process; None when it did not.
    """
    if not recording.has_started:
        withdraw_attempt(attempt)
        print(f"lab: {run.id} is as it was before", file=sys.stderr)
        return None
    status = status_for(error)
    reason = None
    if status == "failed":
        reason = first_reason(attempt, describe_exception(error))
    if recording.fit_finished:
        print(f"the training is finished, its test is not; to test: lab resume {run.id}")
        status = "trained"
    elif status == "interrupted":
        print(f"interrupted; {how_it_continues(run)}")
    try:
        attempt.end(
            status,
            recording.metrics,
            exception=error if reason else None,
            reason=reason,
            signal=signal_of(error),
            **recording.measured,
        )
    except OSError as obstacle:
        why = explain_disk_error(obstacle) or obstacle
        print(f"lab: how it ended could not be recorded: {why}", file=sys.stderr)
    return reason


def keep_heartbeat(attempt: Attempt, stop: threading.Event) -> None:
    """Touches the heartbeat from a thread, so that a long step does not look dead.

    A process that was stopped for so long that another one resumed the run ends here: two would
    write the same files.
    """
    while not stop.wait(HEARTBEAT_S):
        # On a full disk, the step that writes reports it.
        with suppress(OSError):
            attempt.touch_heartbeat()
        if is_superseded(attempt.run_dir, attempt.n):
            print(f"lab: another process has resumed {attempt.run_dir.name}", file=sys.stderr)
            os._exit(1)


def status_for(error: BaseException) -> str:
    """The status of an attempt that `error` ended: interrupted or failed."""
    if is_interruption(error):
        return "interrupted"
    if isinstance(error, LabError) and error.exit_code in (0, 130):
        return "interrupted"
    return "failed"


def signal_of(error: BaseException) -> int | None:
    """The number of the signal behind `error`; None when it was none."""
    # Lightning ends the program after Ctrl-C; the interrupt is the context of that.
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
        return int(signal.SIGINT)
    return getattr(error, "signum", None)


def how_it_continues(run: Run) -> str:
    """Who continues an interrupted run: its job when a scheduler starts it again, else the user."""
    job = run.record.get("job") or {}
    has_scheduler = env.JOB in os.environ and job.get("scheduler") != "local"
    is_cancelled = (run.dir / CANCELLED).exists()
    if has_scheduler and (run.dir / "requeue").exists() and not is_cancelled:
        return "the job continues it"
    return f"continue with: lab resume {run.id}"


def error_to_show(
    error: BaseException,
    run: Run,
    recording: Recording,
    attempt: Attempt,
    reason: RaisedError | None,
) -> BaseException:
    """The exception that the user sees in place of `error`.

    Of an error that no message explains it is the last line of the project's own code, and the error.

    Args:
        reason: why the attempt failed, as it is recorded.
    """
    if is_interruption(error):
        return KeyboardInterrupt()
    if isinstance(error, LabError):
        # Exit code 2 promises that nothing was changed, but this attempt is in the record.
        is_mistake = error.exit_code == LabError.exit_code
        return Failed(str(error)) if is_mistake and recording.has_started else error
    if isinstance(error, OSError) and explain_disk_error(error):
        return Failed(
            f"{explain_disk_error(error, run.dir)}. The record and the last checkpoint are kept. "
            f"Then: lab resume {run.id}"
        )
    # Lightning's exception for a mistake of the user.
    if type(error).__name__ == "MisconfigurationException":
        return Failed(str(error)) if recording.has_started else LabError(str(error))
    if not recording.has_started:
        return Failed(f"LAB_DEBUG=1 shows the whole traceback of:\n{describe(error)}")
    if reason and reason["line"].startswith("rank "):
        text = "\n".join(filter(None, [reason["place"], reason["line"]]))
        return Failed(f"the training failed. Tracebacks: {shown_path(attempt.dir)}\n{text}")
    file = shown_path(attempt.dir / TRACEBACK)
    return Failed(f"the training failed. Its whole traceback:\n{file}\n{describe(error)}")


PATIENCE_S = 5.0  # until the last of the others has written its reason
# What gloo, NCCL and torch's store raise when a process is gone; of other types, such as the
# ConnectionRefusedError of a data base, a lost connection is a reason of its own.
OF_TORCH = ("RuntimeError", "DistError", "DistBackendError", "DistNetworkError", "DistStoreError")
LOST = re.compile(
    r"connection (?:was )?(?:closed|reset|refused)|broken pipe|socket closed|remote process exited|"
    r"ncclremoteerror|ncclsystemerror|unhandled system error|process group watchdog|recvvalue failed",
    re.IGNORECASE,
)


class RankFailure(TypedDict):
    """attempts/<n>/failed-<rank>.json."""

    rank: int
    host: str
    failed_unix_s: float
    error: RaisedError


def note_failure(run_dir: Path, n: int, rank: int, host: str, error: BaseException) -> Path:
    """Writes why another process than the first failed; the file that has its whole traceback."""
    folder = run_dir / "attempts" / str(n)
    failure = RankFailure(
        rank=rank, host=host, failed_unix_s=time.time(), error=describe_exception(error)
    )
    # On a full disk, what is printed matters more.
    with suppress(OSError):
        write_listed(run_dir, f"attempts/{n}/failed-{rank}.json", failure)
    traceback = folder / f"traceback-{rank}.txt"
    write_traceback(traceback, error)
    return traceback


def first_reason(attempt: Attempt, own: RaisedError) -> RaisedError:
    """Why an attempt failed: `own`, which ended the first process, or what ended another one before.

    The line of another process begins with its rank and host.
    """
    ranks = range(1, attempt.facts.get("world_size") or 1)
    own_unix_s = time.time()
    end_s = time.monotonic() + PATIENCE_S
    failures = read_failures(attempt.dir)
    while is_lost(own) and len(failures) < len(ranks) and time.monotonic() < end_s:
        time.sleep(0.1)
        failures = read_failures(attempt.dir)
    reasons = [
        each
        for each in failures
        if not is_lost(each["error"]) and each["error"]["line"] != own["line"]
    ]
    first = min(reasons, key=lambda each: each["failed_unix_s"], default=None)
    if first and (is_lost(own) or first["failed_unix_s"] < own_unix_s):
        place = f"rank {first['rank']} on {first['host']}"
        return RaisedError(
            type=first["error"]["type"],
            line=f"{place}: {first['error']['line']}",
            place=first["error"]["place"],
        )
    silent = sorted(set(ranks) - {each["rank"] for each in failures})
    if is_lost(own) and silent:
        killed = f"rank {silent[0]} on {host_of(attempt, silent[0])} ended without a word"
        line = f"{killed}: killed (signal 9: memory?), or its node failed. {own['line']}"
        return RaisedError(type=own["type"], line=line, place=own["place"])
    return own


def read_failures(attempt_dir: Path) -> list[RankFailure]:
    files = sorted(attempt_dir.glob("failed-*.json"))
    return [failure for file in files if (failure := read_advisory(file, RankFailure))]


def is_lost(error: RaisedError) -> bool:
    """Whether an error only says that another process is gone."""
    return error["type"] in OF_TORCH and bool(LOST.search(error["line"]))


def host_of(attempt: Attempt, rank: int) -> str:
    """The host of a rank; each node has the same number of them."""
    nodes = [attempt.facts, *further_nodes(attempt.dir)]
    n_ranks = attempt.facts["world_size"]
    return str(nodes[rank * len(nodes) // n_ranks]["host"])
