"""Public raw data are downloaded once: resumed when the download was cut, refused without their hash."""

import hashlib
import os
import threading

import pytest
from file_server import serve
from labrig.data import fetch, read_layout
from labrig.errors import Failed, LabError
from labrig.hdf5.pack.command import pack_command
from projects import call, project_in

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    with serve(CONTENT) as server:
        yield server


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return project_in(tmp_path / "myproj")


@pytest.fixture
def raw(own):
    return own.root / "data/raw"


def test_a_second_call_downloads_nothing(server, raw, capsys):
    path = fetch(f"{server.url}/some/a%20b.bin?version=1", SHA256)
    assert path == raw / "a b.bin"
    assert path.read_bytes() == CONTENT
    assert f"{path} is downloaded" in capsys.readouterr().err
    assert fetch(f"{server.url}/some/a%20b.bin?version=1", SHA256) == path
    assert server.asked == [0]
    assert os.listdir(raw) == ["a b.bin"]


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_download_that_is_cut_goes_on(server, raw, knows_ranges):
    server.cut_after = 60_000
    server.knows_ranges = knows_ranges
    with pytest.raises(Failed, match=r"was cut: 60000 of 102400|cannot be downloaded: .*kept"):
        fetch(f"{server.url}/a.bin", SHA256)
    assert not (raw / "a.bin").exists()
    server.cut_after = None
    assert fetch(f"{server.url}/a.bin", SHA256).read_bytes() == CONTENT
    assert server.asked == [0, 60_000]
    assert os.listdir(raw) == ["a.bin"]


def test_all_bytes_that_were_there_already_are_enough(server, raw):
    raw.mkdir(parents=True)
    (raw / f".a.bin.{SHA256[:12]}.part").write_bytes(CONTENT)
    assert fetch(f"{server.url}/a.bin", SHA256).read_bytes() == CONTENT
    assert server.asked == [len(CONTENT)]


def test_other_bytes_than_those_of_the_hash_are_refused(server, raw):
    server.content = CONTENT[:-1] + b"x"
    found = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(Failed, match=rf"has sha256 {found}, expected {SHA256}.* Nothing was kept"):
        fetch(f"{server.url}/a.bin", SHA256)
    assert os.listdir(raw) == []


def test_an_unknown_hash_is_said_and_costs_no_second_download(server, raw):
    with pytest.raises(Failed, match=rf"a.bin has sha256 {SHA256}. Write it in place of the"):
        fetch(f"{server.url}/a.bin", "?")
    assert not (raw / "a.bin").exists()
    assert fetch(f"{server.url}/a.bin", SHA256).read_bytes() == CONTENT
    assert server.asked == [0, len(CONTENT)], "the second asked for what is behind the end"


def test_a_file_that_was_changed_is_not_used(server, raw):
    path = fetch(f"{server.url}/a.bin", SHA256)
    path.write_bytes(CONTENT + b"x")
    with pytest.raises(Failed, match=rf"Is the hash right\? Else remove the file: rm {path}"):
        fetch(f"{server.url}/a.bin", SHA256)


def test_several_ranks_download_once(server, raw):
    paths = []
    threads = [
        threading.Thread(target=lambda: paths.append(fetch(f"{server.url}/a.bin", SHA256)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert paths == [raw / "a.bin"] * 4
    assert server.asked == [0]


@pytest.mark.parametrize(
    ("url", "sha256", "name", "message"),
    [
        ("file:///etc/passwd", SHA256, None, "is no address of a file; expected one such as"),
        ("https://host/a", "12", None, r'is not a sha256, 64 digits. Unknown\? Write "\?"'),
        ("https://host/", SHA256, None, "is not the name of a file. Name it: fetch"),
        ("https://host/a", SHA256, "../../a", "is not the name of a file. Name it: fetch"),
        ("https://host/..%2Fa", SHA256, None, "is not the name of a file. Name it: fetch"),
    ],
)
def test_what_leads_elsewhere_is_refused(own, monkeypatch, url, sha256, name, message):
    monkeypatch.setattr("urllib.request.urlopen", None)  # a TypeError: nothing is asked
    with pytest.raises(LabError, match=message):
        fetch(url, sha256, name)


@pytest.mark.parametrize("url", ["/missing.bin", None])
def test_a_server_that_has_it_not(server, own, url):
    address = f"{server.url}{url}" if url else "http://127.0.0.1:9/a.bin"
    with pytest.raises(Failed, match=r"cannot be downloaded: .* lab prefetch trial=NAME"):
        fetch(address, SHA256)


CSV = "a,b,y\n" + "".join(f"{i},{i * i},{i % 2}\n" for i in range(40))
YAML = """\
_target_: labrig.data.H5DataModule
path: squares.h5
search: ${{paths.data}}
seed: ${{seed}}
url: {url}/squares.csv
sha256: {sha256}
"""


def write_yaml(folder, server, sha256=None):
    server.content = CSV.encode()
    sha256 = sha256 or hashlib.sha256(server.content).hexdigest()
    file = folder / "src/myproj/conf/data/squares.yaml"
    file.write_text(YAML.format(url=server.url, sha256=sha256))


def test_the_address_in_the_yaml_is_the_source(server, own):
    write_yaml(own.root, server)
    for _ in range(2):
        pack_command(own, ["squares", "--as", "table", "--label", "y"])
    assert server.asked == [0]
    layout = read_layout(own.root / "data/squares.h5")
    assert layout.n_samples == 40
    assert layout.attrs["command"] == "lab data pack squares --as table --label y"
    assert layout.attrs["source"] == str(own.root / "data/raw/squares.csv")


def test_an_address_needs_a_hash(server, own):
    write_yaml(own.root, server, sha256="null")
    with pytest.raises(LabError, match=r"none for its sha256. Unknown\? Write: sha256"):
        pack_command(own, ["squares", "--as", "table", "--label", "y"])
    with pytest.raises(LabError, match="--as images needs a source: lab data pack NAME SOURCE"):
        pack_command(own, ["digits", "--as", "images"])


@pytest.mark.release
@pytest.mark.slow
def test_prefetch_downloads_it_on_the_login_node(server, own_project):
    write_yaml(own_project, server)
    words = ["trial=baseline", "data=squares", "trainer=cpu", "model.n_classes=2"]
    said = call(own_project, "lab", "prefetch", *words, rc=1)
    assert f"raw data: {own_project}/data/raw/squares.csv" in said
    assert "lab check fails here" in said, "it is not packed yet"
    assert server.asked == [0]
