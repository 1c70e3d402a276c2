"""Tells people that a run has ended, failed, or does nothing: `notify=mail|command|webhook`.

A message that cannot be sent changes nothing of the run.
"""

from __future__ import annotations

import getpass
import json
import os
import smtplib
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ... import env
from ...config.resolve import load_variables, resolve
from ...errors import LabError, require_package
from ...machine.secrets import hide_tokens
from ...machine.text_formats import format_value
from ...project import Project, this_project
from ...record.files.atomic import read_json
from ...record.files.schema import SummaryRecord
from ...record.freeze.git import Git
from ...record.list.cost import cost_line
from ...record.read.attempt_files import last_attempt
from ...record.read.run import Run

# How a message leaves this machine: by mail, by a command, or to a web address.
#
# Each way ends within a limit of time, or raises an error.

TIMEOUT_S = 10.0  # of a server's answer
COMMAND_S = 60.0  # of a command
PORT, PORT_STARTTLS, PORT_TLS = 25, 587, 465


def send_mail(message: Any, settings: dict[str, Any]) -> None:
    """By SMTP.

    Raises:
        OSError: the server does not answer, or refuses (smtplib.SMTPException).
    """
    mail = EmailMessage()
    mail["Subject"] = message.subject
    mail["To"] = settings["to"]
    mail["From"] = settings["to"] if settings["user"] is None else settings["user"]
    if "@" not in mail["From"]:
        mail.replace_header("From", f"{getpass.getuser()}@{os.uname().nodename}")
    mail.set_content(message.text)
    host, _, port_text = settings["server"].partition(":")
    port = int(port_text or PORT)
    connect = smtplib.SMTP_SSL if port == PORT_TLS else smtplib.SMTP
    with connect(host, port, timeout=TIMEOUT_S) as server:
        if port == PORT_STARTTLS:
            server.starttls()
        if settings["user"]:
            server.login(settings["user"], os.environ.get("SMTP_PASSWORD", ""))
        server.send_message(mail)


def run_command(message: Any, settings: dict[str, Any]) -> None:
    """By a command of the user's. The text is no part of it, so that the shell does not read it.

    Raises:
        subprocess.SubprocessError: it fails, or takes too long.
    """
    subprocess.run(
        settings["run"],
        shell=True,
        check=True,
        text=True,
        input=message.text,
        timeout=COMMAND_S,
        env=os.environ | {env.EVENT: message.event, env.SUBJECT: message.subject},
    )


def post(message: Any, settings: dict[str, Any]) -> None:
    """To the address in a variable: as JSON, or by apprise where it is no web address.

    Raises:
        OSError: the server does not answer, or refuses (urllib.error.HTTPError).
        ConnectionError: apprise could not send it.
    """
    url = os.environ[settings["variable"]]
    if is_web_address(url):
        # "text" is what Slack, Mattermost, Rocket.Chat and Google Chat read.
        entries = {
            "text": f"{message.subject}\n{message.text}",
            "event": message.event,
            "subject": message.subject,
        }
        request = urllib.request.Request(
            url,
            data=json.dumps(entries).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
        return
    import apprise  # optional

    service = apprise.Apprise()
    service.add(url)
    if not service.notify(title=message.subject, body=message.text):
        raise ConnectionError(f"apprise could not send it to {url.partition(':')[0]}://...")


def is_web_address(url: str) -> bool:
    return url.startswith(("http://", "https://"))


SENDERS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "mail": send_mail,
    "command": run_command,
    "webhook": post,
}


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
        raise LabError(
            "notify=command needs a command: \"notify.command.run='mail -s run you@x.org'\""
        )
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
    if not is_web_address(url):
        scheme = url.partition(":")[0]
        require_package("apprise", f"{name}={scheme}://...")


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
    summary: Any = read_json(run.dir / "summary.json", SummaryRecord) or {"metrics": {}}
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
