"""A user's own ignore file, for all repositories, keeps no file of a project out of its first commit."""

from project_files import files
from projects import call
from repositories import git

USUAL = """
.vscode/
*.log
*.sh
build/
conf/
config/
data/
docs/
env/
job/
jobs/
lab/
lib/
logs/
record/
runs/
secrets.py
site/
tests/
tools/
vendor/
*.whl
"""


def test_the_first_commit_is_complete(project, own_project, tmp_path):
    (tmp_path / "ignore").write_text(USUAL)
    hidden = {"src/myproj/.idea/x.xml", "src/myproj/conf/.env", "data/digits.h5", "runs/x/run.json"}
    committed = {"src/myproj/conf/data/mine.yaml", "vendor/labrig.txt", "vendor/labrig-1.whl"}
    for name in hidden | committed | {"src/myproj/__pycache__/x.pyc"}:
        (own_project / name).parent.mkdir(parents=True, exist_ok=True)
        (own_project / name).touch()
    (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path}/ignore\n")
    git(own_project, "rm", "-q", "-r", "--cached", ".")
    call(own_project, "git", "add", "--all", GIT_CONFIG_GLOBAL=str(tmp_path / "gitconfig"))
    tracked = set(git(own_project, "ls-files").splitlines())
    assert set(files(project)) - tracked == set()
    assert committed - tracked == set()
    assert {"data/digits.h5", "runs/x/run.json", "src/myproj/conf/.env"}.isdisjoint(tracked)
    assert not [name for name in tracked if "__pycache__" in name]
