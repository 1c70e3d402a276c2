"""One list says what is known of a run: all that it names is recorded, cached, listed and shown."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from labrig.record.files.atomic import read_advisory
from labrig.record.files.forms import problem_in
from labrig.record.list.columns import runs
from labrig.record.read import row_cache
from labrig.record.read import rows as index
from labrig.record.read.fields import FIELDS, REPORT
from labrig.record.read.rows import read_row
from labrig.record.write.begin import begin_attempt
from projects import SOURCE
from record_package import call, create, make_project, train
from report_page import page_of, table_of

PEAK_BYTES = 3_200_000_000


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A run on a CPU, then one of two attempts on a GPU. Shared: do not change it."""
    project = make_project(tmp_path_factory.mktemp("fields") / "project")
    train(project)
    run = create(project)
    begin_attempt(run, project).end("interrupted", peak_gpu_bytes=PEAK_BYTES)
    begin_attempt(run, project).end("finished", peak_gpu_bytes=PEAK_BYTES // 2)
    return project


def printed(project, capsys, *words):
    capsys.readouterr()
    call(project, *words)
    return capsys.readouterr().out


def rows_of(project):
    return index.read_rows([project.root / "runs"])


def test_the_largest_memory_of_all_attempts_counts(project):
    on_gpu, on_cpu = rows_of(project)
    assert (on_gpu["peak_gpu_bytes"], on_cpu["peak_gpu_bytes"]) == (PEAK_BYTES, None)
    assert (
        read_advisory(project.root / on_gpu["run_dir"] / "summary.json")["peak_gpu_bytes"] == 3.2e9
    )


def test_lists_show_it(project, capsys):
    lines = printed(project, capsys, "runs list", "--columns", "peak_gpu_bytes").splitlines()
    assert [line.split()[-1] for line in lines[:3]] == ["peak_gpu_bytes", str(PEAK_BYTES), "-"]
    table = csv.DictReader(io.StringIO(printed(project, capsys, "runs list", "--csv")))
    assert [row["peak_gpu_bytes"] for row in table] == [str(PEAK_BYTES), ""]
    assert [row["peak_gpu_bytes"] for row in runs(project=project)] == [PEAK_BYTES, None]


def test_show_has_a_line_where_there_is_a_gpu(project, capsys):
    on_gpu, on_cpu = rows_of(project)
    assert "  peak GPU GB 3.200\n" in printed(project, capsys, "runs show", on_gpu["run_id"])
    assert "peak GPU" not in printed(project, capsys, "runs show", on_cpu["run_id"])
    record = json.loads(printed(project, capsys, "runs show", on_gpu["run_id"], "--json"))
    assert (record["peak_gpu_bytes"], record["status"]) == (PEAK_BYTES, "finished")


def test_the_page_takes_its_titles_and_units_from_the_list(project):
    call(project, "report")
    table = table_of(page_of(project))
    facts = {fact["key"]: fact for fact in table["facts"]}
    assert table["rows"][facts["peak_gpu_gb"]["of"]] == [PEAK_BYTES, None]
    assert (facts["peak_gpu_gb"]["title"], facts["peak_gpu_gb"]["per"]) == ("peak GPU GB", 1e9)
    titles = {key: fact["title"] for key, fact in facts.items()}
    # filters and addresses of pages that exist name these
    assert titles == {
        "run": "run",
        "trial": "trial",
        "status": "status",
        "created": "created",
        "who": "who",
        "why": "why",
        "parent": "repeats",
        "commit": "commit",
        "device": "device",
        "attempts": "attempts",
        "hours": "hours",
        "gpu_hours": "GPU-hours",
        "kwh": "kWh",
        "peak_gpu_gb": "peak GPU GB",
        "tags": "tags",
        "error": "error",
        "project": "project",
        "host": "host",
    }
    assert {fact["of"] for fact in table["facts"]} <= table["rows"].keys()


def test_tables_for_programs_keep_their_columns(project, capsys):
    """A script may count them."""
    header = printed(project, capsys, "runs list", "--csv")
    first = "run_id,trial,status,created,run_dir,seed,who,seconds,gpu_seconds,peak_gpu_bytes,"
    assert header.startswith(first)
    row = runs(project=project)[0]
    assert list(row) == [
        *("run_id", "trial", "status", "created", "who", "why", "parent", "is_check"),
        *("seed", "init_from"),
        *("commit", "package_tree", "trial_tree", "device", "n_attempts", "seconds"),
        *("peak_gpu_bytes", "run_dir", "gpu_hours", "tags"),
    ]


def test_every_field_has_a_name_of_its_own_and_a_value_of_its_type(project):
    names = [field.name for field in FIELDS]
    keys = [field.key or field.name for field in FIELDS if REPORT in field.shown]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)
    for row in rows_of(project):
        assert row.keys() == set(names)
        for field in FIELDS:
            assert problem_in(row[field.name], field.type) is None, field.name


