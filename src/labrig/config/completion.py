"""`lab completion`: the shell completes commands, trials, groups, options and keys."""

from __future__ import annotations

import os
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..command_parser import CommandParser
from ..commands import list_commands
from ..errors import LabError
from ..machine.own_output import refuse_to_overwrite
from ..project import Project, config_home
from .compose import compose
from .hydra_answers import group_names
from .hydra_loader import project_loader
from .schema import all_settings
from .trial_names import PAGE, gone_trials, trial_names, variant_names

WRITTEN = b"# Completion of lab. Written by: lab completion"
BASH = r"""# Completion of lab. Written by: lab completion bash
_lab() {
    local line=${COMP_LINE:0:COMP_POINT} candidate
    local current=${line##* }
    local before_equals=${current%"${current##*=}"}  # bash completes what follows the last =
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("${candidate#"$before_equals"}")
    done < <("${COMP_WORDS[0]}" completion query "$line" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != *[=./] ]] || compopt -o nospace 2>/dev/null
}
complete -F _lab lab
"""
ZSH = r"""#compdef lab
# Completion of lab. Written by: lab completion zsh
_lab() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" completion query "$LBUFFER" 2>/dev/null)}")
    [[ -n "$candidates" ]] && compadd -S '' -- "${candidates[@]}"
}
compdef _lab lab
"""
FISH = r"""# Completion of lab. Written by: lab completion fish
complete -c lab -f -a '(lab completion query (commandline -cp) 2>/dev/null)'
"""


def completion_command(project: Project, args: list[str]) -> int:
    if args[:1] == ["query"]:  # typed by the scripts
        print("\n".join(candidates(project, "".join(args[1:]))))
        return 0
    parser = CommandParser(
        prog="lab completion",
        description="Writes the shell's completion of commands, trials, groups and keys to a file.",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    shell = parser.parse_args(args).shell
    data_home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    if shell == "bash":
        path, text = data_home / "bash-completion/completions/lab", BASH
        advice = f"bash-completion loads it by itself. Without it, in ~/.bashrc: . {path}"
    elif shell == "zsh":
        path, text = data_home / "zsh/site-functions/_lab", ZSH
        advice = f"In ~/.zshrc, before compinit: fpath=({path.parent} $fpath)"
    else:
        path, text = config_home() / "fish/completions/lab.fish", FISH
        advice = "fish loads it by itself."
    # Another program may be called lab, too.
    refuse_to_overwrite(path, lambda content: WRITTEN in content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}\n{advice}")
    return 0


def candidates(project: Project, line: str) -> list[str]:
    """What the last word of a command line may become, sorted; = or a dot at its end: more follows."""
    words = line.split()[1:]
    word = "" if line.endswith(" ") or not words else words.pop()
    possible = _commands(words) or _names_of_trials(project, words)
    if possible:
        return sorted(candidate for candidate in possible if candidate.startswith(word))
    settings = [setting for setting in words if "=" in setting]
    key, equals, _ = word.partition("=")
    if not equals:
        possible = _groups_and_keys(project, settings, word)
    elif key == "trial":
        possible = [f"trial={name}" for name in _trials_and_variants(project)]
    else:
        possible = [f"{key}={value}" for value in _values_of(project, key.lstrip("+"))]
    return sorted({candidate for candidate in possible if candidate.startswith(word)})


def _values_of(project: Project, key: str) -> list[str]:
    """The choices of a setting, or the options of a group."""
    setting = all_settings().get(key)
    if setting and setting.choices:
        return setting.choices
    with project_loader(project) as loader:
        return loader.get_group_options(key.partition("@")[0])


def _commands(words: list[str]) -> set[str]:
    """The commands that may follow these words, which are none or a group such as `runs`."""
    commands = [command for command in list_commands() if command.words]
    if not words:
        return {command.group for command in commands}
    if len(words) == 1:
        return {command.member for command in commands if command.group == words[0]} - {""}
    return set()


def _names_of_trials(project: Project, words: list[str]) -> set[str]:
    """The trials that may follow `lab trials COMMAND`."""
    if words[:1] != ["trials"]:
        return set()
    if words[1] == "restore":
        return {trial.name for trial in gone_trials(project.root / PAGE).values() if trial.commit}
    return set(trial_names(project))


def _trials_and_variants(project: Project) -> list[str]:
    names = []
    for trial in trial_names(project):
        names += [trial, *(f"{trial}/{variant}" for variant in variant_names(project, trial))]
    return names


def _groups_and_keys(project: Project, settings: list[str], word: str) -> list[str]:
    sign = word[: len(word) - len(word.lstrip("+~"))]
    path, dot, _ = word.removeprefix(sign).rpartition(".")
    possible = []
    if not dot:
        with project_loader(project) as loader:
            possible = [f"{sign}{group}=" for group in ["trial", *group_names(loader)]]
    config = _composed(project, settings)
    section = OmegaConf.select(config, path) if path else config
    if OmegaConf.is_dict(section):
        for key, value in section.items():
            end = "." if OmegaConf.is_dict(value) else "="
            possible.append(f"{sign}{path}{dot}{key}{end}")
    return possible


def _composed(project: Project, settings: list[str]) -> DictConfig:
    """The configuration of what was typed; without a trial, of the first one. Empty where it is wrong."""
    if not any(setting.startswith("trial=") for setting in settings):
        settings = [*settings, *(f"trial={name}" for name in trial_names(project)[:1])]
    try:
        return compose(project, settings).config
    except LabError:
        return OmegaConf.create()
