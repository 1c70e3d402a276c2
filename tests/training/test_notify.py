"""Who gets a message that a run has ended, failed, or does nothing."""

import json
import os
import re
import subprocess
import sys
from email import message_from_string
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from labrig.errors import LabError
from labrig.machine import gpu as idle_gpus
from labrig.project import Project
from labrig.training.notify import notify
from message_servers import mail_server, redirecting_server, web_server
from omegaconf import OmegaConf
from projects import ROOT, call
from trainings import SHORT, last

SECRET = "T0123/B4567/notverysecret89"
APPRISE = ("apprise", {"variable": "NOTIFY_URL"})
TRAIN = ("lab", "train", "trial=baseline", *SHORT, "trainer.max_epochs=1")


@pytest.mark.release
@pytest.mark.slow
def test_an_ended_run_is_reported_by_mail_web_and_command_and_no_secret_is_recorded(home, tmp_path):
    command = f"cat > {tmp_path}/text; echo $LAB_EVENT $LAB_SUBJECT > {tmp_path}/subject"
    with mail_server(tmp_path) as (smtp_port, mails, _), web_server() as (http_port, requests):
        mail_url = f"mailtos://user:{SECRET[-6:]}@127.0.0.1:{smtp_port}/me@example.org?from=lab@example.org"
        url = f"json://127.0.0.1:{http_port}/{SECRET}"
        (home / ".env").write_text(f"NOTIFY_URL='{mail_url} {url}'\n")
        settings = ("notify=[apprise,command]", f"notify.command.run='{command}'")
        try:
            call(home, *TRAIN, *settings, SSL_CERT_FILE=str(tmp_path / "cert.pem"))
        finally:
            (home / ".env").unlink()
    record = last(home)
    subject = f"myproj: baseline {record['run_id']} finished"
    (mail,) = mails
    assert f"Subject: {subject}" in mail
    assert "To: me@example.org" in mail
    assert f"test/acc {record['metrics']['test/acc']:.4g}" in decoded(mail)
    ((path, body),) = requests
    assert path.rstrip("/") == f"/{SECRET}"
    assert json.loads(body)["title"] == subject
    assert "GPU-hours" in json.loads(body)["message"]
    assert (tmp_path / "subject").read_text() == f"finished {subject}\n"
    assert f"look: lab runs show {record['run_id']}" in (tmp_path / "text").read_text()
    found = subprocess.run(["grep", "-rlF", SECRET, home / "runs"], capture_output=True, text=True)
    assert found.stdout == ""


def decoded(mail):
    """The text of a mail."""
    (part, *_) = [
        part
        for part in message_from_string(mail).walk()
        if part.get_content_type() == "text/plain" or part.get_content_type() == "text/html"
    ]
    return part.get_payload(decode=True).decode()


@pytest.mark.release
@pytest.mark.slow
def test_a_failed_run_is_reported_and_a_server_that_is_away_changes_nothing(home):
    with web_server() as (port, requests):
        variables = {"NOTIFY_URL": f"json://127.0.0.1:{port}/{SECRET}"}
        settings = ("optimizer.lr=1e30", "log.every_n_steps=1", "notify=apprise")
        call(home, *TRAIN, *settings, rc=1, **variables)
    ((_, body),) = requests
    assert json.loads(body)["title"].endswith(" failed")
    assert "resume: lab resume" in json.loads(body)["message"]
    assert "train/loss is nan" in json.loads(body)["message"]
    said = call(home, *TRAIN, "notify=apprise", **variables)
    assert "lab: notify=apprise failed: " in said
    assert SECRET not in said
    assert last(home)["status"] == "finished"


class ARun:
    """What a message needs of a run."""

    def __init__(self, folder, **summary):
        self.dir = folder
        self.id = "20261122-100000-abcdef"
        self.trial = "baseline"
        (folder / "summary.json").write_text(json.dumps(summary))


@pytest.fixture
def project(home):
    return Project(home, "myproj")


def config(way, method="none", **settings):
    return OmegaConf.create(
        {
            "notify": {way: settings},
            "site": {"scheduler": "slurm", "requeue": {"method": method}},
        }
    )


@pytest.fixture
def sent(monkeypatch):
    """The messages that are sent."""
    messages = []
    for way in notify.SENDERS:
        monkeypatch.setitem(notify.SENDERS, way, lambda message, settings: messages.append(message))
    return messages


def test_a_stop_that_continues_by_itself_is_not_reported(tmp_path, project, sent, monkeypatch):
    run = ARun(tmp_path, status="interrupted", attempt_status="interrupted", metrics={})
    notify.notify_end(config("command"), run, project)
    (tmp_path / "requeue").touch()
    monkeypatch.setenv("LAB_JOB", "7")
    notify.notify_end(config("command", method="scontrol"), run, project)
    assert sent == [], "Ctrl-C, and a job that is requeued"
    notify.notify_end(config("command"), run, project)
    assert [message.event for message in sent] == ["interrupted"]


