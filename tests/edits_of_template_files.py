"""What users do to the template's files, and to the kinds of files: modes, links, ends of lines."""

import os
import shutil

from edits import append, edit, replace
from releases import DELETED, RENAMED
from repositories import commit, git, write


@edit()
def a_setting_in_lab_yaml(folder):
    replace(folder, "src/myproj/lab/conf/lab.yaml", "max_epochs: 10 #", "max_epochs: 11 #")


@edit(conflicts=["src/myproj/lab/conf/lab.yaml"])
def the_same_line_of_lab_yaml(folder):
    replace(folder, "src/myproj/lab/conf/lab.yaml", "seed: 0 #", "seed: 7 #")


@edit()
def a_template_file(folder):
    append(folder, "src/myproj/lab/cli.py", "\n\nMINE = 1\n")


@edit(conflicts=["src/myproj/lab/errors.py"])
def the_same_line_of_a_template_file(folder):
    replace(folder, "src/myproj/lab/errors.py", "    exit_code = 3\n", "    exit_code = 33\n")


@edit(lost=[RENAMED, DELETED])
def template_files_that_are_renamed_or_deleted_later(folder):
    append(folder, RENAMED, "\n\nMINE = 1\n")
    append(folder, DELETED, "# mine\n")


@edit()
def own_files_next_to_the_templates(folder):
    write(
        folder,
        {
            "src/myproj/lab/mine.py": "A = 1\n",
            ".github/workflows/mine.yml": "on: push\n",
            "docs/mine.md": "# Mine\n",
        },
    )


@edit()
def template_files_deleted(folder):
    for name in ("Makefile", ".github/workflows/check.yml", "src/myproj/lab/errors.py"):
        (folder / name).unlink()


@edit()
def a_folder_of_lab_deleted(folder):
    shutil.rmtree(folder / "src/myproj/lab/conf/schedule")
    shutil.rmtree(folder / ".github")


@edit()
def a_template_file_moved(folder):
    git(folder, "mv", "src/myproj/lab/errors.py", "src/myproj/errors.py")


# How files lie on the disk


@edit()
def modes(folder):
    os.chmod(folder / "src/myproj/task.py", 0o755)
    os.chmod(folder / "src/myproj/lab/cli.py", 0o755)
    write(folder, {"run.sh": "#!/bin/sh\n"})
    os.chmod(folder / "run.sh", 0o755)


@edit()
def links(folder):
    (folder / "data").symlink_to("/dev/shm")
    (folder / "notes").symlink_to("src/myproj/trials")
    (folder / "src/myproj/conf/local.yaml").symlink_to("config.yaml")


@edit()
def ends_of_lines_of_windows(folder):
    for name in ("README.md", "Makefile", "pyproject.toml", "src/myproj/lab/cli.py"):
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