@pytest.mark.slow
def test_a_new_field_is_known_of_runs_that_ended_before(tmp_path, capsys):
    """summary.json is not written again: what it lacks comes from run.json and the attempts."""
    project = make_project(tmp_path / "project")
    run = train(project, metrics={"val/loss": 0.5}, why="to see")
    summary = read_advisory(run.dir / "summary.json")
    whole = read_row(str(run.dir))
    lacking = {key: summary[key] for key in summary if key not in ("why", "n_attempts")}
    (run.dir / "summary.json").write_text(json.dumps(lacking | {"fields": "of another labrig"}))
    assert read_row(str(run.dir)) == whole
    assert (whole["why"], whole["n_attempts"]) == ("to see", 1)


@pytest.mark.slow
def test_a_value_of_another_type_is_called_damaged_and_hides_nothing(tmp_path, capsys):
    project = make_project(tmp_path / "project")
    whole = train(project)
    odd = train(project)
    summary = read_advisory(odd.dir / "summary.json")
    others = {"device": "a list", "peak_gpu_bytes": "text", "status": "null"}
    for key, value in (("device", ["a"]), ("peak_gpu_bytes", "much"), ("status", None)):
        (odd.dir / "summary.json").write_text(json.dumps(summary | {key: value}))
        rows = {row["run_id"]: row for row in rows_of(project)}
        assert (rows[whole.id]["status"], rows[odd.id]["status"]) == ("finished", "damaged")
        assert f"in summary.json, {key} is {others[key]}, expected" in rows[odd.id]["exception"]
        assert "by trial" in printed(project, capsys, "runs cost")


def test_a_cache_of_other_fields_is_made_again(project, tmp_path, monkeypatch):
    """Also when one only got another type."""
    monkeypatch.setattr(index, "MANY", 1)
    monkeypatch.setattr(row_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    expected = rows_of(project)
    assert next(tmp_path.glob("*/*.rows")).read_bytes().startswith(row_cache.HEADER)
    last = FIELDS[-1]
    for fields in (FIELDS[:-1], [*FIELDS[:-1], replace(last, type=str)]):
        with monkeypatch.context() as patch:
            patch.setattr(row_cache, "HEADER", row_cache.header_of(fields))
            store_rows(project.root / "runs", [row | {"who": "from the cache"} for row in expected])
            assert {row["who"] for row in rows_of(project)} == {"from the cache"}
        assert rows_of(project) == expected


def store_rows(runs_root, rows):
    """Fills the cache as a listing would."""
    entries = {
        row["run_dir"]: (row_cache.file_stamp(f"{row['run_dir']}/summary.json"), row)
        for row in rows
    }
    row_cache.store_entries(runs_root, entries)


ONE_LINE_MORE = """
import sys
from pathlib import Path
from labrig.record.read import fields
from labrig.record.read.fields import LINE, LIST, SHOW, TABLES, Field, Number, recorded
field = Field("max_file_mb", Number, recorded, LIST | SHOW | LINE | TABLES, "limit_gb", "limit in GB", 1e3)
fields.FIELDS = (*fields.FIELDS, field)
fields.FIELDS_HASH = "of a labrig with this field"
from labrig.cli import main
for words in (
    ["runs", "list", "--columns", "max_file_mb"], ["runs", "list", "--csv"], ["runs", "show", "@last"],
    ["runs", "show", "@last", "--json"], ["report"],
):
    main(words)
from labrig import runs
print("notebook", runs()[0]["max_file_mb"])
"""


@pytest.mark.slow
def test_one_line_is_a_field_everywhere(tmp_path):
    project = make_project(tmp_path / "project")
    train(project, max_file_mb=12.5)
    done = subprocess.run(
        [sys.executable, "-c", ONE_LINE_MORE],
        cwd=project.root,
        env={"PYTHONPATH": str(SOURCE), "LAB_PROJECT": str(project.root), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[3:] == ["max_file_mb"]
    assert lines[1].split()[3:] == ["12.5"]
    assert lines[2].split(",")[10] == "max_file_mb"
    assert lines[3].split(",")[10] == "12.5"
    assert "  limit in GB 0.013" in lines
    assert ' "max_file_mb": 12.5,' in lines
    assert lines[-1] == "notebook 12.5"
    table = table_of(page_of(project))
    assert {"key": "limit_gb", "title": "limit in GB", "of": "max_file_mb", "per": 1e3} in table[
        "facts"
    ]
    assert table["rows"]["max_file_mb"] == [12.5]
