"""What is refused of a run that goes to another machine; nothing half-sent stays."""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from labrig.errors import Failed, LabError, Refused
from labrig.remote import connection, place, pull, sent, submit_to_hosts

HOST = SimpleNamespace(name="big", address="big.org", path="/work", before=None)


def as_given(value):
    return lambda *_, **__: value


def silent(**facts):
    """A connection to a host that answers nothing."""
    return SimpleNamespace(host=HOST, answers=as_given([]), **facts)


def test_code_without_a_lock_file():
    git = SimpleNamespace(run=as_given(SimpleNamespace(returncode=1)))
    with pytest.raises(
        Refused, match=r"is in the code, so no environment can be made. Write one: make setup"
    ):
        place.lock_of(git, {"commit": "1", "prefix": ""})


def test_data_that_differ_or_are_not_there(monkeypatch, tmp_path):
    file = tmp_path / "a.h5"
    file.touch()
    here = {"a.h5": place.LocalData(str(file), "1" * 64)}
    project = SimpleNamespace(root=tmp_path, paths=SimpleNamespace(data=[tmp_path / "data"]))
    monkeypatch.setattr(place, "names_of", as_given({"a.h5": [tmp_path]}))
    monkeypatch.setattr(place, "content_hash", as_given("2" * 64))
    with pytest.raises(
        Refused, match=r"has other content than yours: sha256 2222.*\nTo copy yours over it"
    ):
        place.check_data(project, [], here, "big")
    monkeypatch.setattr(place, "names_of", as_given({"a.h5": [tmp_path / "gone"]}))
    with pytest.raises(
        Refused, match=r"the data a.h5 is not on the host. Copy it, then type the same again"
    ):
        place.check_data(project, [], here, "big")


def test_runs_that_were_not_sent_or_not_fetched(monkeypatch, tmp_path):
    monkeypatch.setattr(pull, "find_sent", as_given(None))
    with pytest.raises(
        LabError, match=r"no run 'x' was sent from here with on=HOST. Yours: lab runs list"
    ):
        pull.named_run(None, "x")
    monkeypatch.setattr(sent, "all_sent", as_given([SimpleNamespace(run_ids=["a1", "a2"])]))
    with pytest.raises(LabError, match=r"'a' means 2 runs: a1, a2. Give more of the id"):
        sent.find_sent(None, "a")
    prints_no_tar = [sys.executable, "-c", "print('no tar')"]
    broken = silent(command=as_given(prints_no_tar))
    with pytest.raises(
        Failed, match=r"big sent no tar archive of /there; see above. Then again: lab runs pull"
    ):
        pull.fetch(broken, "/there", tmp_path / "run")

    def lost(_):
        raise connection.LostConnection("the connection to big was lost")

    broken = silent(command=as_given(["false"]), check=lost)
    with pytest.raises(
        Failed, match=r"was lost; what was fetched before stays. Again: lab runs pull"
    ):
        pull.fetch(broken, "/there", tmp_path / "run")


def test_hosts_that_refuse(monkeypatch):
    """What a host answers ends the submission, and nothing is kept of it here."""
    monkeypatch.setattr(submit_to_hosts, "points_of", as_given([1, 2]))
    with pytest.raises(
        LabError, match=r"on= with several hosts sends one run. For a list, name one host"
    ):
        submit_to_hosts.compose_submission(None, [], ["ls"], 2)
    one = sent.Sent("one", "big", "key")

    @contextmanager
    def connected(_):
        yield silent()

    monkeypatch.setattr(submit_to_hosts, "connect", connected)
    monkeypatch.setattr(submit_to_hosts, "forget", as_given(None))
    monkeypatch.setattr(submit_to_hosts, "keep", lambda project, it, **facts: it)
    monkeypatch.setattr(submit_to_hosts, "request_to", as_given(None))
    monkeypatch.setattr(submit_to_hosts, "prepare", as_given(("/work", ["python"])))
    answer = {"error": "no queue allows 99 hours; at most 24", "exit_code": 2}
    monkeypatch.setattr(submit_to_hosts, "hand_over", as_given(answer))
    project = SimpleNamespace(package="myproj")
    submission = SimpleNamespace(frozen=None)
    with pytest.raises(LabError, match=r"big: no queue allows 99 hours; at most 24"):
        submit_to_hosts.send_to(project, submission, HOST, {"big": one}, [HOST])

    def refuses(*_):
        raise Refused("disk full")

    monkeypatch.setattr(submit_to_hosts, "prepare", refuses)
    with pytest.raises(
        Refused, match=r"disk full\nNothing was sent to big. Correct this, and type the same"
    ):
        submit_to_hosts.send_to(project, submission, HOST, {"big": one}, [HOST])
    for name in ("host_of", "compose_submission", "pending", "send_to"):
        monkeypatch.setattr(submit_to_hosts, name, as_given(HOST if name == "host_of" else {}))
    monkeypatch.setattr(submit_to_hosts, "new_submissions", as_given({}))
    with pytest.raises(
        Failed, match=r"it is not known whether big has the job.\nType the same command again"
    ):
        submit_to_hosts.submit_to_hosts(project, ["big"], [], None)


def test_the_run_before_the_last_counts_those_that_were_not_fetched(monkeypatch):
    first, second, third = (f"2026010{day}-000000-aaaaaa" for day in (1, 2, 3))
    away = SimpleNamespace(run_ids=[second])
    monkeypatch.setattr(sent, "all_sent", as_given([away]))
    monkeypatch.setattr(sent, "run_ids_here", as_given({first, third}))
    assert sent.find_sent(None, "@last") is None
    assert sent.find_sent(None, "@last~1") == (away, second)
    with pytest.raises(LabError, match=rf"@last~2 passes over {second}, which has not been"):
        sent.find_sent(None, "@last~2")
    monkeypatch.setattr(sent, "run_ids_here", as_given({first, second, third}))
    assert sent.find_sent(None, "@last~2") is None


def test_a_host_that_is_a_word(tmp_path, monkeypatch):
    (tmp_path / "hosts.yaml").write_text("big: cluster\n")
    monkeypatch.setattr(connection, "user_config", lambda: tmp_path)
    with pytest.raises(LabError, match=r"big needs lines below it, such as  path"):
        connection.host_of("big")


def test_a_run_elsewhere_is_not_compared_with_those_here(project):
    with pytest.raises(LabError, match=r"--if-changed compares with the runs here, and on= sends"):
        submit_to_hosts.compose_submission(project, ["trial=baseline", "--if-changed"], None, 1)
