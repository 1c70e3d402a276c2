"""Hosts that answer as an enemy would, and a hosts.yaml that somebody copied from a web page."""

import io
import json
import stat
import tarfile
from types import SimpleNamespace

import pytest
from labrig.errors import Failed, LabError
from labrig.project import Project
from labrig.record.files.atomic import write_json
from labrig.remote import connection, pull, sent, submit_to_hosts, watch
from labrig.remote.sent import HostState, SubmitAnswer, read_answer
from records import whole_record

RUN = "20260112-000000-aaaa01"
JOB = {"run_id": RUN, "job_id": "7", "run_dir": f"/there/runs/baseline/{RUN}", "log": "x"}
STATE = {"jobs": [JOB], "statuses": {RUN: "finished"}, "started_unix_s": 1.0, "first": None}
ANSWER = {"queue": "no jobs", "submissions": {RUN: STATE}}


def to(script, name="h"):
    """A connection whose host runs this script in place of what is asked."""
    host = SimpleNamespace(name=name, address=name, before="")
    command = ["bash", "-c", script]
    answering = connection.Connection(host, ())
    return SimpleNamespace(
        host=host, command=lambda _: command, check=answering.check, ask=answering
    )


# d-garb-*: answers that are no answers.


def changed(**changes):
    return json.dumps(ANSWER | changes)


GARBAGE = [
    "[]",
    "xxxxxxxxxxxxxxxxxxx",
    "{",
    '{"queue":1,"submiss',
    "[" * 100_000,
    "null",
    json.dumps({"queue": "no jobs"}),
    changed(queue=[1]),
    changed(submissions=[]),
    changed(submissions={RUN: STATE | {"statuses": {RUN: "\x1b[2J"}}}),
    changed(submissions={RUN: STATE | {"jobs": [{"run_id": RUN}]}}),
    changed(submissions={RUN: STATE | {"jobs": [JOB | {"run_id": "../../x"}]}}),
    changed(submissions={RUN: STATE | {"jobs": [JOB | {"job_id": "-u root"}]}}),
    changed(submissions={RUN: STATE | {"started_unix_s": 1e308}}),
]


@pytest.mark.parametrize("text", GARBAGE)
def test_an_answer_of_another_form_is_a_sentence(text):
    """d-garb-*."""
    with pytest.raises(Failed, match="h gave an answer that lab does not understand"):
        read_answer(text, HostState, "h")


def test_the_answer_that_is_expected_is_taken():
    assert HostState.of(read_answer(json.dumps(ANSWER), HostState, "h")).queue == "no jobs"


@pytest.mark.parametrize("text", ['{"jobs": [{}]}', '{"error": 1}', "[]", "{}", '{"jobs": 3}'])
def test_an_odd_answer_to_a_submission_leaves_it_unknown(monkeypatch, text):
    monkeypatch.setattr(submit_to_hosts, "asdict", lambda _: {})
    host = SimpleNamespace(host=SimpleNamespace(name="h"), answers=lambda *_, **__: [text])
    one = SimpleNamespace(python=["python", "labrig"], place="/there")
    with pytest.raises(Failed, match="h gave"):
        submit_to_hosts.hand_over(host, one, None)
    assert "jobs" in read_answer(json.dumps({"jobs": [JOB]}), SubmitAnswer, "h")


def test_a_host_that_leaves_a_submission_out_changes_nothing(tmp_path, monkeypatch):
    project = Project(tmp_path, "myproj")
    mine = sent.keep(project, sent.Sent(RUN, "h", "key", sent.SENT, ["python", "labrig"], "/there"))
    answering = SimpleNamespace(
        host=SimpleNamespace(address="h"),
        answers=lambda _: [json.dumps({"queue": "", "submissions": {}})],
    )
    asked = watch.Hosts(project)
    monkeypatch.setattr(asked, "connection", lambda _: answering)
    asked.ask_host("h", [mine])
    assert sent.all_sent(project) == [mine]


