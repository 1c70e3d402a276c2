"""docs/recipes.md: each recipe is copied into a project, and its code and commands run."""

import re
import shlex

import pytest
from projects import ROOT, call
from trainings import SHORT, add_trial, last, rows

PAGE = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w./]+\.(?:py|yaml))\n")
NO_COPY = re.compile(
    r"RUN|cells2|safetensors|--sweep|reproduce|init_from|--lr"
)  # see the pages of these
CLASSES = {"task.py": "task: {_target_: .task.Task}\n", "data.py": "data: {_target_: .data.Data}\n"}
pytestmark = pytest.mark.slow


def files_of(recipe):
    """Name -> text of the files that a recipe writes."""
    blocks = (block for _, block in FENCE.findall(RECIPES[recipe]))
    named = ((FILE.match(block), block) for block in blocks)
    return {match[1]: block for match, block in named if match}


def commands_of(recipe):
    """The commands of a recipe that need nothing of the reader's own."""
    lines = [
        line.partition(" #")[0].strip()
        for language, block in FENCE.findall(RECIPES[recipe])
        if not language
        for line in block.splitlines()
    ]
    return [line for line in lines if not NO_COPY.search(line)]


WITH_CODE = [name for name in RECIPES if files_of(name)]
TYPED = [name for name in RECIPES if commands_of(name)]


def test_the_page_has_what_people_ask_for():
    assert len(RECIPES) >= 40
    wishes = (
        "freeze",
        "class weights",
        "subset",
        "weighted sampler",
        "ensemble",
        "mixup",
        "f1",
        "curriculum",
    )
    assert [wish for wish in wishes if wish not in PAGE.lower()] == []


@pytest.mark.release
@pytest.mark.parametrize("recipe", WITH_CODE)
def test_the_code_of_a_recipe_trains(home, recipe):
    name = f"recipe{list(RECIPES).index(recipe)}"
    files = files_of(recipe)
    config = (home / "src/myproj/trials/baseline/config.yaml").read_text()
    config += "".join(line for file, line in CLASSES.items() if file in files)
    config += files.pop("config.yaml", "")
    model = (home / "src/myproj/trials/baseline/model.py").read_text()
    shared = {file: text for file, text in files.items() if "/" in file}
    for file, text in shared.items():
        (home / "src/myproj" / file).parent.mkdir(exist_ok=True)
        (home / "src/myproj" / file).write_text(text)
    own = {file.replace(".", "_"): text for file, text in files.items() if file not in shared}
    add_trial(home, name, config_yaml=config, model_py=model, **own)
    call(home, "lab", "train", f"trial={name}", *SHORT)
    record = last(home)
    assert record["status"] == "finished"
    assert any("train/loss" in row for row in rows(record))


@pytest.mark.release
@pytest.mark.parametrize("recipe", TYPED)
def test_the_commands_of_a_recipe_are_taken(home, recipe):
    for file, text in files_of(recipe).items():
        if file.startswith("conf/"):
            (home / "src/myproj" / file).parent.mkdir(exist_ok=True)
            (home / "src/myproj" / file).write_text(text)
    for line in commands_of(recipe):
        words = shlex.split(line)
        if words[:2] == ["lab", "train"]:
            words += ["trainer=cpu", "trainer.threads=1"]
            words += [] if "max_time" in line or "+debug" in line else ["trainer.max_epochs=1"]
        assert call(home, *words)
