"""How a message leaves this machine: by mail, by a command, or to a web address.

Each way ends within a limit of time, or raises an error.
"""

from __future__ import annotations

import getpass
import json
import os
import smtplib
import subprocess
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any

from .. import env

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
