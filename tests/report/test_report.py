"""`lab report`: what the page holds. tests/test_report_browser.py opens it in a browser."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
import zlib
from array import array

import pytest
from labrig import errors
from labrig.project import LIBRARY
from labrig.record.write.begin import begin_attempt
from labrig.report import figures
from labrig.report import figures as clock
from labrig.report import figures as packing
from labrig.report import gather as run_facts
from record_package import call, create, make_project
from report_page import page_of, table_of
from report_runs import MARKUP, make_runs, settled

# As npm has them: uplot 1.6.32, dist/
PUBLISHED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "0cf09be05fa0760ca9a3330ea374f6655f08766c7b2b370e462afe98852147ce",
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    project = make_runs(tmp_path_factory.mktemp("report") / "myproj")
    assert call(project, "report") == 0
    return project


def test_page_needs_no_other_file_and_may_load_none(reported):
    page = page_of(reported)
    assert "default-src 'none'" in page
    outside = re.sub(r"<script.*?</script>|/\*.*?\*/", "", page, flags=re.S)
    assert not re.search(r"https?:|\bsrc=|@import|url\(", outside)
    program = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_nothing_that_a_run_says_is_in_the_page_as_text(reported):
    page = page_of(reported)
    for text in (MARKUP, "onerror", "\u2028", "\x1b", "\u202e"):
        assert text not in page
    # Nor can it reach a terminal when it is copied from the page.
    table = json.dumps(table_of(page), ensure_ascii=False)
    assert MARKUP in table
    assert table.isprintable()


def test_table_holds_rows_settings_and_seeds(reported):
    table = table_of(page_of(reported))
    rows = table["rows"]
    assert sorted(set(rows["status"])) == ["failed", "finished"]
    lr = table["settings"]["optimizer.lr"]
    assert sorted(lr["values"]) == [0.001, 0.01, 0.1]
    by_group = {}
    for group, trial, place in zip(table["seed_groups"], rows["trial"], lr["of_run"], strict=True):
        by_group.setdefault(group, []).append((trial, lr["values"][place]))
    assert sorted(map(len, by_group.values())) == [1, 1, 3, 3]
    assert all(len(set(members)) == 1 for members in by_group.values())
    assert [trial["branches"] + trial["name"] for trial in table["trials"]] == [
        "baseline",
        "└─ wide",
    ]
    assert table["trials"][1]["question"] == "Does width help?"
    modes = {metric["name"]: metric["mode"] for metric in table["metrics"]}
    assert (modes["val/loss"], modes["val/acc"]) == ("min", "max")
    assert {picture["media"] for picture in table["pictures"]} == {"image/png", "table"}


def test_curve_survives_packing_with_four_digits():
    curve = figures.Curve(array("d", [1, 5, 70_000]), array("d", [0.123456, -3e-7, 4.5e9]))
    content = zlib.decompress(base64.b64decode(packing.pack_curves([curve, curve])))
    n = 6
    distances = [sum(content[plane * n + k] << 8 * plane for plane in range(4)) for k in range(n)]
    assert distances == [1, 4, 69_995, 1, 4, 69_995]
    bits = [
        sum(content[(4 + plane) * n + k] << 8 * plane for plane in range(3)) << 8 for k in range(3)
    ]
    values = array("f", array("I", bits).tobytes())
    assert values.tolist() == pytest.approx(curve.values.tolist(), rel=3e-5)


def test_thinning_keeps_peaks_and_both_ends():
    values = array("d", [1.0] * 5000)
    values[2345], values[2346] = 99.0, -99.0
    thinned = figures.thin(figures.Curve(array("d", range(5000)), values), 100)
    assert 50 < len(thinned.steps) <= 100
    assert {0, 2345, 2346, 4999} <= set(thinned.steps)
    assert thinned.steps.tolist() == sorted(thinned.steps)


def test_clock_counts_training_time_and_parts_of_epochs():
    times = [0, 3600, 90_000, 93_600]  # seconds; the run waited in a queue between its attempts
    columns = {
        "step": [10, 20, 30, 40],
        "epoch": [0, 0, 1, 2],
        "attempt": [1, 1, 2, 2],
        "time_unix_s": times,
    }
    marks = clock.clock_of(columns)
    assert (marks.steps, marks.hours) == ([10, 20, 30, 40], [0, 1, 1, 2])
    assert marks.epochs == [0.5, 1, 2, 3]


def test_rows_that_are_cut_or_repeated_are_read_as_everywhere(tmp_path):
    row = {"step": 1, "epoch": 0, "attempt": 1, "time_unix_s": 5.0, "loss": 2.0}
    again = row | {"attempt": 2, "loss": 1.0}
    late = row | {"step": 3, "attempt": 2, "loss": "nan"}
    lines = [json.dumps(each) for each in (row, again, late)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 2, "epo']))
    read = figures.read_curves(tmp_path)
    assert (read.curves["loss"].steps.tolist(), read.curves["loss"].values.tolist()) == ([1], [1])
    assert figures.read_curves(tmp_path / "none").curves == {}


@pytest.mark.slow
def test_a_damaged_record_hides_no_other_run(tmp_path):
    project = make_project(tmp_path / "myproj")
    whole = settled(project, metrics={"val/loss": 0.3})
    damaged = settled(project, metrics={"val/loss": 0.4})
    record = {"run_id": damaged.id, "host": ["h"], "code": {"commit": 5, "dirty": {}}, "command": 3}
    (damaged.dir / "run.json").write_text(json.dumps(record))
    row = '{"step": %s, "epoch": 0, "attempt": 1, "time_unix_s": %s, "val/loss": %s}\n'
    (damaged.dir / "metrics.jsonl").write_text(
        row % (1, 5, 2.5) + row % ("Infinity", 5, 2) + row % (2, "NaN", 2) + row % (3, 5, "NaN")
    )
    (damaged.dir / "pictures").mkdir()
    (damaged.dir / "pictures/table.csv").write_text("x" * 200_000)
    (damaged.dir / "summary.json").unlink()
    call(project, "report")
    table = table_of(page_of(project))
    # Its record no longer says when it was made within that second, so either may come first.
    run_ids = table["rows"]["run_id"]
    (curve,) = table["curves"]
    assert (curve["metric"], curve["runs"]) == ("val/loss", [0, 1])
    lengths = dict(zip(run_ids, curve["lengths"], strict=True))
    assert lengths == {whole.id: 2, damaged.id: 1}
    assert "NaN" not in json.dumps(table)


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b/tree/" + "0" * 40),
        ("git@gitlab.org:a/b.git", "https://gitlab.org/a/b/-/tree/" + "0" * 40),
        ("ssh://git@host:2222/a/b", "https://host/a/b/tree/" + "0" * 40),
        ("javascript:alert(1)//a", None),
        ("/srv/git/a.git", None),
        (None, None),
    ],
)
def test_link_to_the_code_leads_to_a_forge_or_nowhere(remote, url):
    assert run_facts.commit_url(remote, "0" * 40) == url


@pytest.mark.release
@pytest.mark.slow
def test_runs_of_other_projects_join(reported, tmp_path, capsys):
    other = make_project(tmp_path / "ann/myproj")
    settled(other, metrics={"val/loss": 0.3})
    file = tmp_path / "all.html"
    call(reported, "report", "-o", file, "--runs", other.root, other.root / "runs")
    rows = table_of(file.read_text(encoding="utf-8"))["rows"]
    assert sorted(set(rows["project"])) == sorted(
        {"ann/myproj", f"{reported.root.parent.name}/myproj"}
    )
    assert rows["project"].count("ann/myproj") == 1
    assert "(9 runs," in capsys.readouterr().out


def test_filters_choose_runs_and_mistakes_are_reported(reported, tmp_path, capsys):
    file = tmp_path / "few.html"
    call(reported, "report", "optimizer.lr=0.1", "status=finished", "-o", file)
    assert len(table_of(file.read_text(encoding="utf-8"))["rows"]["run_id"]) == 3
    call(reported, "report", "trial=none", "-o", tmp_path / "none.html")
    assert "none of 8 runs" in capsys.readouterr().out
    assert not (tmp_path / "none.html").exists()
    with pytest.raises(errors.LabError, match="no runs in"):
        call(reported, "report", "--runs", tmp_path)
    with pytest.raises(errors.LabError, match="expected a file"):
        call(reported, "report", "-o", tmp_path / "nowhere/x.html")
    with pytest.raises(errors.LabError, match="more than 0"):
        call(reported, "report", "--watch", "0")


@pytest.mark.slow
def test_watch_writes_again_until_every_run_has_ended(tmp_path):
    project = make_project(tmp_path / "myproj")
    attempt = begin_attempt(create(project), project)
    page = project.root / "runs/report.html"
    watching = threading.Thread(target=call, args=(project, "report", "--watch", "0.1"))
    watching.start()
    while not page.exists() and watching.is_alive():
        watching.join(0.05)
    first = table_of(page.read_text(encoding="utf-8"))
    attempt.end("finished")
    watching.join(120)
    assert not watching.is_alive()
    last = table_of(page.read_text(encoding="utf-8"))
    assert (first["rows"]["status"], first["watch_s"]) == (["running"], 0.1)
    assert (last["rows"]["status"], last["watch_s"]) == (["finished"], None)


def test_report_imports_nothing_heavy(reported):
    program = (
        "import sys\nfrom labrig.project import Project\nfrom labrig.report.report import report_command\n"
        f"from pathlib import Path\nreport_command(Project(Path({str(reported.root)!r}), 'myproj'), [])\n"
        "print({'torch', 'numpy', 'hydra', 'omegaconf', 'h5py', 'lightning', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=reported.root,
        env={},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


@pytest.mark.parametrize("name", PUBLISHED)
def test_library_is_as_published(name):
    text = (LIBRARY / "report/page/uplot" / name).read_text(encoding="utf-8")
    head, _, body = text.partition("*/\n")
    assert "MIT License" in head
    assert hashlib.sha256(body.encode()).hexdigest() == PUBLISHED[name]
