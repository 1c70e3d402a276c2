"""Who gets a message that a run has ended, failed, or does nothing."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from labrig.errors import LabError
from labrig.machine import gpu as idle_gpus
from labrig.project import Project
from labrig.training.watch import notify
from labrig.training.watch import notify as notify_send
from message_servers import mail_server, web_server
from omegaconf import OmegaConf
from projects import ROOT, call
from trainings import SHORT, last

SECRET = "T0123/B4567/notverysecret89"
TRAIN = ("lab", "train", "trial=baseline", *SHORT, "trainer.max_epochs=1")


@pytest.mark.slow
def test_an_ended_run_is_reported_three_ways_and_no_secret_is_recorded(home, tmp_path):
    command = f"cat > {tmp_path}/text; echo $LAB_EVENT $LAB_SUBJECT > {tmp_path}/subject"
    with mail_server() as (smtp_port, mails), web_server() as (http_port, requests):
        url = f"http://127.0.0.1:{http_port}/{SECRET}"
        (home / ".env").write_text(f"NOTIFY_URL={url}\n")
        settings = (
            "notify=[mail,command,webhook]",
            "notify.mail.to=me@example.org",
            f"notify.mail.server=127.0.0.1:{smtp_port}",
            f"notify.command.run='{command}'",
        )
        try:
            call(home, *TRAIN, *settings)
        finally:
            (home / ".env").unlink()
    record = last(home)
    subject = f"myproj: baseline {record['run_id']} finished"
    (mail,) = mails
    assert f"Subject: {subject}" in mail
    assert "To: me@example.org" in mail
    assert f"test/acc {record['metrics']['test/acc']:.4g}" in mail
    ((path, body),) = requests
    assert path == f"/{SECRET}"
    assert json.loads(body)["subject"] == subject
    assert "GPU-hours" in json.loads(body)["text"]
    assert (tmp_path / "subject").read_text() == f"finished {subject}\n"
    assert f"look: lab runs show {record['run_id']}" in (tmp_path / "text").read_text()
    found = subprocess.run(["grep", "-rlF", SECRET, home / "runs"], capture_output=True, text=True)
    assert found.stdout == ""


@pytest.mark.slow
def test_a_failed_run_is_reported_and_a_server_that_is_away_changes_nothing(home):
    with web_server() as (port, requests):
        variables = {"NOTIFY_URL": f"http://127.0.0.1:{port}/x"}
        settings = ("optimizer.lr=1e30", "log.every_n_steps=1", "notify=webhook")
        call(home, *TRAIN, *settings, rc=1, **variables)
    ((_, body),) = requests
    assert json.loads(body)["event"] == "failed"
    assert "resume: lab resume" in json.loads(body)["text"]
    assert "train/loss is nan" in json.loads(body)["text"]
    said = call(home, *TRAIN, "notify=webhook", **variables)
    assert "lab: notify=webhook failed: " in said
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
    for way in notify_send.SENDERS:
        monkeypatch.setitem(
            notify_send.SENDERS, way, lambda message, settings: messages.append(message)
        )
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


def test_the_scheduler_mails_the_end_of_its_jobs(tmp_path, project, sent, monkeypatch):
    monkeypatch.setenv("LAB_JOB", "7")
    run = ARun(tmp_path, attempt_status="finished", metrics={})
    notify.notify_end(config("mail", to="me@example.org"), run, project)
    assert sent == []
    notify.notify_idle(config("mail", to="me@example.org"), run, project, 30)
    assert [message.event for message in sent] == ["idle"]
    assert "Its GPUs did nothing for 30 minutes." in sent[0].text


def test_a_job_script_asks_the_scheduler_for_mail(home):
    words = ("trial=baseline", "site=slurm", "job.gpus=0", "notify=mail")
    script = call(home, "lab", "submit", "--dry-run", *words, "notify.mail.to=me@example.org")
    assert "--mail-user=me@example.org" in script


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
        (("webhook", {"variable": "NOTIFY_URL"}), "", "Write it into .env: NOTIFY_URL="),
        (("webhook", {"variable": "https://x.org/secret"}), "", "which would be recorded"),
        (("mail", {"to": "nobody"}), "", "needs an address"),
    ],
)
def test_what_is_missing_is_reported_before_the_run(project, monkeypatch, settings, url, told):
    monkeypatch.setenv("NOTIFY_URL", url)
    way, values = settings
    with pytest.raises(LabError, match=told) as raised:
        notify.check_notify(config(way, **values), project)
    assert "secret" not in str(raised.value)


def test_other_services_are_reached_by_apprise(monkeypatch):
    pytest.importorskip("apprise")
    with web_server() as (port, requests):
        monkeypatch.setenv("NOTIFY_URL", f"json://127.0.0.1:{port}/path")
        message = notify.Message("finished", "a subject", "a text\n")
        notify_send.post(message, {"variable": "NOTIFY_URL"})
    ((path, body),) = requests
    assert path.rstrip("/") == "/path"
    assert json.loads(body)["title"] == "a subject"
    with pytest.raises(ConnectionError, match=r"json://\.\.\.$"):
        notify_send.post(message, {"variable": "NOTIFY_URL"})


def test_a_command_that_fails_is_an_error(tmp_path):
    message = notify.Message("failed", "it's; rm -rf $HOME `x`", "text\n")
    notify_send.run_command(message, {"run": f'printf %s "$LAB_SUBJECT" > {tmp_path}/subject'})
    assert Path(tmp_path, "subject").read_text() == message.subject
    with pytest.raises(subprocess.SubprocessError):
        notify_send.run_command(message, {"run": "exit 3"})
    assert "LAB_SUBJECT" not in os.environ


def test_the_command_of_the_page_can_be_typed_in_a_shell():
    page = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    (typed,) = re.findall(r'`("notify\.command\.run=.*?")`', page)
    word = subprocess.run(["sh", "-c", f"printf %s {typed}"], capture_output=True, text=True).stdout
    override = OverridesParser.create().parse_override(word)
    assert override.value() == 'notify-send "$LAB_SUBJECT"'
