"""What users do to the template's files, and to the kinds of files: modes, links, ends of lines."""

import os
import shutil

from edits import append, edit, replace
from releases import DELETED, RENAMED
from repositories import commit, git, write


@edit()
def bootstrap(folder):
    replace(
        folder, "tools/bootstrap.py", "def text_of(path):\n", "def text_of(path):\n    # mine\n"
    )


@edit(conflicts=["tools/bootstrap.py"])
def bootstrap_at_the_same_line(folder):
    replace(folder, "tools/bootstrap.py", 'UV = shutil.which("uv")', "UV = None")


@edit()
def workflow(folder):
    replace(folder, ".github/workflows/check.yml", "      - run: make test\n", "")
    append(folder, ".github/workflows/check.yml", "      - run: make test figures\n")


@edit(conflicts=[".github/workflows/check.yml"])
def workflow_at_the_same_line(folder):
    replace(folder, ".github/workflows/check.yml", "-minutes: 15", "-minutes: 60")


@edit(lost=[RENAMED, DELETED])
def template_files_that_are_renamed_or_deleted_later(folder):
    append(folder, RENAMED, "# mine\n")
    append(folder, DELETED, "# mine\n")


@edit()
def own_files_next_to_the_templates(folder):
    write(
        folder,
        {
            ".github/workflows/mine.yml": "on: push\n",
            ".gitlab/mine.yml": "a: {script: [a]}\n",
            "docs/mine.md": "# Mine\n",
            "src/myproj/commands.py": "COMMANDS = []\n",
            "tools/mine.py": "A = 1\n",
            "vendor/labrig.txt": "labrig==1\n",
        },
    )


@edit()
def template_files_deleted(folder):
    for name in ("Makefile", ".github/workflows/check.yml", "tools/bootstrap.py"):
        (folder / name).unlink()


@edit()
def the_other_forge_deleted(folder):
    shutil.rmtree(folder / ".gitlab")
    (folder / ".gitlab-ci.yml").unlink()


@edit()
def a_folder_of_the_template_deleted(folder):
    shutil.rmtree(folder / ".github")


@edit()
def a_template_file_moved(folder):
    git(folder, "mv", "tools/bootstrap.py", "tools/begin.py")


# How files lie on the disk


@edit()
def modes(folder):
    os.chmod(folder / "src/myproj/task.py", 0o755)
    os.chmod(folder / "tools/bootstrap.py", 0o755)
    write(folder, {"run.sh": "#!/bin/sh\n"})
    os.chmod(folder / "run.sh", 0o755)


@edit()
def links(folder):
    (folder / "data").symlink_to("/dev/shm")
    (folder / "notes").symlink_to("src/myproj/trials")
    (folder / "src/myproj/conf/local.yaml").symlink_to("config.yaml")


@edit()
def ends_of_lines_of_windows(folder):
    for name in ("README.md", "Makefile", "pyproject.toml", "jobs/local.sh", "tools/bootstrap.py"):
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@edit()
def no_newline_at_the_end(folder):
    for name in ("Makefile", ".gitignore", "README.md"):
        (folder / name).write_text((folder / name).read_text().rstrip("\n"))


@edit()
def a_submodule(folder):
    other = folder.parent / "other"
    if not other.exists():
        write(other, {"a.txt": "a\n"})
        commit(other, "other")
    git(
        folder,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(other),
        "third_party/other",
    )
