"""Tells people that a run has ended, failed, or does nothing: `notify=apprise|command`.

The package apprise sends mail and web messages, to the addresses in a variable that is not recorded.
A message that cannot be sent changes nothing of the run.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from ... import env
from ...config.resolve import load_variables, resolve
from ...errors import LabError, require_package
from ...machine.secrets import hide_tokens
from ...machine.text_formats import format_value
from ...project import Project, this_project
from ...record.files.atomic import read_advisory
from ...record.files.schema import SummaryRecord
from ...record.list.cost import cost_line
from ...record.read.attempt_files import last_attempt
from ...record.read.run import Run

COMMAND_S = 60.0  # limit of a command


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
    """Makes sure that `notify` has what it needs, before anything is recorded."""
    load_variables(project)
    notify: Any = config.get("notify") or {}
    if "command" in notify and not notify.command.run:
        raise LabError(
            "notify=command needs a command: \"notify.command.run='mail -s run you@x.org'\""
        )
    if "apprise" in notify:
        check_addresses(notify.apprise.variable)


def check_addresses(variable: str) -> None:
    """Makes sure that a variable holds addresses that apprise knows, and that no password goes in clear."""
    if "://" in variable:
        raise LabError(
            "notify.apprise.variable is an address, which would be recorded. "
            "Write it into .env: NOTIFY_URL=mailtos://..."
        )
    urls = os.environ.get(variable, "")
    if "://" not in urls:
        raise LabError(
            f"notify=apprise needs an address. Write it into .env: {variable}=mailtos://..."
        )
    require_package("apprise", "notify=apprise")
    for url in urls.split():
        _check_address(url, variable)


def _check_address(url: str, variable: str) -> None:
    scheme = url.partition(":")[0]
    services = list(_services(url))
    if not services:
        hint = "; for a server of your own: jsons://..." if scheme == "https" else ""
        raise LabError(
            f"{variable} has an address {scheme}://... that apprise does not know{hint}. "
            "All addresses: https://appriseit.com/services/"
        )
    for service in services:
        is_encrypted = service.secure and getattr(service, "secure_mode", "") != "insecure"
        if service.password and not is_encrypted:
            raise LabError(
                f"{variable} has an address {scheme}://... that sends its password in clear. "
                f"Write {scheme.removesuffix('s')}s://..., without mode=insecure"
            )


def _services(urls: str) -> Any:
    """The services of apprise for some addresses. None follows a redirect that its address does not ask for."""
    import apprise  # optional

    return apprise.Apprise(urls.split(), asset=apprise.AppriseAsset(http_redirects=False))


# How a message leaves this machine. Each way ends within a limit of time, or raises an error.


def send_by_apprise(message: Message, settings: dict[str, Any]) -> None:
    """To each address in the variable of the settings."""
    import apprise  # optional

    urls = os.environ[settings["variable"]]
    log: Any
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        if not _services(urls).notify(title=message.subject, body=message.text):
            reason = " ".join(log.getvalue().split())
            raise ConnectionError(_hide_addresses(reason, urls) or "apprise knows no such address")


def _hide_addresses(text: str, urls: str) -> str:
    for url in urls.split():
        text = text.replace(url.partition("://")[2], "...")
    return text


def run_command(message: Message, settings: dict[str, Any]) -> None:
    """By a command of the user's. The text is no part of it, so that the shell does not read it."""
    subprocess.run(
        settings["run"],
        shell=True,
        check=True,
        text=True,
        input=message.text,
        timeout=COMMAND_S,
        env=os.environ | {env.EVENT: message.event, env.SUBJECT: message.subject},
    )


SENDERS: dict[str, Callable[[Message, dict[str, Any]], None]] = {
    "apprise": send_by_apprise,
    "command": run_command,
}


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
    summary: Any = read_advisory(run.dir / "summary.json", SummaryRecord) or {"metrics": {}}
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
    load_variables(project)
    for way, settings in resolve(config).notify.items():
        try:
            SENDERS[way](message, {str(name): value for name, value in settings.items()})
        # A mail server or web server may fail in any way.
        except Exception as error:
            print_failure(f"notify={way}", error)


def print_failure(what: str, error: Exception) -> None:
    reason = hide_tokens(str(error).partition("\n")[0])
    print(f"lab: {what} failed: {type(error).__name__}: {reason}", file=sys.stderr)
