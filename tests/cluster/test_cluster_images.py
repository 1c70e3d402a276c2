# ruff: noqa: F811 (fixtures are imported by name)
"""One file in place of an environment: made once for each lock, unpacked or started in a job, named in the record.

No container tool is installed: a stand-in runs the command of `exec` without a container. Its arguments are checked.
"""

import json
import re
import stat
import time
from pathlib import Path

import pytest
from labrig.cluster.image import packed as image
from labrig.cluster.image.build import apptainer_definition, pyxis_command
from labrig.cluster.image.packed import Image
from labrig.cluster.job.environment import outermost
from labrig.cluster.sites.site import load_site
from labrig.project import Project
from projects import SOURCE
from recorded_answers import lab  # noqa: F401
from repositories import commit
from small_environment import small_environment, use_environment

WAIT_S = 180
TOOL = """#!/bin/sh
# exec OPTIONS IMAGE COMMAND, or build IMAGE DEFINITION
echo "$APPTAINER_BIND|$*" >>"{calls}"
if [ "$1" = build ]; then grep From "$3" && cp "$3" "$2"; exit; fi
while [ "$1" != python3 ]; do shift; done
shift
exec "{python}" "$@"
"""


def sent_command(lab, *settings, command):
    """Submits a command, waits for its end, and returns the run's directory."""
    words = ["submit", "site=workstation", "job.gpus=0", *settings, "--json", "--", *command]
    sent = json.loads(lab(*words).strip().splitlines()[-1])
    run_dir = Path(sent["run_dir"])
    wait_until((run_dir / "summary.json").exists, f"the end of {run_dir}")
    return run_dir


def wait_until(is_so, what):
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s, f"waited {WAIT_S} s for {what}"
        time.sleep(0.2)


@pytest.mark.release
@pytest.mark.slow
def test_a_packed_environment_is_unpacked_on_the_node_and_named_in_the_record(lab, tmp_path):
    environment = small_environment(tmp_path / "environment")
    use_environment(lab.folder, environment)
    packed = ["site.python=packed", f"paths.scratch={tmp_path}/scratch"]
    refused = lab("submit", "trial=baseline", *packed, rc=2)
    assert "lab image build site.python=packed" in refused
    assert "Jobs unpack it" in lab("image", "build", *packed)
    (file,) = (tmp_path / "scratch/images").iterdir()
    assert re.fullmatch(r"myproj-[0-9a-f]{12}\.tar", file.name)

    run_dir = sent_command(
        lab, *packed, command=["sh", "-c", "which-python; command -v python; ls $LAB_FROZEN/.."]
    )
    log = (run_dir / "job.log").read_text()
    node_dirs = re.findall(r"^(/\S+/lab-\S+)/env$", log, re.M)
    assert len(node_dirs) == 1, log
    assert f"{node_dirs[0]}/env/bin/python\n" in log
    wait_until(lambda: not Path(node_dirs[0]).exists(), "the removal of what was unpacked")
    record = json.loads((run_dir / "run.json").read_text())
    assert record["env"]["container"] == str(file)
    assert record["env"]["container_sha256"] == image.sha256(file)
    start = json.loads((run_dir / "attempts/1/start.json").read_text())
    assert start["environment_differences"] == []
    assert start["variables"]["LAB_IMAGE_SHA256"] == record["env"]["container_sha256"]

    packages = next(environment.glob("lib/python3*/site-packages"))
    (packages / "more-1.0.dist-info").mkdir()
    (packages / "more-1.0.dist-info/METADATA").write_text("Name: more\nVersion: 1.0\n")
    assert "lab image build" in lab("submit", "trial=baseline", *packed, rc=2), (
        "other packages, another file"
    )