def test_an_endless_answer_is_cut(monkeypatch):
    monkeypatch.setattr(connection, "MAX_OUTPUT_BYTES", 1000)
    host = SimpleNamespace(name="h", address="h", before="")
    monkeypatch.setattr(connection.Connection, "command", lambda *_: ["bash", "-c", "yes"])
    with pytest.raises(Failed, match="h printed more than 1,000 bytes"):
        connection.Connection(host, ()).run("true")


# d-pull-path, d-pull-link, d-banner, d-cut-*: what a host sends as a run.


@pytest.mark.parametrize(
    "run_dir",
    [
        "/x/y/../evil_dir",
        f"/x/../{RUN}",
        f"/x/../../{RUN}",
        f"/x/.code/{RUN}",
        f"x/baseline/{RUN}",
        f"/x/baseline/{RUN}/..",
        "/x/baseline/evil",
        f"/x/base\nline/{RUN}",
    ],
)
def test_a_run_lands_below_runs_under_its_id(run_dir):
    """d-pull-path."""
    answer = changed(submissions={RUN: STATE | {"jobs": [JOB | {"run_dir": run_dir}]}})
    with pytest.raises(Failed, match="run_dir is"):
        read_answer(answer, HostState, "h")


def packed(**members):
    """A tar stream of regular files, by name, and of what else TarInfo may be, as (type, target)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                info.type, info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                info.mode = 0o4777
                archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


RECORD = json.dumps(whole_record(RUN)).encode()


def sending(tmp_path, content, before=""):
    """A connection to a host that prints lines of its own, then what was asked for."""
    (tmp_path / "sent.tar").write_bytes(content)
    return to(f"{before}echo '{pull.BEGINS}'; cat {tmp_path}/sent.tar")


def fetched(tmp_path, content, before=""):
    """The directory into which such a stream was fetched."""
    target = tmp_path / "project/runs/baseline" / RUN
    pull.fetch(sending(tmp_path, content, before), f"/there/{RUN}", target, run_id=RUN)
    return target


@pytest.mark.parametrize(
    "banner",
    [
        "echo Welcome to h; echo; ",
        "printf 'no newline at its end\\n'; seq 500; ",
        "printf '\\x00\\xff\\n'; ",
    ],
)
def test_a_host_that_prints_at_login_sends_runs(tmp_path, banner):
    """d-banner."""
    target = fetched(tmp_path, packed(**{"./run.json": RECORD, "./a/b.txt": b"b"}), banner)
    assert (target / "a/b.txt").read_bytes() == b"b"


def test_links_and_devices_of_a_host_are_left_out(tmp_path, capsys):
    """d-pull-link."""
    victim = tmp_path / "bashrc"
    victim.write_text("x\n")
    content = packed(
        **{
            "./run.json": RECORD,
            "./notes.jsonl": (tarfile.SYMTYPE, str(victim)),
            "./attempts": (tarfile.SYMTYPE, str(tmp_path)),
            "./pipe": (tarfile.FIFOTYPE, ""),
            "./device": (tarfile.CHRTYPE, ""),
            "./last.ckpt": b"weights",
            "./best.ckpt": (tarfile.LNKTYPE, "./last.ckpt"),
        }
    )
    target = fetched(tmp_path, content)
    assert sorted(path.name for path in target.iterdir()) == ["best.ckpt", "last.ckpt", "run.json"]
    assert (target / "best.ckpt").read_bytes() == b"weights"
    assert capsys.readouterr().err.count("left out, no file") == 4
    mode = (target / "last.ckpt").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_IWOTH)
    assert victim.read_text() == "x\n"


@pytest.mark.parametrize("name", ["../evil", "/tmp/lab-evil", "a/../../evil", "./.."])
def test_no_file_of_a_host_lands_elsewhere(tmp_path, name):
    with pytest.raises(Failed, match=r"a path: .* is not a relative path"):
        fetched(tmp_path, packed(**{"./run.json": RECORD, name: b"evil"}))
    assert not list(tmp_path.rglob("evil"))
    assert list((tmp_path / "project/runs/baseline").iterdir()) == []


def test_a_hard_link_of_a_host_reaches_no_file_of_this_machine(tmp_path):
    content = packed(**{"./run.json": RECORD, "x": (tarfile.LNKTYPE, "/etc/passwd")})
    with pytest.raises(Failed, match="is not a relative path"):
        fetched(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (packed(**{"other.txt": b"x"}), f"does not hold the record of {RUN}"),
        (packed(**{"run.json": RECORD.replace(b"aaaa01", b"aaaa02")}), "does not hold the record"),
        (packed(**{"run.json": b"{"}), "does not hold the record"),
        (packed(**{"run.json": (tarfile.SYMTYPE, "/etc/passwd")}), "does not hold the record"),
        (packed(**{"run.json": RECORD, "./big": bytes(50_000)})[:20_000], "damaged tar archive"),
        (b"no tar", "damaged tar archive"),
        (b"", "damaged tar archive"),
    ],
)
def test_nothing_half_stays(tmp_path, content, words):
    """d-cut-4 and its siblings."""
    with pytest.raises(Failed, match=words):
        fetched(tmp_path, content)
    assert list((tmp_path / "project/runs/baseline").iterdir()) == []


def test_what_a_host_prints_reaches_the_terminal_escaped(capsys):
    from labrig.remote import watch

    state = HostState("\x1b[2Jno jobs", {})
    watch.print_hosts(SimpleNamespace(answers={"h": state}), [])
    assert "\x1b" not in capsys.readouterr().out


# d-sshopt: hosts.yaml.


@pytest.mark.parametrize(
    "line",
    [
        "ssh: '-oProxyCommand=touch X'",
        "ssh: 'h -p 22'",
        'ssh: "h\\nX"',
        "ssh: 'h;touch X'",
        "ssh: [a]",
        "path: '$(touch X)'",
        "path: '`touch X`'",
        "path: '${A:-$(touch X)}'",
        "path: '-x'",
        "path: 'a\"b'",
        'path: "a\\nb"',
        "path: 3",
        "site: '-x'",
        "site: 'a b'",
        'before: "true\\ntouch X"',
    ],
)
def test_a_value_of_hosts_yaml_is_no_option_and_no_command(monkeypatch, tmp_path, line):
    """d-sshopt."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "lab").mkdir()
    path = "" if line.startswith("path") else "  path: $WORK/lab\n"
    (tmp_path / "lab/hosts.yaml").write_text(f"evil:\n{path}  {line}\n")
    with pytest.raises(LabError, match=r"hosts.yaml, evil: .*(expected|must be|is not)"):
        connection.host_of("evil")


def test_usual_values_of_hosts_yaml_are_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/hosts.yaml").write_text(
        "a:\n  path: ${WORK}/my lab/ü\n  ssh: me@login.big.org\n  site: jean_zay_h100\n"
        '  before: eval "$(conda shell.bash hook)" && module load x\n'
        "b:\n  path: ~/lab\n  ssh: ssh://me@[::1]:2222\n"
    )
    assert connection.host_of("a").address == "me@login.big.org"
    assert connection.host_of("b").path == "~/lab"


def test_ssh_takes_an_address_for_no_option(monkeypatch):
    host = connection.Host("-oProxyCommand=x", "/p")
    words = connection.Connection(host, ()).command("true")
    assert words[words.index("-oProxyCommand=x") - 1] == "--"


def test_an_old_note_of_a_submission_that_is_damaged_is_passed_over(tmp_path):
    project = Project(tmp_path, "myproj")
    good = sent.keep(project, sent.Sent(RUN, "h", "key"))
    write_json(tmp_path / sent.FOLDER / "a.json", {"id": ["a"], "host": "h", "request": "x"})
    (tmp_path / sent.FOLDER / "b.json").write_text("{")
    assert sent.all_sent(project) == [good]
