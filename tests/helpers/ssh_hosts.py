"""Remote accounts for tests: an sshd of their own on a free port, and a home directory for each account.

The connection can be cut before, during or after a chosen command, as a network would.
"""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import free_port, write_command
from labrig.remote.place import READY
from programs import need
from projects import call, equip

# What an account runs in place of the command that was typed: the same, in its own home.
ACCOUNT = """#!/bin/bash
export HOME=$1
cd "$HOME" || exit
printf '%s\\0' "$SSH_ORIGINAL_COMMAND" >>commands
when=""
if [ -e cut ] && [[ $SSH_ORIGINAL_COMMAND == *"$(cut -d' ' -f2 cut)"* ]]; then
  when=$(cut -d' ' -f1 cut)
  rm cut
fi
case $when in
  before) kill -9 $PPID ;;
  during) bash -c "$SSH_ORIGINAL_COMMAND" >output & sleep 0.3; kill -9 $PPID; wait; touch done ;;
  after) bash -c "$SSH_ORIGINAL_COMMAND" >output; kill -9 $PPID; touch done ;;
  *) exec bash -c "$SSH_ORIGINAL_COMMAND" ;;
esac
"""


class Account:
    """One account on the machine that stands for a cluster."""

    def __init__(self, name, home):
        self.name = name
        self.home = home
        self.place = home / "work/myproj"

    def commands(self):
        """The commands that arrived, each of them a script."""
        file = self.home / "commands"
        return file.read_text().split("\0")[:-1] if file.exists() else []

    def cut(self, when, word):
        """The next command that holds `word` loses its connection: before, during or after it runs."""
        (self.home / "done").unlink(missing_ok=True)
        (self.home / "cut").write_text(f"{when} {word}")

    def give_environment(self, project):
        """An environment for the lock of the project: the one of these tests."""
        lock = hashlib.sha256((project / "pyproject.toml").read_bytes()).hexdigest()[:12]
        folder = self.place / f"runs/.remote/environments/{lock}"
        write_command(folder / "bin", "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / READY).touch()

    def run_dirs(self):
        return sorted(path.parent for path in self.place.glob("runs/*/*/run.json"))


class Hosts:
    """An sshd with accounts; `variables` are those of a laptop that may log in to them."""

    def __init__(self, folder, names):
        self.folder = folder
        self.accounts = {}
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
        subprocess.run([*keygen, folder / "host_key"], check=True)
        write_command(folder, "account", ACCOUNT)
        port = free_port()
        lines = []
        settings = []
        for name in names:
            subprocess.run([*keygen, folder / name], check=True)
            home = folder / "homes" / name
            home.mkdir(parents=True)
            self.accounts[name] = Account(name, home)
            key = (folder / f"{name}.pub").read_text()
            lines.append(f'command="{folder}/account {home}" {key}')
            settings.append(f"Host {name}\n  IdentityFile {folder}/{name}\n")
        (folder / "authorized_keys").write_text("".join(lines))
        (folder / "authorized_keys").chmod(0o600)
        common = f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentitiesOnly yes\n"
        common += f"  StrictHostKeyChecking no\n  UserKnownHostsFile {folder}/known_hosts\n"
        common += "  LogLevel ERROR\n"
        (folder / "ssh_config").write_text("".join(settings) + common)
        # OpenSSH reads ~/.ssh/config of the account in /etc/passwd, whatever HOME says.
        script = f'#!/bin/sh\nexec {need("ssh")} -F {folder}/ssh_config "$@"\n'
        write_command(folder / "bin", "ssh", script)
        for account in self.accounts.values():
            profile = f'export PATH="{folder}/bin:$PATH"\numask 022\n'
            (account.home / ".bash_profile").write_text(profile)
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
            "MaxStartups 100\nMaxSessions 100\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it
        self.process = subprocess.Popen(
            [need("sshd"), "-D", "-E", folder / "sshd.log", "-f", folder / "sshd_config"],
            start_new_session=True,
        )
        await_port(port, folder / "sshd.log")
        config = folder / "config/lab"
        config.mkdir(parents=True)
        entries = [f"{name}:\n  path: $HOME/work\n  site: workstation\n" for name in names]
        (config / "hosts.yaml").write_text("".join(entries))

    def laptop(self, project, environment=True):
        """lab(*words) in a project from which `ssh a` and `ssh b` work; `lab.folder` is the project.

        With `environment` both have one for it.
        """
        shutil.copy(self.folder / "bin/ssh", project.parent / f"{project.name}-bin/ssh")
        variables = {"XDG_CONFIG_HOME": str(self.folder / "config")}
        for account in self.accounts.values() if environment else ():
            account.give_environment(project)

        def lab(*words, **options):
            return call(project, "lab", *words, **variables, **options)

        lab.folder = project
        return lab

    def close(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(timeout=30)


def await_port(port, log):
    end_s = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end_s, f"sshd does not listen: {log.read_text()}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Two accounts, `a` and `b`, on an sshd of this module."""
    need("ssh")
    need("sshd")
    hosts = Hosts(tmp_path_factory.mktemp("ssh"), ["a", "b"])
    yield hosts
    hosts.close()


@pytest.fixture(scope="module")
def lab(hosts, project, tmp_path_factory):
    """The laptop: lab(*words) in a project whose environment both accounts have."""
    folder = equip(shutil.copytree(project, tmp_path_factory.mktemp("laptop") / "myproj"))
    return hosts.laptop(folder)
