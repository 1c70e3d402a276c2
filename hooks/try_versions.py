"""Tries a new project with the newest or the lowest versions that its ranges and those of labrig allow.

    make test-lowest
    make test-newest PYTHON=python3.13 TORCH=cpu

It renders a project into build/, gives it an environment of its own with the labrig that lies here,
and calls the commands that people call.
Each step is one line; its output lies in build/versions/<which>-<python>/logs/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import copier

ROOT = Path(__file__).resolve().parents[1]
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
STEP_LIMIT_S = 900
SHOWN = (
    "torch",
    "lightning",
    "numpy",
    "h5py",
    "hydra-core",
    "omegaconf",
    "line-profiler",
    "pytest",
    "ruff",
)
SHORT = "trainer=cpu trainer.max_epochs=1 trainer.limit_train_batches=3"


@dataclass(frozen=True)
class Step:
    """A command of a project, as words separated by spaces."""

    name: str
    command: str


STEPS = [
    Step("pack", "lab data pack digits"),
    Step("check", "lab check trial=baseline trainer=cpu"),
    Step("train", f"lab train trial=baseline {SHORT}"),
    Step("resume", "lab resume @last trainer.max_epochs=2"),
    Step("eval", "lab eval @last"),
    Step("list", "lab runs list"),
    Step("verify", "lab runs verify @last"),
    Step("two processes", f"lab train trial=baseline {SHORT} trainer.devices=2"),
    Step("bf16", f"lab train trial=baseline {SHORT} trainer.precision=bf16-mixed"),
    Step("onecycle", f"lab train trial=baseline {SHORT} optimizer=sgd schedule=onecycle"),
    Step("lars", f"lab train trial=baseline {SHORT} optimizer=lars"),
    Step("lamb", f"lab train trial=baseline {SHORT} optimizer=lamb"),
    Step("radam", f"lab train trial=baseline {SHORT} optimizer=radam"),
    Step("activations", f"lab train trial=baseline {SHORT} speed.checkpoint_activations=[model]"),
    Step("tensorboard", f"lab train trial=baseline {SHORT} logger=tensorboard"),
    Step("wandb", f"lab train trial=baseline {SHORT} logger=wandb logger.wandb.mode=offline"),
    Step("line profile", f"lab train trial=baseline {SHORT} profile=line"),
    Step("torch profile", f"lab train trial=baseline {SHORT} profile=torch"),
    Step("memory profile", f"lab train trial=baseline {SHORT} profile=memory"),
    Step("bench", "lab bench trial=baseline trainer=cpu"),
    Step("reproduce", "lab runs reproduce @last"),
    Step("hooks", "pre-commit run --all-files"),
    Step("tests", "python -m pytest"),
]
RADAM = "_target_: torch.optim.RAdam\n_partial_: true\nlr: 1e-3\nbetas: [0.9, 0.99]\n"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=RESOLUTIONS)
    parser.add_argument("--python", default="python3", help="a name, a version or a path")
    parser.add_argument("--torch", default="", help="build of torch, such as cpu")
    options = parser.parse_args(words)
    folder = ROOT / "build/versions" / f"{options.which}-{Path(options.python).name}"
    shutil.rmtree(folder, ignore_errors=True)
    project = make_project(folder / "myproj")
    environment = make_environment(project, options)
    print_versions(environment)
    (folder / "logs").mkdir()
    failed = [
        step.name for step in STEPS if not passes(step, project, environment, folder / "logs")
    ]
    print(f"failed: {', '.join(failed)}" if failed else f"all {len(STEPS)} steps pass")
    return 1 if failed else 0


def make_project(folder: Path) -> Path:
    """A project of the template as it lies here, in git, with an optimizer whose settings hold a list."""
    copier.run_copy(str(ROOT), folder, vcs_ref="HEAD", defaults=True, quiet=True)
    option = folder / "src/myproj/conf/optimizer/radam.yaml"
    option.parent.mkdir()
    option.write_text(RADAM, encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "Start"]):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    return folder


def make_environment(project: Path, options: argparse.Namespace) -> dict[str, str]:
    """Installs the project with the chosen versions; returns the variables of its commands."""
    pinned = {"UV_CONSTRAINT", "PIP_CONSTRAINT", "PYTHONPATH", "VIRTUAL_ENV"}
    variables = {name: value for name, value in os.environ.items() if name not in pinned}
    python = project / ".venv/bin/python"
    uv = Path(sys.prefix) / "bin/uv"
    subprocess.run(
        [uv, "venv", "--quiet", "--python", options.python, project / ".venv"], check=True
    )
    command = [uv, "pip", "install", "--quiet", "--python", python]
    command += ["--resolution", RESOLUTIONS[options.which]]
    if options.torch:
        command += ["--torch-backend", options.torch]
    # uv gives the lowest version only to what is asked for directly: by labrig, since it lies
    # here, and by the project. A copy of labrig, not the one of an earlier call: edits here
    # while the steps run do not reach it.
    extras = ",".join(read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"])
    library = ["--refresh-package", "labrig", f"labrig[{extras}] @ {ROOT.as_uri()}"]
    subprocess.run([*command, *library, *packages_of(project)], env=variables, check=True)
    subprocess.run([*command, "--no-deps", "--editable", project], env=variables, check=True)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return variables | {"PATH": path, "CUDA_VISIBLE_DEVICES": ""}


def packages_of(project: Path) -> list[str]:
    """What a project asks for besides labrig, tools for development too."""
    pyproject = read_toml(project / "pyproject.toml")
    name = pyproject["project"]["name"]
    dependencies = pyproject["project"]["dependencies"]
    own = [text for text in dependencies if not text.startswith(f"{name}[")]
    return own + pyproject["dependency-groups"]["dev"]


def read_toml(path: Path) -> dict:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def print_versions(environment: dict[str, str]) -> None:
    """The versions that decide, in one line."""
    program = (
        "import sys; from importlib.metadata import version; "
        "print('Python', sys.version.split()[0], *(f'{name} {version(name)}' for name in sys.argv[1:]))"
    )
    subprocess.run(["python", "-c", program, *SHOWN], env=environment, check=True)


def passes(step: Step, project: Path, environment: dict[str, str], logs: Path) -> bool:
    """Whether a step ends with exit code 0; prints one line, and the end of its output when it does not."""
    began_s = time.monotonic()
    log = logs / f"{step.name.replace(' ', '_')}.txt"
    with log.open("w", encoding="utf-8") as file:
        try:
            done = subprocess.run(
                step.command.split(),
                cwd=project,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=STEP_LIMIT_S,
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -1
    print(
        f"{'ok' if code == 0 else 'FAILED':<7}{step.name:<18}{time.monotonic() - began_s:6.1f} s",
        flush=True,
    )
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("    $ " + step.command, *lines[-12:], sep="\n    ", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main())
