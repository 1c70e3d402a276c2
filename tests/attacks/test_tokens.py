"""Kinds of secrets, and the places in which they must not be recorded."""

import base64
import gzip
import os

import pytest
from labrig import env
from labrig.errors import Refused
from labrig.machine.secrets import (
    find_tokens,
    find_tokens_in_file,
    has_secret_name,
    hide_tokens,
    known_secrets,
)
from projects import SOURCE
from record_package import call, create, make_project

# Written in parts, so that no search for secrets finds this file.
RANDOM = "q7Zr2Xw9Lk4Vb8Nf3Td6Yh1Gs5Pj0Mc" + "Ae4Ku7Rw2Bx9Qn6Zt3"
HEX = "3f9a1c7e5b2d8046" * 4
KINDS = {
    "Azure": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={RANDOM}{RANDOM[:36]}==",
    "Azure SAS": f"https://a.blob.core.windows.net/c?sv=2022&sig={RANDOM}%3D",
    "YAML": "password: Tr0ub4dor&3" + "staple",
    "or": f"openai.api_key = os.getenv('X') or '{RANDOM[:32]}'",
    "bearer": "requests.get(u, headers={'Authorization': 'Bearer " + RANDOM + "'})",
    "basic": "headers = {'Authorization': 'Basic " + "dXNlcjpUcjB1YjRkb3ImMw==" + "'}",
    "export": f"export COMET_API_KEY={RANDOM[:25]}",
    "export W&B": f"export WANDB_API_KEY={HEX[:40]}",
    "in a shell command": f"subprocess.run('WANDB_API_KEY={HEX[:40]} python train.py')",
    "netrc": f"machine api.wandb.ai login user password {HEX[:40]}",
    "curl": "curl -u me:Tr0ub4dor3 https://example.org",
    "sshpass": "sshpass -p Tr0ub4dor3 ssh host",
    "mysql": "mysql -u me -pTr0ub4dor3 db",
    "connection": "Server=h;Database=d;User Id=u;Password=" + "Tr0ub4dor3;",
    "URL": "postgresql://me:" + "Tr0ub4dor3@host/db",
    "URL without user": "redis://:" + "Tr0ub4dor3@host:6379",
    "token": f'token = "{RANDOM[:24]}"',
    "notebook": '"api_key = \\"' + RANDOM[:24] + '\\"\\n"',
    "dictionary": "config = {'secret_key': '" + RANDOM[:20] + "'}",
    "typed": f'password: str = "{RANDOM[:12]}"',
    "argument": f"client = Client(api_key='{RANDOM[:20]}')",
    "environ": 'os.environ["HF_TOKEN"] = "' + RANDOM[:12] + '"',
    "login": f"login(token='{RANDOM[:24]}')",
    "private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "PuTTY": "PuTTY-User-Key-" + "File-3: ssh-ed25519",
    "age": "AGE-SECRET-KEY-" + "1" + "QPZRY9X8GF2TVDW0" * 4,
    "Telegram": "123456789:" + "AA" + RANDOM[:33],
    "Discord": "M" + RANDOM[:25] + "." + RANDOM[:6] + "." + RANDOM[:30],
    "Discord webhook": "https://discord.com/api/" + f"webhooks/1234567890/{RANDOM}{RANDOM}",
    "Slack": "xoxb-" + "123456789012-" + RANDOM[:24],
    "Slack webhook": "https://hooks.slack.com/" + f"services/T01/B01/{RANDOM}",
    "Stripe": "sk_live_" + RANDOM[:24],
    "SendGrid": "SG." + RANDOM[:22] + "." + RANDOM[:43],
    "Twilio": "SK" + HEX[:32],
    "npm": "npm_" + RANDOM[:36],
    "GitHub": "ghp_" + RANDOM[:36],
    "GitLab runner": "glrt-" + RANDOM[:20],
    "Docker": "dckr_pat_" + RANDOM[:27],
    "Databricks": "dapi" + HEX[:32],
    "DigitalOcean": "dop_v1_" + HEX,
    "Groq": "gsk_" + RANDOM + RANDOM[:2],
    "Replicate": "r8_" + RANDOM[:37],
    "Perplexity": "pplx-" + RANDOM[:48],
    "NVIDIA": "nvapi-" + RANDOM + RANDOM[:14],
    "LangSmith": "lsv2_pt_" + HEX[:32],
    "Neptune": "eyJhcGlfYWRkcmVzcyI6" + RANDOM,
    "Vault": "hvs." + RANDOM,
    "Terraform": RANDOM[:14] + ".atlasv1." + RANDOM + RANDOM[:14],
    "Notion": "ntn_" + RANDOM[:46],
    "Airtable": "pat" + RANDOM[:14] + "." + HEX,
    "PyPI": "pypi-" + "AgEIcHlwaS5vcmc" + RANDOM,
    "Google": "AIza" + RANDOM[:35],
    "Google client": "GOCSPX-" + RANDOM[:28],
    "Alibaba": "LTAI" + RANDOM[:20],
    "JWT": "eyJ" + RANDOM[:20] + ".eyJ" + RANDOM[:20] + "." + RANDOM[:20],
}


