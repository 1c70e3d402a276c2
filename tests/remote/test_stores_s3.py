"""Data files that a group shares in storage with the interface of S3, on a server of moto's."""

import os

import boto3
import pytest
from labrig.errors import Failed, LabError
from labrig.remote.stores import command, store
from moto.server import ThreadedMotoServer
from shared_data import (
    files_at,
    killed,
    make_several,
    project_with_data,
    pull,
    pull_after_a_cut,
    push,
    without_data,
)

pytestmark = pytest.mark.slow
PLACE = "s3://lab/some folder"
N_SAMPLES = 12_000  # 12 MB: three parts of the least size that S3 takes


@pytest.fixture(scope="module")
def server():
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def client(server, monkeypatch):
    """boto3's own client of an empty bucket; labrig finds the server by the same variables."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    client = boto3.client("s3")
    client.create_bucket(Bucket="lab")
    yield client
    for upload in uploads(client):
        client.abort_multipart_upload(Bucket="lab", Key=upload["Key"], UploadId=upload["UploadId"])
    for key in keys(client):
        client.delete_object(Bucket="lab", Key=key)


def keys(client):
    return [each["Key"] for each in client.list_objects_v2(Bucket="lab").get("Contents", [])]


def uploads(client):
    return client.list_multipart_uploads(Bucket="lab").get("Uploads", [])


@pytest.fixture
def mine(tmp_path, monkeypatch, client):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "PART_BYTES", 5 << 20)
    return project_with_data(tmp_path / "mine", n_samples=N_SAMPLES)


def content(project):
    return (project.root / "data/digits.h5").read_bytes()


@pytest.mark.release
@pytest.mark.parametrize("place", [PLACE, "s3://lab", "s3://lab/"])
def test_a_colleague_gets_the_very_bytes(mine, client, place, tmp_path, capsys):
    project, sha256 = mine
    push(project, place)
    (key,) = keys(client)
    assert key.rpartition("/")[2] == f"{sha256}-digits.h5"
    assert client.get_object(Bucket="lab", Key=key)["Body"].read() == content(project)
    push(project)
    assert f"{place} has it already" in capsys.readouterr().out
    theirs = without_data(project, tmp_path / "theirs")
    pull(theirs)
    assert content(theirs) == content(project)
    client.put_object(Bucket="lab", Key="some folder/notes.txt", Body=b"x")
    command.list_command(project, [place])
    _, line = capsys.readouterr().out.splitlines()[-2:]
    assert line.split()[::3] == ["digits", sha256[:12]]
    assert files_at(project, place) == [f"{sha256}-digits.h5"]


@pytest.mark.release
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_push_that_is_killed_goes_on(mine, client, step, monkeypatch):
    project, _ = mine
    killed(project, step, "push", "digits", PLACE, **os.environ)
    assert keys(client) == []
    (upload,) = uploads(client)
    sent = []
    call = store.S3Store.push
    monkeypatch.setattr(
        store.S3Store,
        "push",
        lambda store, source, file, tell: call(counted(store, sent), source, file, tell),
    )
    push(project, PLACE)
    assert sent == [1, 2, 3][step + 1 :], "what was there was not sent again"
    (key,) = keys(client)
    assert client.get_object(Bucket="lab", Key=key)["Body"].read() == content(project)
    assert (upload["Key"], uploads(client)) == (key, [])


def counted(store, sent):
    """The store; the numbers of the parts that it sends are added to `sent`."""
    call = store.system.call_s3

    def count(method, **words):
        if method == "upload_part":
            sent.append(words["PartNumber"])
        return call(method, **words)

    store.system.call_s3 = count
    return store


def test_other_bytes_of_an_earlier_push_are_not_used(mine, client):
    project, sha256 = mine
    key = f"some folder/{sha256}-digits.h5"
    upload = client.create_multipart_upload(Bucket="lab", Key=key)["UploadId"]
    client.upload_part(Bucket="lab", Key=key, UploadId=upload, PartNumber=1, Body=bytes(5 << 20))
    push(project, PLACE)
    assert client.get_object(Bucket="lab", Key=key)["Body"].read() == content(project)


@pytest.mark.release
def test_a_pull_that_is_killed_goes_on(mine, tmp_path):
    project, _ = mine
    push(project, PLACE)
    theirs = without_data(project, tmp_path / "theirs")
    told = killed(theirs, 60, "pull", "digits", **os.environ)
    assert not (theirs.root / "data/digits.h5").exists()
    assert killed(theirs, 0, "pull", "digits", **os.environ)[0] >= sum(told[:-1]) > 0
    pull(theirs)
    assert content(theirs) == content(project)


@pytest.mark.release
def test_bytes_that_do_not_have_the_hash_are_refused(mine, client, tmp_path):
    project, _ = mine
    push(project, PLACE)
    (key,) = keys(client)
    client.put_object(Bucket="lab", Key=key, Body=b"x" + content(project)[1:])
    theirs = without_data(project, tmp_path / "theirs")
    with pytest.raises(Failed, match=r"is refused: [^\n]*\nNothing of it was kept"):
        pull(theirs)
    assert os.listdir(theirs.root / "data") == []


def test_keys_that_lead_elsewhere_are_left_out(mine, client):
    project, sha256 = mine
    client.put_object(Bucket="lab", Key=f"some folder/{sha256}-../../x.h5", Body=b"x")
    assert files_at(project, PLACE) == []


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        ("s3://no-such-bucket/a", {}),
        ("s3://lab/a", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}),
    ],
)
def test_a_server_or_bucket_that_is_not_there(mine, monkeypatch, place, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Failed, match=f"{place}: .* AWS_ENDPOINT_URL"):
        push(mine[0], place)


def test_without_the_package_it_says_how_to_add_it(mine, module, monkeypatch):
    monkeypatch.setattr(module("errors"), "find_spec", lambda name: None)
    with pytest.raises(LabError, match=r"s3://lab/a needs the package s3fs: make add PACKAGE=s3fs"):
        push(mine[0], "s3://lab/a")


def test_several_files(mine, client, tmp_path):
    project, _ = mine
    hashes = make_several(project)
    push(project, PLACE)
    assert sorted(files_at(project, PLACE)) == sorted(f"{each}-digits.h5" for each in hashes)
    copied, original = pull_after_a_cut(project, tmp_path / "theirs", hashes)
    assert copied == original
