"""Secrets get into no record: not from .env, not from variables, not from code, branches or addresses."""

import subprocess

import pytest
from labrig import env
from labrig.errors import Refused
from labrig.machine.secrets import (
    find_tokens,
    has_secret_name,
    hide_secrets,
    known_secrets,
    without_credentials,
)
from labrig.record.freeze.snapshot import snapshot
from record_package import call, create, make_project, train
from repositories import git, write

WORDS = "correct-horse-battery-staple"
PASSWORD = "hunter2-hunter2"
KEY = "-----BEGIN OF A KEY-----\nAbCdEfGhIjKlMnOp\n-----END OF A KEY-----"
DOTENV = f"MY_NAME='{WORDS}'\nWANDB_MODE=offline\nNUMBER=987654321\nMY_KEY=\"{KEY}\"\n"

pytestmark = pytest.mark.usefixtures("no_git_settings")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project with a .env that git ignores, and a password in the environment."""
    project = make_project(tmp_path / "p")
    write(project.root, {".env": DOTENV, ".gitignore": "/runs\n.env\n"})
    monkeypatch.setenv(env.PROJECT, str(project.root))
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    return project


def files_with(text, folder):
    done = subprocess.run(["grep", "-rlF", text, str(folder)], capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.slow
def test_known_values_are_hidden_in_everything_that_is_written(project):
    git(project.root, "checkout", "-q", "-b", f"try-{WORDS}")
    error = ValueError(f"no login with {PASSWORD} for {WORDS}")
    run = train(
        project,
        "failed",
        exception=error,
        config_yaml=f"seed: 0\nlogger:\n  key: {PASSWORD}\n",
        overrides=[f"logger.key={PASSWORD}"],
        argv=["lab", "train", f"logger.key={PASSWORD}"],
        why=f"with {WORDS}",
    )
    call(project, "runs note", run.id, f"the password is {PASSWORD}")
    assert not files_with(PASSWORD, run.dir)
    assert not files_with(WORDS, run.dir)
    assert (run.dir / "overrides.txt").read_text() == "logger.key=${oc.env:DB_PASSWORD}\n"
    assert "key: ${oc.env:DB_PASSWORD}" in (run.dir / "config.yaml").read_text()
    assert call(project, "runs verify", run.id) == 0


def test_each_line_of_a_long_value_is_hidden(project):
    assert "AbCdEfGhIjKlMnOp" not in hide_secrets("the key AbCdEfGhIjKlMnOp is refused")


@pytest.mark.slow
def test_what_would_spoil_other_settings_is_not_hidden(project, monkeypatch):
    settings = {"USE_TOKEN": "true", "SORT_KEY": "optimizer", "STEP_KEY": "100000"}
    for name, value in {"SSH_KEY": str(project.root), **settings}.items():
        monkeypatch.setenv(name, value)
    names = set(known_secrets().values())
    assert names >= {"MY_NAME", "NUMBER", "MY_KEY", "DB_PASSWORD"}
    assert not names & {"WANDB_MODE", "SSH_KEY", *settings}
    text = "fused: true\noptimizer: {}\nmax_steps: 100000\n"
    assert (create(project, config_yaml=text).dir / "config.yaml").read_text() == text


@pytest.mark.parametrize("name", ["PGPASSWORD", "MYSQLPASSWD", "DB_PASS", "DB_PASS2", "hf_token"])
def test_a_name_says_that_its_value_is_secret(name, monkeypatch):
    monkeypatch.setenv(name, PASSWORD)
    assert hide_secrets(f"login with {PASSWORD}") == f"login with ${{oc.env:{name}}}"


@pytest.mark.parametrize("name", ["BYPASS", "MONKEY", "PATHPAT", "TOKENS_SEEN"])
def test_a_name_that_only_ends_alike_says_nothing(name, monkeypatch):
    monkeypatch.setenv(name, PASSWORD)
    assert hide_secrets(f"login with {PASSWORD}") == f"login with {PASSWORD}"


@pytest.mark.slow
def test_variables_with_a_secret_name_are_not_recorded(project, monkeypatch):
    for name in ("LAB_DB_PASSWORD", "SLURM_JWT", "CUDA_SECRET", "TORCH_TOKEN2"):
        monkeypatch.setenv(name, "no pattern finds this")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    variables = create(project).record["env"]["variables"]
    assert variables["SLURM_JOB_ID"] == "7"
    assert not variables.keys() & {"LAB_DB_PASSWORD", "SLURM_JWT", "CUDA_SECRET", "TORCH_TOKEN2"}


@pytest.mark.parametrize("value", [WORDS, PASSWORD])
def test_a_known_value_in_code_is_refused_with_its_line(project, value):
    write(project.root, {"src/myproj/k.py": f"\nlogin('{value}')\n"})
    with pytest.raises(Refused, match=r"src/myproj/k\.py:2 holds the value of (MY_NAME|DB_PASS)"):
        snapshot(project.root)


def test_a_tracked_env_file_that_was_edited_is_refused(project):
    git(project.root, "add", "-f", ".env")
    git(project.root, "commit", "-q", "-m", "by mistake")
    write(project.root, {".env": DOTENV + "MORE=another-long-secret\n"})
    with pytest.raises(Refused, match=r"\.env:\d+ holds the value of"):
        snapshot(project.root)


@pytest.mark.slow
def test_a_token_in_a_note_or_a_reason_is_refused(project):
    run = create(project)
    with pytest.raises(Refused, match="the note:1 looks like a Hugging Face token"):
        call(project, "runs note", run.id, "hf_" + "Ab3" * 12)
    with pytest.raises(Refused, match="--why:1 looks like"):
        create(project, why="ghp_" + "a1" * 18)


@pytest.mark.slow
def test_a_token_in_the_name_of_a_branch_is_hidden(project):
    git(project.root, "checkout", "-q", "-b", "hf_" + "Ab3" * 12)
    assert create(project).record["code"]["branch"] == "***"


IN_CODE = (
    'wandb.login(key="{secret}")',
    'os.environ["WANDB_API_KEY"] = "{secret}"',
    'os.environ["DB_PASS"] = "{secret}"',
    'os.environ.setdefault("DB_PASSWORD", "{secret}")',
    "aws_secret_access_key = '{secret}'",
    "password = '{secret}'",
    'db_password: str = "{secret}"',
    'api_key: "{secret}"',
    '"Authorization": "Bearer eyJ{secret}.eyJ{secret}.{secret}"',
)


@pytest.mark.parametrize("line", IN_CODE)
def test_secrets_in_code_are_found(line):
    content = f"import os\n{line.format(secret='s3Cr3t' * 7)}\n"
    assert any(
        place.startswith("k.py:2 looks like") for place in find_tokens(content.encode(), "k.py", {})
    )


ORDINARY = (
    'eos_token = "<|endoftext|>"',
    'password = os.environ["DB_PASSWORD"]',
    'password = "${oc.env:DB_PASSWORD}"',
    'parser.add_argument("--password", help="of the data base")',
    'os.environ["TOKENIZERS_PARALLELISM"] = "false"',
    'key = "optimizer.lr"',
    "secret_names = ('.env', '*.pem')",
    'api_key = "your-key-here"',
)


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_are_not(line):
    assert find_tokens(line.encode(), "k.py", {}) == []


@pytest.mark.parametrize(
    "name",
    [
        ".netrc",
        "netrc",
        ".pgpass",
        "kaggle.json",
        ".npmrc",
        ".pypirc",
        "secrets.yaml",
        "secret.txt",
    ],
)
def test_files_whose_name_says_so(name):
    assert has_secret_name(f"deep/{name}")
    assert not has_secret_name("src/secrets.py")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:p@Sup3rS3cret99@h.example/r.git", "https://h.example/r.git"),
        ("https://user:a/Sup3rS3cret99@h.example/r.git", "https://h.example/r.git"),
        ("https://h.example/r.git?private_token=x", "https://h.example/r.git"),
        ("git+https://user:pw@h.example/r.git", "git+https://h.example/r.git"),
        ("https://token@h.example:8080/r.git", "https://h.example:8080/r.git"),
        ("https://h.example:8080/p@th/r.git", "https://h.example:8080/p@th/r.git"),
        ("ssh://git@h.example/r.git", "ssh://git@h.example/r.git"),
        ("git@h.example:r.git", "git@h.example:r.git"),
        ("/home/me/r.git", "/home/me/r.git"),
    ],
)
def test_addresses_without_credentials(url, shown):
    assert without_credentials(url) == shown