@pytest.mark.release
@pytest.mark.slow
def test_a_container_is_built_from_the_lock_and_started_with_what_a_job_reads(lab, tmp_path):
    container = ["site.python=container", f"paths.scratch={tmp_path}/scratch"]
    assert "uv.lock is missing" in lab("image", "build", *container, rc=2)
    (lab.folder / "uv.lock").write_text("version = 1\n")
    (lab.folder / "requirements.lock").write_text("torch==2.13.0 --hash=sha256:00\n")
    commit(lab.folder, "Lock")
    said = lab("image", "build", *container, rc=1)
    assert "apptainer is not installed here" in said
    assert re.search(r"^  apptainer build \S+\.sif \S+\.def$", said, re.M)

    calls = tmp_path / "calls"
    tool = lab.tools / "apptainer"
    tool.write_text(TOOL.format(calls=calls, python=lab.folder / ".venv/bin/python"))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    lab("image", "build", *container)
    (file,) = (tmp_path / "scratch/images").glob("*.sif")
    assert file.name == f"myproj-{image.sha256(lab.folder / 'uv.lock')[:12]}.sif"
    assert "From: docker.io/library/python:3." in file.read_text()

    run_dir = sent_command(lab, *container, command=["sh", "-c", "echo here: $LAB_IMAGE"])
    assert f"here: {file}" in (run_dir / "job.log").read_text()
    started = [line.split("|") for line in calls.read_text().splitlines() if " rank " in line]
    ((binds, words),) = started
    assert words.startswith(f"exec --nv {file} python3 -m labrig rank -- sh -c")
    assert binds.split(",") == [str(lab.folder), f"{tmp_path}/scratch", "/dev/shm"]
    record = json.loads((run_dir / "run.json").read_text())
    assert record["env"]["container_sha256"] == image.sha256(file)
    assert (
        json.loads((run_dir / "attempts/1/start.json").read_text())["environment_differences"] == []
    )


@pytest.mark.slow
def test_a_failing_build_leaves_no_image(lab, tmp_path):
    for name in ("uv.lock", "requirements.lock"):
        (lab.folder / name).write_text("")
    lab.fake("apptainer", rc=7)
    said = lab("image", "build", "site.python=container", f"paths.scratch={tmp_path}/scratch", rc=1)
    assert "failed, see above" in said
    assert [path.suffix for path in (tmp_path / "scratch/images").iterdir()] == [".def"]


@pytest.mark.release
@pytest.mark.slow
def test_mistakes_around_images_are_answered(lab):
    assert "python: venv" in lab("image", "build", rc=2)
    assert "did you mean: packed" in lab("image", "build", "site.python=paked", rc=2)
    assert "did you mean: apptainer" in lab("image", "build", "site.container.tool=aptainer", rc=2)


def site_with(**container):
    project = Project(SOURCE.parent, "myproj")
    return project, load_site(
        project, "slurm", {"scheduler": "slurm", "python": "container", "container": container}
    )


def test_the_definition_names_lock_base_and_installer(tmp_path):
    (tmp_path / "uv.lock").write_text("lock")
    _, site = site_with(base="/images/python.sif")
    text = apptainer_definition(Project(tmp_path, "myproj"), site, tmp_path / "requirements.lock")
    head, *sections = re.split(r"^%", text, flags=re.M)
    assert head.split() == ["Bootstrap:", "localimage", "From:", "/images/python.sif"]
    by_name = {section.split()[0]: section for section in sections}
    assert list(by_name) == ["labels", "files", "post", "environment", "test"]
    assert f"{tmp_path}/requirements.lock /opt/lab/requirements.lock" in by_name["files"]
    installer = Path(by_name["files"].split()[3])
    assert "--require-hashes" in installer.read_text()
    assert image.sha256(tmp_path / "uv.lock") in by_name["labels"]


def test_pyxis_users_see_what_to_type():
    project, site = site_with(tool="pyxis", base="ghcr.io/lab/python:{python}")
    said = pyxis_command(
        project, site, Image(Path("/scratch/images/a.sqsh"), "pyxis"), Path("/p/requirements.lock")
    )
    assert "--container-image=ghcr.io#lab/python:3." in said
    assert "--container-save=/scratch/images/a.sqsh" in said
    assert "--container-remap-root" in said
    _, site = site_with(tool="pyxis")
    said = pyxis_command(
        project, site, Image(Path("/scratch/images/a.sqsh"), "pyxis"), Path("/p/requirements.lock")
    )
    assert "--container-image=library/python:3." in said


def test_a_directory_inside_another_one_is_not_mounted_twice():
    places = [Path("/a"), Path("/a/runs"), Path("/b"), Path("/a"), Path("/ab")]
    assert outermost(places) == [Path("/a"), Path("/b"), Path("/ab")]