def test_idle_gpus_are_reported(tmp_path, project, sent):
    run = ARun(tmp_path, attempt_status="finished", metrics={})
    notify.notify_idle(config("apprise", variable="NOTIFY_URL"), run, project, 30)
    assert [message.event for message in sent] == ["idle"]
    assert "Its GPUs did nothing for 30 minutes." in sent[0].text


def test_idle_gpus_are_noticed_after_half_an_hour():
    def watch(percents):
        now = [0.0]

        def sleep(seconds):
            now[0] += seconds

        readings = iter(percents)
        is_idle = idle_gpus.wait_until_idle(
            lambda: now[0] < 7200, lambda: [next(readings)], clock=lambda: now[0], sleep=sleep
        )
        return is_idle, now[0]

    assert watch([0] * 1000) == (True, 1800)
    assert watch([0] * 50 + [90] + [0] * 1000) == (True, 50 * 30 + 1800)
    assert watch([None] * 1000) == (False, 7200), "no answer is not idleness"


@pytest.mark.parametrize(
    ("settings", "url", "told"),
    [
        (("command", {"run": None}), "", "needs a command"),
        (("apprise", {"variable": "NOTIFY_URL"}), "", "Write it into .env: NOTIFY_URL="),
        (("apprise", {"variable": "https://x.org/secret"}), "", "which would be recorded"),
        (APPRISE, "https://x.org/secret", "https://... that apprise does not know.*jsons://"),
        (APPRISE, "ntfys://ntfy.sh/a mailto://me:secret@x.org", "in clear. Write mailtos://"),
        (APPRISE, "mailtos://me:secret@x.org?mode=insecure", "in clear. Write mailtos://"),
        (APPRISE, "json://me:secret@x.org", "in clear. Write jsons://"),
    ],
)
def test_what_is_missing_is_reported_before_the_run(project, monkeypatch, settings, url, told):
    if url:
        pytest.importorskip("apprise")
    monkeypatch.setenv("NOTIFY_URL", url)
    way, values = settings
    with pytest.raises(LabError, match=told) as raised:
        notify.check_notify(config(way, **values), project)
    assert "secret" not in str(raised.value)


def test_a_missing_package_is_named(project, monkeypatch):
    monkeypatch.setenv("NOTIFY_URL", "ntfys://ntfy.sh/a")
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setattr("labrig.errors.find_spec", lambda name: None)
    with pytest.raises(LabError, match="notify=apprise needs the package apprise: make add"):
        notify.check_notify(config("apprise", variable="NOTIFY_URL"), project)


def send(monkeypatch, url):
    pytest.importorskip("apprise")
    monkeypatch.setenv("NOTIFY_URL", url)
    message = notify.Message("finished", "a subject", "a text\n")
    notify.send_by_apprise(message, {"variable": "NOTIFY_URL"})


@pytest.mark.parametrize("query", ["", "&mode=ssl"])
def test_a_mail_server_that_nobody_vouches_for_gets_no_password(monkeypatch, tmp_path, query):
    with mail_server(tmp_path) as (port, mails, lines):
        url = f"mailtos://user:{SECRET[-6:]}@127.0.0.1:{port}/me@example.org?from=a@b.org{query}"
        with pytest.raises(ConnectionError) as raised:
            send(monkeypatch, url)
        assert mails == []
        assert not [line for line in lines if line.startswith(("AUTH", "MAIL"))]
        assert SECRET[-6:] not in str(raised.value)


def test_a_password_is_sent_after_tls_to_a_server_that_is_vouched_for(monkeypatch, tmp_path):
    with mail_server(tmp_path) as (port, mails, lines):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        send(monkeypatch, f"mailtos://user:word@127.0.0.1:{port}/me@example.org?from=a@b.org")
    words = [line.split()[0].upper() for line in lines if line]
    assert words.index("STARTTLS") < words.index("AUTH")
    assert len(mails) == 1


def test_a_redirect_is_not_followed(monkeypatch):
    with web_server() as (port, requests):
        other = f"http://127.0.0.1:{port}/other"
        with redirecting_server(other) as first, pytest.raises(ConnectionError, match="307"):
            send(monkeypatch, f"json://127.0.0.1:{first}/path")
        assert requests == []
        send(monkeypatch, f"json://127.0.0.1:{port}/path")
    assert json.loads(requests[0][1])["title"] == "a subject"


def test_a_command_that_fails_is_an_error(tmp_path):
    message = notify.Message("failed", "it's; rm -rf $HOME `x`", "text\n")
    notify.run_command(message, {"run": f'printf %s "$LAB_SUBJECT" > {tmp_path}/subject'})
    assert Path(tmp_path, "subject").read_text() == message.subject
    with pytest.raises(subprocess.SubprocessError):
        notify.run_command(message, {"run": "exit 3"})
    assert "LAB_SUBJECT" not in os.environ


def test_the_command_of_the_page_can_be_typed_in_a_shell():
    page = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    (typed,) = re.findall(r'`("notify\.command\.run=.*?")`', page)
    word = subprocess.run(["sh", "-c", f"printf %s {typed}"], capture_output=True, text=True).stdout
    override = OverridesParser.create().parse_override(word)
    assert override.value() == 'notify-send "$LAB_SUBJECT"'
