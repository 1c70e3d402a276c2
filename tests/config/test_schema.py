"""Every setting of the library is said once: what conf/lab.yaml, the page, completion and the check know of it."""

import re
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest
import yaml
from labrig.cluster.schedulers import all_schedulers
from labrig.config.check import SettingsSource, check_keys
from labrig.config.completion import candidates
from labrig.config.compose import compose
from labrig.config.schema import LabSettings, all_settings, find_setting, takes_any_key
from labrig.config.setting import defaults_of, fits
from labrig.errors import LabError
from labrig.project import Project
from projects import LIBRARY, ROOT, call, environment_of, work_on
from repositories import write

sys.path.append(str(ROOT / "hooks"))
import settings_files

CONF = LIBRARY / "conf"
SETTINGS = {name: each for name, each in all_settings().items() if not each.is_section}
CHECKED = {name: each for name, each in SETTINGS.items() if find_setting(name, SETTINGS)}
# None of them is right for every setting; a section is wrong where any list is right, and so on
WRONG = ("a word of mine", -1, -2.5, True, {"x": 1}, ["x", {"y": 1}], {"x": {"y": {}}})


def files_of_settings():
    """What conf/lab.yaml and the options of groups hold together."""
    values = yaml.safe_load((CONF / "lab.yaml").read_text(encoding="utf-8"))
    del values["defaults"]
    for group in ("logger", "notify", "profile"):
        values[group] = {}
        for path in (CONF / group).glob("*.yaml"):
            values[group] |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return values


LAB = files_of_settings()


def check(name, value):
    for part in reversed(name.split(".")):
        value = {part: value}
    check_keys(value, LAB, SettingsSource("command line"))


def wrong_values(setting):
    """Those of WRONG that it does not take. The entries of a section are looked at one by one."""
    wrong = [value for value in WRONG if not fits(value, setting.type)]
    if isinstance(setting.default, dict):
        wrong = [value for value in wrong if not isinstance(value, dict)]
    if (CONF / setting.name).is_dir():  # a word is taken for an option of the group
        wrong = [value for value in wrong if not isinstance(value, str)]
    return wrong


def test_the_files_are_those_of_the_classes():
    for path, text in settings_files.texts().items():
        assert path.read_text(encoding="utf-8") == text, "type: python hooks/settings_files.py"


def test_conf_holds_every_default_and_nothing_else():
    assert {key: LAB[key] for key in defaults_of(LabSettings)} == defaults_of(LabSettings)
    assert [each.name.rstrip("_") for each in fields(LabSettings)] == list(LAB)[
        : len(fields(LabSettings))
    ]


def test_a_projects_own_file_of_an_option_is_all_of_it(own_project):
    write(own_project, {"src/myproj/conf/profile/torch.yaml": "kind: torch\nactive_steps: 7\n"})
    composed = compose(Project.find(own_project), ["trial=baseline", "profile=torch"])
    assert composed.config.profile == {"kind": "torch", "active_steps": 7}


def test_each_setting_says_what_it_is():
    for name, setting in SETTINGS.items():
        assert setting.comment, name
        assert setting.type not in (Any, None), name
        assert "${" in str(setting.default) or fits(setting.default, setting.type), name
        for choice in setting.choices:
            assert choice in setting.expected, name
            assert choice in setting.comment or choice in ("true", "false", "null"), name


def test_a_wrong_value_of_each_setting_is_refused():
    for name, setting in CHECKED.items():
        if name == "trainer.devices":
            continue
        assert wrong_values(setting), name
        for value in wrong_values(setting):
            with pytest.raises(LabError) as refused:
                check(name, value)
            message = str(refused.value)
            said = f"command line: {name} must be {setting.expected}, but it is "
            assert message.startswith(said)
            assert all(choice in message for choice in setting.choices), name
            assert setting.unit in message, name
        check(name, setting.default)
        if name != "callbacks":
            check(name, "${oc.env:MY_VALUE}")


def test_a_number_below_the_least_is_refused():
    with_least = [(name, int(one.least)) for name, one in CHECKED.items() if one.least is not None]
    for name, least in with_least:
        check(name, least)
        message = f"{name} must be .*, at least {least}, but it is {least - 1}"
        with pytest.raises(LabError, match=message):
            check(name, least - 1)


