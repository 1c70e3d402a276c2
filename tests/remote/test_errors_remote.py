"""Messages about runs that are sent to another machine: each says what was found and what to do."""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from labrig.errors import Failed, LabError, Refused
from labrig.remote import ask, cancel, connection, data, frozen, place, pull, send, sent

HOST = SimpleNamespace(name="big", address="big.org", path="/work", before=None)


def as_given(value):
    return lambda *_, **__: value


def silent(**facts):
    """A connection to a host that answers nothing."""
    return SimpleNamespace(host=HOST, answers=as_given([]), **facts)


def test_connections_that_break(monkeypatch):
    to_host = connection.Connection(HOST, ())
    with pytest.raises(Failed, match=r"the connection to big was lost. Type the same again"):
        to_host.check(connection.CANNOT_CONNECT)
    with pytest.raises(Failed, match=r"big: the command ended with code 3; see above"):
        to_host.check(3)
    monkeypatch.setattr(connection, "has_own_master", as_given(False))
    monkeypatch.setattr(connection.subprocess, "run", as_given(SimpleNamespace(returncode=255)))
    with (
        pytest.raises(Failed, match=r"no connection to big. Find out why with: ssh big.org true"),
        connection.connect(HOST),
    ):
        pass


def test_hosts_that_do_not_answer(monkeypatch):
    one = SimpleNamespace(id="one", python=["python", "labrig"], place="/work", host="big")
    hosts = ask.Hosts(None)
    monkeypatch.setattr(hosts, "connection", as_given(silent()))
    with pytest.raises(Failed, match=r"big gave no answer. Find out why with: ssh big.org true"):
        hosts.ask_host("big", [one])
    monkeypatch.setattr(send, "asdict", as_given({}))
    with pytest.raises(Failed, match=r"big gave no answer. Type the same command again"):
        send.hand_over(silent(), one, None)
    shown = SimpleNamespace(show=as_given(1))
    with pytest.raises(Failed, match=r"big did not cancel one, see above. Again: lab cancel one"):
        cancel.cancel_there(shown, SimpleNamespace(state="sent", host="big"), "one")


def test_places_that_cannot_be_made(tmp_path, monkeypatch):
    code = {"commit": "1" * 40, "prefix": ""}
    its_code = SimpleNamespace(code=code, library=code, lock="abc", bundles=[])
    project = SimpleNamespace(root=tmp_path, package="myproj")
    with pytest.raises(
        Failed, match=r"big: /work cannot be made or is not a path there; see above"
    ):
        place.look(silent(), project, its_code)
    where = place.Place("/work", frozenset())
    with pytest.raises(
        Failed, match=r"big: the environment could not be made, see above.\nA newer Python there"
    ):
        place.make_environment(silent(show=as_given(1), run=as_given("")), its_code, where)


def test_code_without_a_lock_file():
    git = SimpleNamespace(run=as_given(SimpleNamespace(returncode=1)))
    with pytest.raises(
        Refused, match=r"is in the code, so no environment can be made. Write one: make setup"
    ):
        frozen.lock_of(git, {"commit": "1", "prefix": ""})


def test_data_that_differ_or_are_not_there(monkeypatch, tmp_path):
    file = tmp_path / "a.h5"
    file.touch()
    here = {"a.h5": data.LocalData(str(file), "1" * 64)}
    project = SimpleNamespace(root=tmp_path, paths=SimpleNamespace(data=[tmp_path / "data"]))
    monkeypatch.setattr(data, "names_of", as_given({"a.h5": [tmp_path]}))
    monkeypatch.setattr(data, "content_hash", as_given("2" * 64))
    with pytest.raises(
        Refused, match=r"has other content than yours: sha256 2222.*\nTo copy yours over it"
    ):
        data.check_data(project, [], here, "big")
    monkeypatch.setattr(data, "names_of", as_given({"a.h5": [tmp_path / "gone"]}))
    with pytest.raises(
        Refused, match=r"the data a.h5 is not on the host. Copy it, then type the same again"
    ):
        data.check_data(project, [], here, "big")


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
        Failed, match=r"could not be written to .*Is the disk full. Then again: lab runs pull"
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
    monkeypatch.setattr(send, "compose_points", as_given([1, 2]))
    with pytest.raises(
        LabError, match=r"on= with several hosts sends one run. For a list, name one host"
    ):
        send.compose_submission(None, [], ["ls"], 2)
    one = sent.Sent("one", "big", "key")

    @contextmanager
    def connected(_):
        yield silent()

    monkeypatch.setattr(send, "connect", connected)
    monkeypatch.setattr(send, "forget", as_given(None))
    monkeypatch.setattr(send, "keep", lambda project, it, **facts: it)
    monkeypatch.setattr(send, "request_to", as_given(None))
    monkeypatch.setattr(send, "prepare", as_given(("/work", ["python"])))
    answer = {"error": "no queue allows 99 hours", "exit_code": 2}
    monkeypatch.setattr(send, "hand_over", as_given(answer))
    project = SimpleNamespace(package="myproj")
    submission = SimpleNamespace(frozen=None)
    with pytest.raises(LabError, match=r"big: no queue allows 99 hours"):
        send.send_to(project, submission, HOST, {"big": one}, [HOST])

    def refuses(*_):
        raise Refused("disk full")

    monkeypatch.setattr(send, "prepare", refuses)
    with pytest.raises(
        Refused, match=r"disk full\nNothing was sent to big. Correct this, and type the same"
    ):
        send.send_to(project, submission, HOST, {"big": one}, [HOST])
    for name in ("host_of", "compose_submission", "pending", "send_to"):
        monkeypatch.setattr(send, name, as_given(HOST if name == "host_of" else {}))
    monkeypatch.setattr(send, "new_submissions", as_given({}))
    with pytest.raises(
        Failed, match=r"it is not known whether big has the job.\nType the same command again"
    ):
        send.submit_to_hosts(project, ["big"], [], None)