@pytest.mark.parametrize("file", ["k.py", "k.yaml"])
def test_a_kind_is_found_and_hidden(file):
    """f-kinds: in code a short value counts in quotes only."""
    for kind, line in KINDS.items():
        if file == "k.py" and kind in ("YAML", "export"):
            line = f"text = '''\napi_key = '{line.split()[-1]}''''"
        found = find_tokens(f"first\n{line}\n".encode(), file, {})
        assert found, kind
        assert all(place.startswith(f"{file}:") for place in found), kind
        hidden = hide_tokens(line)
        assert hidden != line, kind
        parts = (RANDOM[2:12], HEX[2:30], "Tr0ub4dor")
        assert [part for part in parts if part in hidden] == [], kind


HARMLESS = (
    'dict_key = f"fp16_{self.compute_capability}"',
    'api_key = "sk-..."',
    'password = getpass.getpass("Password: ")',
    "token = tokenizer.bos_token2id",
    "password: ${oc.env:DB_PASSWORD}",
    "api_key: <your key>",
    "password: null",
    "secret: changeme-please-1",
    'TOKEN_TYPE = "client_credentials"',
    'secret_id = f"s-{uuid.uuid4().hex}"',
    '"key_sha256": "bb1636883c2707b51c5b7fc26c6927af4430f2e0785a8c7bc886337f919f9edf"',
    'public_key = "ssh-ed25519-AAAAC3NzaC1lZDI1NTE5"',
    "- PostgreSQL: `postgresql://user:password@host:port/database`",
    "git@github.com:me/project.git",
    "ssh://git@example.org/x.git",
    "sha256: 3f9a1c7e5b2d80463f9a1c7e5b2d80463f9a1c7e5b2d80463f9a1c7e5b2d8046",
    "ghp_" + "x" * 36,
    "tokens: 1000000000",
    "key: value1234",
    "task-" + "learning-with-a-name-that-is-very-long-indeed",
)


def test_a_harmless_line_is_no_secret():
    for line in HARMLESS:
        for file in ("k.py", "k.yaml"):
            assert find_tokens(line.encode(), file, {}) == [], line


def test_no_false_alarm_in_the_code_of_a_project_and_of_a_large_package():
    import lightning

    package = os.path.dirname(lightning.__file__)
    files = [os.path.join(at, name) for at, _, names in os.walk(package) for name in names]
    files += [str(path) for path in SOURCE.rglob("*")]
    texts = [path for path in files if path.endswith((".py", ".yaml", ".md", ".json", ".toml"))]
    assert len(texts) > 200
    for path in texts:
        with open(path, "rb") as file:
            assert find_tokens(file.read(), path, {}) == []


@pytest.mark.parametrize(
    "name",
    [
        ".ENV", "prod.env", ".envrc", "ID_RSA", "id_dsa", "key.p8", "a.keytab", ".my.cnf",
        ".netrc.bak", "hf_token.txt", "token.json", "token", "client_secret_123.json",
        "my_service_account.json", "passwords.txt", "api_key.txt", "openai_api_key",
        ".git-credentials", "terraform.tfstate", "rclone.conf", ".databrickscfg", "Secrets.toml",
    ],
)  # fmt: skip
def test_names_of_secret_files(name):
    assert has_secret_name(f"deep/{name}")


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json", "special_tokens_map.json", "tokens.txt", "secrets.py", "credentials.py",
        "api_keys.md", ".env.example", "id_rsa.pub", "keyboard.py", "environment.yaml", "key.py",
        "monkey.txt", "added_tokens.json", "secretary.csv",
    ],
)  # fmt: skip
def test_names_of_other_files(name):
    assert not has_secret_name(name)


@pytest.mark.release
@pytest.mark.slow
def test_a_large_or_packed_file_is_searched_whole(tmp_path):
    token = KINDS["GitHub"]
    line = b"step 1 loss 0.5\n"
    n_lines = 25_000_000 // len(line)
    content = line * n_lines + f"at the end {token}\n".encode()
    for name, written in (("job.log", content), ("job.log.gz", gzip.compress(content, 1))):
        file = tmp_path / name
        file.write_bytes(written)
        found = find_tokens_in_file(file, name, {})
        assert found == [f"{name}:{n_lines + 1} looks like a GitHub token"]


