"""What ran is what is recorded: the imported files are compared with the frozen code, and named where they differ."""

import os
import shutil

import pytest
from projects import copy_of
from record_of_imports import lab, run_program, start_of
from repositories import commit, git, write


@pytest.fixture
def own(with_extra, tmp_path):
    return copy_of(with_extra, tmp_path / "myproj")


@pytest.mark.slow
def test_the_code_that_was_frozen_is_complete(own):
    assert run_program(own) == ""
    assert start_of(own)["code"]["complete"] is True
    assert start_of(own)["code"]["not_frozen"] == []
    assert "code, settings" in lab(own, "runs", "verify", "@last")


SHOWN = "import inspect, myproj.extra as e; print(e.VALUE, inspect.getsource(e), e.__file__)"


@pytest.mark.slow
def test_an_edit_after_the_freeze_does_not_run(own):
    edit = "Path('src/myproj/extra.py').write_text('VALUE = 2\\n')"
    output = run_program(own, between=edit, later=SHOWN)
    assert output == f"1 VALUE = 1\n {own}/src/myproj/extra.py\n"
    assert start_of(own)["code"]["complete"] is True


@pytest.mark.slow
def test_a_file_made_after_the_freeze_is_refused_even_when_told_to_warn(own):
    make = "Path('src/myproj/newer.py').write_text('')"
    output = run_program(own, between=make, modules="myproj.newer", policy="warn", rc=4)
    assert "src/myproj/newer.py: created after the code was frozen" in output


@pytest.mark.slow
def test_what_is_imported_during_the_training_is_what_was_frozen(own):
    later = f"Path('src/myproj/extra.py').write_text('VALUE = 2\\n'); {SHOWN}"
    assert run_program(own, modules="", later=later).startswith("1 VALUE = 1\n")
    assert start_of(own)["code"]["not_frozen"] == []


@pytest.mark.slow
def test_an_edit_after_the_import_is_no_difference(own):
    later = "Path('src/myproj/extra.py').write_text('VALUE = 2\\n')"
    assert run_program(own, later=later) == ""
    assert start_of(own)["code"]["complete"] is True


@pytest.mark.release
@pytest.mark.slow
def test_an_attempt_that_is_killed_before_the_comparison_says_so(own):
    write(own, {"src/myproj/extra.py": "import os\n\nos._exit(9)\n"})
    run_program(own, rc=9)
    assert start_of(own)["code"]["complete"] is False
    assert "code: incomplete: never compared with what ran" in lab(own, "runs", "verify", "@last")


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("module", ["myproj.models.unet", "myproj.trials.wip.model"])
def test_code_that_git_ignores_is_refused_with_the_rule(own, module):
    path = f"src/{module.replace('.', '/')}.py"
    rule = path.split("/")[-2]
    write(own, {path: "VALUE = 1\n"})
    rules = (own / ".gitignore").read_text() + f"{rule}/\n"
    write(own, {".gitignore": rules})
    output = run_program(own, modules=module, rc=4)
    assert f"{path}: ignored by '{rule}/' in .gitignore:{rules.count(chr(10))}" in output
    git(own, "add", "-f", path)
    assert "the record lacks" not in run_program(own, modules=module)


@pytest.mark.slow
def test_code_in_a_repository_of_its_own_is_refused(own):
    write(own, {"src/myproj/inner/tools.py": "VALUE = 1\n"})
    commit(own / "src/myproj/inner", "first")
    output = run_program(own, modules="myproj.inner.tools", rc=4)
    assert "src/myproj/inner/tools.py: in a repository of its own" in output


@pytest.mark.release
@pytest.mark.slow
def test_ignored_code_may_be_left_out_and_is_named(own):
    write(own, {"src/myproj/made.py": "VALUE = 1\n", ".gitignore": "/runs\nmade.py\n"})
    commit(own, "Ignore what is made")
    output = run_program(own, modules="myproj.made", policy="warn")
    assert "the record lacks code that runs here" in output
    assert start_of(own)["code"]["complete"] is False
    assert "src/myproj/made.py ran and is not recorded: ignored by" in lab(
        own, "runs", "verify", "@last"
    )
    (own / "src/myproj/made.py").write_text("VALUE = 2\n")
    assert "src/myproj/made.py, which is not recorded, changed" in lab(
        own, "runs", "verify", "@last", rc=1
    )


@pytest.mark.slow
def test_an_unknown_policy_is_reported(own):
    assert "record.code must be refuse or warn, but it is yes" in run_program(
        own, policy="yes", rc=2
    )


@pytest.mark.release
@pytest.mark.slow
def test_code_behind_a_link_to_outside_is_named(own, tmp_path):
    write(tmp_path / "elsewhere", {"shared.py": "VALUE = 1\n"})
    (own / "src/myproj/linked").symlink_to(tmp_path / "elsewhere")
    commit(own, "Link")
    run_program(own, modules="myproj.linked.shared")
    (file,) = start_of(own)["code"]["not_frozen"]
    assert (file["path"], file["kind"]) == ("src/myproj/linked/shared.py", "outside")
    assert f"a link to {tmp_path}/elsewhere/shared.py" in file["reason"]
    assert "src/myproj/linked/shared.py ran and is not recorded" in lab(
        own, "runs", "verify", "@last"
    )
    write(tmp_path / "elsewhere", {"shared.py": "VALUE = 2\n"})
    lab(own, "runs", "verify", "@last", rc=1)


