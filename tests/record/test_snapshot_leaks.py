"""Secrets and large files stay out of a snapshot, and it says so."""

import pytest
from labrig.errors import Refused
from labrig.record.freeze.snapshot import snapshot
from projects import SOURCE
from record_package import freeze, tree, write

pytestmark = pytest.mark.usefixtures("no_git_settings")


def test_secrets_by_name_and_large_files_are_skipped_and_named(repo):
    secret = [".env", ".env.local", "key.pem", "id_rsa", "aws_credentials", "deep/.netrc"]
    write(repo, dict.fromkeys([*secret, ".env.example"], "x"))
    write(repo, {"big.bin": "x" * 20_001, "fits.bin": "x" * 20_000})
    found = freeze(repo, max_file_mb=0.02)
    assert {entry["path"]: entry["reason"] for entry in found["skipped"]} == {
        **dict.fromkeys(secret, "secret-name"),
        "big.bin": "size",
    }
    assert tree(repo, found["commit"]).keys() - {"a.txt", "src/b.py", ".gitignore"} == {
        ".env.example",
        "fits.bin",
    }


def test_too_much_in_total_is_refused(repo):
    write(repo, {f"data/{n}": "x" * 900 for n in range(60)})
    with pytest.raises(Refused, match=r"60 files .*\.gitignore"):
        snapshot(repo, max_file_mb=0.001)


TOKENS = (
    "ghp_" + "a1" * 18,
    "hf_" + "Ab3" * 12,
    "sk-ant-" + "a1b2" * 10,
    "AKIA" + "ABCD1234" * 2,
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    "WANDB_API_KEY=" + "0123456789" * 4,
    "https://me:" + "hunter22@example.org/x.git",
)


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:6])
def test_tokens_are_refused_with_file_and_line(repo, token):
    write(repo, {"src/b.py": f"print(1)\n\nkey = '{token}'\n"})
    with pytest.raises(Refused, match=r"src/b\.py:3 looks like") as refused:
        snapshot(repo)
    assert token not in str(refused.value)
    assert refused.value.exit_code == 4
    assert token in tree(repo, freeze(repo, allow=True)["commit"])["src/b.py"]


def test_ordinary_code_is_no_token(repo):
    own = {path.name: path.read_text() for path in SOURCE.rglob("*.py")}
    write(repo, {f"copy/{name}": text for name, text in own.items()})
    assert freeze(repo)["n_untracked"] == len(own)
