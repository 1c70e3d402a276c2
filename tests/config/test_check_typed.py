"""An argument that is typed is checked against the class that the same command line chooses."""

import pytest
from hydra_tree import make_tree
from labrig.config.compose import compose
from labrig.errors import LabError
from omegaconf import OmegaConf

ODD = {
    "odd.py": """
        from .task import Classifier

        class Odd(Classifier):
            def __init__(self, model, optimizer, schedule, value=0.0):
                super().__init__(model, optimizer, schedule)

        class Loose(Classifier):
            def __init__(self, value=0.0, **kwargs):
                kwargs.setdefault("schedule", None)
                super().__init__(**kwargs)
    """,
}
CHOSEN = "task._target_=myproj.odd.Odd"

# What is typed: {key: value}
ACCEPTED = {
    f"{CHOSEN} +task.value=0.5": {"task.value": 0.5},
    f"+task.value=0.5 {CHOSEN}": {"task.value": 0.5},
    f"task.value=0.5 {CHOSEN}": {"task.value": 0.5},
    "task={_target_:myproj.odd.Odd} task.value=0.5": {"task.value": 0.5},
    "task._target_=myproj.odd.Loose task.value=0.5": {"task.value": 0.5},
    "optimizer._target_=torch.optim.SGD ~optimizer.betas +optimizer.momentum=0.9": {
        "optimizer.momentum": 0.9,
        "optimizer.lr": 1e-3,
    },
    "task.optimizer.lr=0.5 task.optimizer._target_=torch.optim.SGD": {
        "task.optimizer": {"_target_": "torch.optim.SGD", "lr": 0.5}
    },
}
REFUSED = {
    f"{CHOSEN} +task.valeu=0.5": "takes no argument 'valeu'; did you mean: value",
    f"+task.value=0.5 {CHOSEN} +task.depth=1": "myproj.odd.Odd takes no argument 'depth'",
    "+task.value=0.5": "myproj.task.Classifier takes no argument 'value'",
    "optimizer._target_=torch.optim.SGD optimizer.lrr=0.9": "did you mean: lr. To add it: +optimizer",
}


def typed(tmp_path, line):
    return compose(make_tree(tmp_path, ODD), ["trial=baseline", *line.split(" ")]).config


@pytest.mark.slow
@pytest.mark.parametrize("line", ACCEPTED)
def test_an_argument_of_the_class_that_is_chosen_is_accepted(tmp_path, line):
    config = typed(tmp_path, line)
    for key, value in ACCEPTED[line].items():
        assert OmegaConf.select(config, key) == value


@pytest.mark.parametrize("line", REFUSED)
def test_any_other_is_refused(tmp_path, line):
    with pytest.raises(LabError) as refused:
        typed(tmp_path, line)
    assert REFUSED[line] in str(refused.value)


DATA = """
    from labrig.data import H5DataModule

    class Pets(H5DataModule):
        pass
"""


@pytest.mark.parametrize("target", [".data.Pets", "${package}.trials.wide.data.Pets"])
def test_a_trials_own_data_class_is_named_in_conf_data(tmp_path, target):
    files = {
        "trials/wide/data.py": DATA,
        "trials/wide/config.yaml": "model: {_target_: torch.nn.Identity}\n",
        "conf/data/pets.yaml": f"_target_: {target}\npath: pets.h5\n",
    }
    tree = make_tree(tmp_path, files)
    config = compose(tree, ["trial=wide", "data=pets", "data.batch_size=8"]).config
    assert config.data["_target_"] == "myproj.trials.wide.data.Pets"
    assert config.data.batch_size == 8
    with pytest.raises(LabError) as refused:
        compose(tree, ["trial=baseline", "data=pets"])
    assert str(refused.value).startswith("src/myproj/conf/data/pets.yaml: data._target_")


@pytest.mark.slow
def test_a_task_of_any_name_that_needs_a_model_says_that_there_is_none(tmp_path):
    files = {
        "trials/bare/task.py": """
            from ...task import Classifier

            class Ranker(Classifier):
                def __init__(self, model):
                    super().__init__(model, None, None)

            class Whole(Classifier):
                def __init__(self, model=None):
                    super().__init__(model, None, None)
        """,
        "trials/bare/config.yaml": "task: {_target_: .task.Ranker}\n",
        "trials/bare/whole.yaml": "task: {_target_: .task.Whole}\n",
        "trials/bare/inside.yaml": "task: {model: {_target_: torch.nn.Identity}}\n",
    }
    tree = make_tree(tmp_path, files)
    with pytest.raises(LabError, match=r"trial 'bare' has no model; add to its config\.yaml"):
        compose(tree, ["trial=bare"])
    assert "model" not in compose(tree, ["trial=bare/whole"]).config
    assert "model" not in compose(tree, ["trial=bare/inside"]).config