@pytest.mark.release
@pytest.mark.slow
def test_a_link_within_the_repository_is_no_difference(own):
    write(own, {"shared/tools.py": "VALUE = 1\n"})
    (own / "src/myproj/linked").symlink_to("../../shared")
    commit(own, "Link")
    assert run_program(own, modules="myproj.linked.tools") == ""


@pytest.mark.release
@pytest.mark.slow
def test_a_module_from_pythonpath_is_named(own, tmp_path):
    write(tmp_path / "mine", {"helper.py": "VALUE = 1\n", "sitecustomize.py": ""})
    path = f"{own}/src{os.pathsep}{tmp_path}/mine"
    output = run_program(own, modules="helper", PYTHONPATH=path)
    for name in ("helper.py", "sitecustomize.py"):  # Python itself imports the second
        assert f"{tmp_path}/mine/{name}: outside of the repository" in output
    assert all(file["sha256"] for file in start_of(own)["code"]["not_frozen"])


@pytest.mark.release
@pytest.mark.slow
def test_an_editable_install_of_another_repository_counts_when_it_is_committed(own, tmp_path):
    other = tmp_path / "other"
    write(
        other, {"other.py": "VALUE = 1\n", "other.egg-info/PKG-INFO": "Name: other\nVersion: 1\n"}
    )
    commit(other, "first")
    path = f"{own}/src{os.pathsep}{other}"
    assert run_program(own, modules="other", PYTHONPATH=path) == ""
    head = git(other, "rev-parse", "HEAD")
    (listed,) = own.glob("runs/*/*/env.txt")
    assert f"other==1 (commit {head[:12]}, unchanged)\n" in listed.read_text()
    write(other, {"other.py": "VALUE = 2\n"})
    shutil.rmtree(own / "runs")
    output = run_program(own, modules="other", PYTHONPATH=path)
    assert f"{other}/other.py: not committed in its repository" in output
    (listed,) = own.glob("runs/*/*/env.txt")
    assert f"other==1 (commit {head[:12]}, changed " in listed.read_text()


@pytest.mark.release
@pytest.mark.slow
def test_files_of_a_submodule_are_those_that_were_frozen(own, tmp_path):
    library = tmp_path / "library"
    write(library, {"tools.py": "VALUE = 1\n"})
    commit(library, "first")
    git(own, "submodule", "add", "-q", str(library), "src/myproj/library")
    commit(own, "Add the library")
    edit = "Path('src/myproj/library/tools.py').write_text('VALUE = 2\\n')"
    shown = "import myproj.library.tools as tools; print(tools.VALUE)"
    assert run_program(own, modules="", between=edit, later=shown) == "1\n"
    assert start_of(own)["code"]["complete"] is True


@pytest.mark.release
@pytest.mark.slow
def test_other_line_ends_than_git_stores_are_no_difference(own):
    git(own, "config", "core.autocrlf", "input")
    (own / "src/myproj/extra.py").write_bytes(b"VALUE = 1\r\n")
    assert "lacks" not in run_program(own)
    assert start_of(own)["code"]["complete"] is True


@pytest.mark.release
@pytest.mark.slow
def test_frozen_code_is_compared_without_git(own, tmp_path):
    run_program(own)
    run_id = next(own.glob("runs/*/2*")).name
    code = tmp_path / "code"
    lab(own, "runs", "code", run_id, str(code))
    shutil.rmtree(own / "runs")
    tools = tmp_path / "bin"
    tools.mkdir()
    frozen = {
        "PYTHONPATH": f"{code}/src{os.pathsep}{code}/labrig-frozen",
        "PATH": str(tools),
        "LAB_FROZEN": str(code),
        "LAB_PROJECT": str(own),
    }
    assert run_program(own, **frozen) == ""
    assert start_of(own)["code"]["complete"] is True
    write(code, {"src/myproj/extra.py": "VALUE = 2\n"})
    assert "extra.py: changed" in run_program(own, rc=4, **frozen)


@pytest.mark.release
@pytest.mark.slow
def test_a_frozen_run_imports_nothing_of_today_from_the_live_tree(own, tmp_path):
    """Another package of the repository, installed as editable, lies in the live tree."""
    write(own, {"tools/measure.py": "VALUE = 1\n"})
    commit(own, "Add tools")
    path = f"{own}/src{os.pathsep}{own}/tools"
    run_program(own, modules="measure", PYTHONPATH=path)
    code = tmp_path / "code"
    lab(own, "runs", "code", next(own.glob("runs/*/2*")).name, str(code))
    frozen = {
        "PYTHONPATH": os.pathsep.join([f"{code}/src", f"{code}/labrig-frozen", f"{own}/tools"]),
        "LAB_FROZEN": str(code),
        "LAB_PROJECT": str(own),
    }
    assert run_program(own, modules="measure", **frozen) == ""
    write(own, {"tools/measure.py": "VALUE = 2\n"})
    shown = "import measure; print(measure.VALUE)"
    assert run_program(own, modules="", later=shown, **frozen) == "1\n"