def test_each_choice_is_accepted():
    for name, setting in CHECKED.items():
        for choice in setting.choices:
            assert check(name, yaml.safe_load(choice)) is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("job.idle_min", None),  # as its comment and its message say
        ("job.time", 3600),
        ("job.mem", "64G"),
        ("speed.compile", False),
        ("paths.data", ["data", "$SCRATCH/data"]),
        ("sweep.metric", ["val/acc", "val/loss"]),
        ("init.prefix", {}),
        ("callbacks", None),
        ("log.bounds.psnr", [0, 100]),
        ("site.queues", [{"name": "gpu"}]),
    ],
)
def test_what_a_comment_promises_is_accepted(setting, value):
    assert check(setting, value) is None


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("checkpoint.mode", "maxi", r"must be min or max, but it is maxi; did you mean: max"),
        ("speed.lean_loop", None, "must be false or auto, but it is null"),
        ("log.progress", ["x"], r"must be true or false or auto, but it is \['x'"),
        ("log.every_s", "soon", "must be a number of seconds, at least 0, but it is soon"),
        ("checkpoint", 3, "must be a section, {every_min: …, every_steps: .*}, but it is 3"),
        ("log.bounds.acc", 1, "must be a list of numbers, but it is 1"),
        ("record.env_vars", ["A", 3], "must be a list of texts, but it is"),
    ],
)
def test_a_message_says_what_would_be_right(setting, value, message):
    with pytest.raises(LabError, match=message):
        check(setting, value)


SECTIONS = [name for name, each in all_settings().items() if each.is_section and "." not in name]
SECTION = f"({'|'.join(SECTIONS)})"
READ = re.compile(rf"\bconfig\.{SECTION}\.(?!get\b|items\b|pop\b)([a-z]\w*)")


def test_the_code_reads_no_setting_that_there_is_not():
    """Each `config.SECTION.KEY` of the library; those of the groups `trainer` and `notify` are in their files."""
    read = {
        f"{section}.{key}"
        for path in LIBRARY.rglob("*.py")
        for section, key in READ.findall(path.read_text(encoding="utf-8"))
    }
    assert len(read) > 25
    of_groups = {"trainer.accelerator", "trainer.precision"}
    assert sorted(read - all_settings().keys() - of_groups) == []


# As one types them: checkpoint.every_min=5
TYPED = re.compile(rf"(?<![\w./{{]){SECTION}((?:\.[a-z]\w*)+)=")


def test_the_pages_name_no_setting_that_there_is_not():
    pages = (ROOT / "docs").glob("*.md")
    texts = [page.read_text(encoding="utf-8") for page in pages]
    typed = {"".join(match) for text in texts for match in TYPED.findall(text)}
    assert len(typed) > 40
    unknown = {name for name in typed - all_settings().keys() if not name.startswith("trainer.")}
    parents = {name: [name.rsplit(".", n)[0] for n in (1, 2)] for name in unknown}
    assert [name for name in unknown if not any(map(takes_any_key, parents[name]))] == []


def test_the_methods_of_the_comment_are_those_that_there_are():
    methods = SETTINGS["site.requeue.method"].help.split(" | ")
    assert {one for scheduler in all_schedulers() for one in scheduler.requeue_methods} == set(
        methods
    )


def test_the_values_of_a_setting_are_completed(project):
    def complete(line):
        return candidates(Project.find(project), f"lab train {line}")

    assert complete("checkpoint.mode=") == ["checkpoint.mode=max", "checkpoint.mode=min"]
    assert complete("log.progress=a") == ["log.progress=auto"]
    assert complete("record.package_files=") == [
        "record.package_files=false",
        "record.package_files=true",
    ]
    assert complete("optimizer=ada") == ["optimizer=adam", "optimizer=adamw"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", ["checkpoint.mode=minimum", "log.every_n_steps=0", "job.nodes=two", "batch.global=x"]
)
def test_a_training_is_refused_before_it_begins(home, setting):
    output = call(home, "lab", "train", "trial=baseline", setting, rc=2)
    assert output.startswith(f"lab: command line: {setting.split('=')[0]} must be ")
    assert len(output.splitlines()) == 1


NO_TORCH = """
import sys
from labrig.config.compose import compose
from labrig.errors import LabError
from labrig.project import Project

try:
    compose(Project.find(), ["trial=baseline", "checkpoint.mode=mean"])
except LabError as error:
    print(error)
slow = {"torch", "lightning", "numpy", "h5py", "optuna"} & set(sys.modules)
assert not slow, slow
"""


def test_the_check_imports_nothing_slow(home):
    answer = subprocess.run(
        [sys.executable, "-c", NO_TORCH],
        cwd=home,
        env=environment_of(home),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("command line: checkpoint.mode must be min or max")


def test_a_word_that_came_by_a_variable_is_checked_too(project, monkeypatch):
    def composed(value):
        monkeypatch.setenv("MY_WORD", value)
        typed = ["trial=baseline", "sweep.sampler=${oc.env:MY_WORD}"]
        return compose(work_on(Project.find(project)), typed).config

    assert composed("tpe").sweep.sampler == "tpe"
    with pytest.raises(LabError, match=r"sweep\.sampler must be grid or .*; did you mean: tpe"):
        composed("tpee")
