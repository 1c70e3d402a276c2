"""Tells people that a run has ended, failed, or does nothing: `notify=mail|command|webhook`.

A message that cannot be sent changes nothing of the run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from .. import env
from ..config.resolve import load_variables, resolve
from ..errors import LabError
from ..machine.secrets import hide_tokens
from ..project import Project, this_project
from ..record.atomic import read_json
from ..record.attempt_files import last_attempt
from ..record.columns import format_value
from ..record.cost_line import cost_line
from ..record.git import Git
from ..record.run import Run
from .notify_send import SENDERS, is_web_address


@dataclass(frozen=True)
class Message:
    """A message to the people that `notify` names.

    Args:
        event: finished, trained, failed, interrupted or idle.
        subject: one line.
        text: several.
    """

    event: str
    subject: str
    text: str


def check_notify(config: DictConfig, project: Project) -> None:
    """Makes sure that `notify` has what it needs, before anything is recorded.

    Raises:
        LabError: an address, a command or a package is missing, or an address would be recorded.
    """
    load_variables(project)
    notify: Any = config.get("notify") or {}
    if "mail" in notify:
        mail_address(notify.mail.to, project.root)
    if "command" in notify and not notify.command.run:
        raise LabError("notify=command needs a command: notify.command.run='mail -s run you@x.org'")
    if "webhook" in notify:
        check_variable(notify.webhook.variable)


def check_variable(name: str) -> None:
    """Makes sure that a variable holds the address of a webhook.

    Raises:
        LabError: it does not, or the address itself was typed.
    """
    if "://" in name:
        raise LabError(
            "notify.webhook.variable is an address, which would be recorded. "
            "Write it into .env: NOTIFY_URL=https://..."
        )
    url = os.environ.get(name, "")
    if "://" not in url:
        raise LabError(f"notify=webhook needs an address. Write it into .env: {name}=https://...")
    if not is_web_address(url) and importlib.util.find_spec("apprise") is None:
        scheme = url.partition(":")[0]
        raise LabError(f"{name}={scheme}://... needs the package apprise: make add PACKAGE=apprise")


def mail_address(to: str | None, root: Path) -> str:
    """The address that mail goes to.

    Raises:
        LabError: none is known.
    """
    address = to or Git(root).run("config", "user.email").stdout.strip()
    if "@" not in address:
        raise LabError("notify=mail needs an address: notify.mail.to=you@example.org")
    return address


def notify_end(config: DictConfig, run: Run, project: Project) -> None:
    """Tells how the last attempt of a run ended, unless it is continued by itself or by its user."""
    if not config.get("notify"):
        return
    try:
        tell_end(config, run, project)
    # Whatever goes wrong here, the run has ended as it has.
    except Exception as error:
        print_failure("notify", error)


def tell_end(config: DictConfig, run: Run, project: Project) -> None:
    summary: Any = read_json(run.dir / "summary.json") or {"metrics": {}}
    status = summary.get("attempt_status") or "failed"
    if status == "interrupted" and not is_left_alone(config, run):
        return
    lines = [
        *(f"{name} {format_value(value)}" for name, value in summary["metrics"].items()),
        summary.get("exception"),
        cost_line(run.dir),
        next_step(run, status),
    ]
    send_all(config, message_of(run, status, lines), project)


def next_step(run: Run, status: str) -> str:
    """What to type after the end of a run."""
    if status == "finished":
        return f"look: lab runs show {run.id}"
    attempt = last_attempt(run.dir)
    if attempt and "command" in attempt.start:
        return f"look: lab logs {run.id}"
    return f"resume: lab resume {run.id}"


def notify_idle(config: DictConfig, run: Run, project: Project, minutes: float) -> None:
    """Tells that the GPUs of a run do nothing."""
    lines = [
        f"Its GPUs did nothing for {minutes:.0f} minutes.",
        f"look: lab logs {run.id}",
        f"stop: lab cancel {run.id}",
    ]
    send_all(config, message_of(run, "idle", lines), project)


def is_left_alone(config: DictConfig, run: Run) -> bool:
    """Whether a job was stopped by its scheduler, which does not start it again."""
    by_scheduler = (run.dir / "requeue").exists() and env.JOB in os.environ
    return by_scheduler and config.site.requeue.method == "none"


def message_of(run: Run, event: str, lines: Sequence[str | None]) -> Message:
    text = "\n".join([*filter(None, lines), f"{os.uname().nodename}:{run.dir}"])
    return Message(
        event, f"{this_project().package}: {run.trial} {run.id} {event}", hide_tokens(text) + "\n"
    )


def send_all(config: DictConfig, message: Message, project: Project) -> None:
    """Sends a message by every way of `notify`. Each has a time limit; one that fails prints a line."""
    for way, settings in resolve(config).notify.items():
        if way == "mail" and scheduler_mails(config, message):
            continue
        try:
            SENDERS[way](message, prepared(way, settings, project))
        # A mail server or web server may fail in any way.
        except Exception as error:
            print_failure(f"notify={way}", error)


def print_failure(what: str, error: Exception) -> None:
    reason = hide_tokens(str(error).partition("\n")[0])
    print(f"lab: {what} failed: {type(error).__name__}: {reason}", file=sys.stderr)


def prepared(way: str, settings: DictConfig, project: Project) -> dict[str, Any]:
    """The settings of a way, with the address of a mail."""
    values: dict[str, Any] = {str(name): value for name, value in settings.items()}
    if way == "mail":
        values["to"] = mail_address(values["to"], project.root)
    return values


def scheduler_mails(config: DictConfig, message: Message) -> bool:
    """Whether the scheduler sends this mail itself: `lab submit` asked it to."""
    is_of_end = message.event != "idle"
    return is_of_end and env.JOB in os.environ and config.site.scheduler != "local"