@pytest.mark.parametrize("at", [-3, 0, 3])
def test_a_token_at_the_end_of_a_searched_part_is_found(tmp_path, at):
    from labrig.machine.secrets import PART_BYTES

    token = KINDS["GitHub"].encode()
    file = tmp_path / "x.log"
    file.write_bytes(b"x" * (PART_BYTES + at - 20) + b" " + token + b"\nmore\n")
    assert find_tokens_in_file(file, "x.log", {}) == ["x.log:1 looks like a GitHub token"]


PASSWORD = "Tr0ub4dor&3-staple-horse"


@pytest.fixture
def exported(monkeypatch):
    for name in ("MYSQL_PWD", "SMTP_PW", "REDIS_AUTH", "DB_PASSWORD"):
        monkeypatch.setenv(name, f"{PASSWORD}-{name}")
    return {value for value in known_secrets() if value.startswith(PASSWORD)}


def test_an_exported_password_is_hidden_whole_encoded_and_cut(exported):
    assert len(exported) == 4
    for value in exported:
        for lead in ("", "user:", "ab:"):
            encoded = base64.b64encode(f"{lead}{value}".encode()).decode()
            assert value[:9] not in hide_tokens(f"bad login {value}")
            hidden = hide_tokens(f"401 for {encoded}")
            assert encoded[12:24] not in hidden
        for cut in (value[:12], value[3:17], value[-12:]):
            assert cut not in hide_tokens(f"cannot connect with {cut}...")


@pytest.mark.parametrize("lead", ["", "user:", "ab:"])
def test_a_known_value_in_base64_is_found_in_code(exported, lead):
    value = sorted(exported)[0]
    content = base64.b64encode(f"{lead}{value}".encode())
    assert "holds the value of" in find_tokens(content, "x.txt", known_secrets())[0]


TOKEN = KINDS["GitHub"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    project = make_project(tmp_path / "p")
    monkeypatch.setenv(env.PROJECT, str(project.root))
    return project


def lines_with(text, folder):
    return [
        path for path in folder.rglob("*") if path.is_file() and text in path.read_text("latin-1")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["note", "tag"])
def test_a_token_in_a_note_or_tag_is_refused(project, command):
    """f-token-tag-4."""
    run = create(project)
    with pytest.raises(Refused, match=rf"the {command}:1 looks like a GitHub token") as refused:
        call(project, f"runs {command}", run.id, TOKEN)
    assert TOKEN not in str(refused.value)
    assert not lines_with(TOKEN, run.dir)


@pytest.mark.parametrize("field", ["why", "overrides", "argv", "config_yaml"])
def test_a_token_in_what_a_record_shows_is_refused(project, field):
    value = (
        f"logger.key={TOKEN}" if field != "config_yaml" else f"seed: 0\nlogger:\n  key: {TOKEN}\n"
    )
    facts = {field: [value] if field in ("overrides", "argv") else value}
    with pytest.raises(Refused, match="looks like a GitHub token"):
        create(project, **facts)
    assert not lines_with(TOKEN, project.root / "runs")


@pytest.mark.parametrize("may_change", [("trainer.", "data."), ("max_epochs",)])
def test_a_token_in_an_override_of_eval_or_resume_is_refused(project, may_change):
    """f-eval: both read what was typed by `with_changes`."""
    from labrig.config.recorded import with_changes
    from omegaconf import OmegaConf

    config = OmegaConf.create({"data": {"search": []}, "max_epochs": 1})
    with pytest.raises(Refused, match=r"settings:1 looks like .*\n.*\.env"):
        with_changes(config, [f"data.search=[{TOKEN}]"], may_change, "")


def test_a_secret_that_a_resolver_decoded_stays_as_it_was_written(project, monkeypatch):
    from labrig.config.resolve import without_secrets, yaml_of
    from omegaconf import OmegaConf

    monkeypatch.setenv("DB_PASSWORD", "{user: me, words: [horse-staple-battery, 12]}")
    monkeypatch.setenv("API_KEY", "12_345_678_901")
    monkeypatch.setenv("STEPS", "100000")
    written = {
        "key": "${oc.decode:${oc.env:API_KEY}}",
        "again": "${key}",
        "login": "${oc.decode:${oc.env:DB_PASSWORD}}",
        "steps": "${oc.decode:${oc.env:STEPS}}",
        "seed": 1,
    }
    resolved = OmegaConf.to_container(OmegaConf.create(written), resolve=True)
    assert resolved["key"] == 12345678901
    recorded = OmegaConf.to_container(OmegaConf.create(yaml_of(without_secrets(written, resolved))))
    assert (recorded["key"], recorded["again"]) == (written["key"], "${key}")
    assert (recorded["steps"], recorded["seed"]) == (100000, 1)
    assert "horse" not in str(recorded["login"])
    assert str(12345678901) not in str(recorded)
