"""Job scripts: one stored whole for each scheduler; shellcheck reads those of every site and shape."""

import re
import subprocess
from contextlib import suppress

import pytest
from job_scripts import IMAGES, SHAPES, SITES, job_script
from labrig.cluster.sites.show import show_command
from labrig.cluster.submit import script
from labrig.cluster.submit.script import TEMPLATES, library_template, names_in, script_template
from labrig.errors import LabError
from labrig.machine.caches import CACHES
from labrig.project import Project
from programs import need
from projects import HELPERS, ROOT
from repositories import write

GOLDEN = ROOT / "tests/golden/jobs"
# scheduler -> the site and shape whose script is stored whole
WHOLE = {
    "slurm": ("slurm", "2nodes"),
    "pbs": ("abci3", "2nodes"),
    "gridengine": ("tsubame4", "2nodes"),
    "lsf": ("lsf", "2nodes"),
    "pjm": ("wisteria_a", "2nodes"),
    "local": ("workstation", "1gpu"),
}
READ_THE_DIFFERENCE = f"read the difference, then: pytest --regenerate {__file__}"


@pytest.fixture(autouse=True)
def no_settings_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("LAB_SITE_PATH", "LAB_CACHES", *CACHES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def compare(pytestconfig):
    """compare(file, text): whether the text is the stored one; with --regenerate it is stored."""

    def compare(file, text):
        if pytestconfig.getoption("--regenerate"):
            file.write_text(text, encoding="utf-8")
        return text == file.read_text(encoding="utf-8")

    return compare


def whole_script(scheduler):
    site, shape = WHOLE[scheduler]
    return job_script(site, **SHAPES[shape])


@pytest.mark.parametrize("scheduler", WHOLE)
def test_the_script_of_each_scheduler_is_the_stored_one(scheduler, compare):
    assert compare(GOLDEN / f"{scheduler}.sh", whole_script(scheduler)), READ_THE_DIFFERENCE


def for_shellcheck(text):
    """A script without what shellcheck does not read: other comments than its own, and which number it is."""
    lines = [line for line in text.splitlines() if not re.match("#(?!!| *shellcheck)", line)]
    return re.sub(r"\d+", "0", "\n".join(lines))


@pytest.mark.release
@pytest.mark.slow
def test_job_scripts_pass_shellcheck(tmp_path):
    need("shellcheck")
    texts = {
        f"image-{title}": job_script(site, form=form) for title, (site, form) in IMAGES.items()
    }
    for site in SITES:
        for shape, size in SHAPES.items():
            with suppress(LabError):  # the site refuses it
                texts[f"{site}-{shape}"] = job_script(site, **size)
    different = {for_shellcheck(text): name for name, text in texts.items()}
    assert len(different) > 30
    scripts = []
    for name in different.values():
        script = tmp_path / f"{name.replace(' ', '-')}.sh"
        script.write_text(texts[name])
        scripts.append(script)
    scripts += TEMPLATES.parent.glob("image/files/*.sh")
    command = ["shellcheck", "--format=gcc", *scripts, *(HELPERS / "schedulers").glob("*.sh")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0


def test_every_name_is_filled_in_and_every_value_has_its_name(monkeypatch):
    given = []
    values_of = script.script_values
    monkeypatch.setattr(
        script, "script_values", lambda *of: given.append(values_of(*of)) or given[-1]
    )
    for site, shape in WHOLE.values():
        assert "@@" not in job_script(site, **SHAPES[shape])
    named = [names_in(library_template(scheduler)) for scheduler in WHOLE]
    assert set().union(*named) == set(given[0])


@pytest.fixture
def with_script(tmp_path):
    """with_script(before, after): the project's own script, the library's with a change."""

    def write_script(before, after, scheduler="slurm"):
        text = library_template(scheduler)
        assert before in text
        write(tmp_path, {f"jobs/{scheduler}.sh": text.replace(before, after)})
        return script_template(tmp_path, scheduler)

    return write_script


def test_the_projects_own_script_comes_first(with_script, tmp_path):
    own = "RUNNING_JOBS=mine\n"
    template = with_script("# ---- Slurm\n", f"# ---- Slurm\n{own}")
    text = job_script("slurm", template=template)
    assert own in text
    assert "Filled in by `lab submit`; the script is jobs/slurm.sh; edit it there: lab" in text
    assert script_template(tmp_path, "pbs").origin == "the library's pbs.sh"
    copy = "the script is the library's slurm.sh; to edit it, copy it to jobs/: lab docs cluster"
    assert copy in job_script("slurm")


def test_a_copy_of_the_librarys_script_is_printed_and_taken(tmp_path, project, capsys):
    show_command(Project(project, "myproj"), ["tsubame4", "--script"])
    write(tmp_path, {"jobs/gridengine.sh": capsys.readouterr().out})
    copy = script_template(tmp_path, "gridengine")
    assert copy.origin == "jobs/gridengine.sh"
    assert copy.text == library_template("gridengine")
    with pytest.raises(LabError, match="lab site show NAME --script"):
        show_command(Project(project, "myproj"), ["--script"])


def test_a_script_that_lacks_what_a_job_needs_is_refused(with_script):
    template = with_script("MAX_REQUEUES=@@{max_requeues}\n", "MAX_REQUEUES=3\n")
    with pytest.raises(
        LabError, match=r"jobs/slurm.sh lacks @@\{max_requeues\}, and this job needs"
    ):
        job_script("slurm", template=template)
    with pytest.raises(LabError, match=r"has @@\{node\}; did you mean: nodes, which is no name"):
        with_script("@@{nodes}", "@@{node}")
    without_chains = with_script("@@{chain}", "", "pbs")
    assert "the script is jobs/pbs.sh" in job_script("abci3", template=without_chains)
    with pytest.raises(LabError, match=r"lacks @@\{chain\}"):
        job_script("abci3", template=without_chains, **SHAPES["chunks"])


def test_an_ampersand_in_a_constraint_is_quoted():
    assert "#SBATCH --constraint='gpu&hbm80g'\n" in job_script("slurm", constraint="gpu&hbm80g")


def test_every_job_key_reaches_slurm():
    text = job_script(
        "slurm", nodes=2, gpus=4, tasks_per_node=2, cpus_per_task=6, mem="64G", time="1-02:00:00", account="acc",
        queue="gpu", qos="high", constraint="a100", after="77", exclude="n3", mail="a@b.org", reservation="course",
        extra=["--comment=hello"],
    )  # fmt: skip
    directives = set(re.findall(r"^#SBATCH (.*)$", text, re.M))
    assert directives >= {
        "--nodes=2", "--gres=gpu:4", "--ntasks-per-node=2", "--cpus-per-task=6", "--mem=64G", "--time=26:00:00",
        "--account=acc", "--partition=gpu", "--qos=high", "--constraint=a100", "--dependency=afterok:77",
        "--exclude=n3", "--reservation=course", "--mail-user=a@b.org", "--comment=hello", "--signal=B:USR2@120", 
        "--requeue", "--open-mode=append",
    }  # fmt: skip
