"""Runs from before `lab rename` continue with their own code."""

import pytest
from conftest import call
from repositories import commit

TINY = ("trainer=cpu", "trainer.max_epochs=1", "trainer.limit_train_batches=2")


def test_the_package_of_a_tree_is_the_one_it_has(project, module, tmp_path):
    package_in = module("project").package_in
    assert package_in(project) == "myproj"
    with pytest.raises(module("errors").LabError, match="holds no project"):
        package_in(tmp_path)


@pytest.mark.release
def test_earlier_runs_are_resumed_and_evaluated(own_project):
    call(own_project, "lab", "data", "pack", "digits")
    call(own_project, "lab", "train", "trial=baseline", *TINY)
    call(own_project, "lab", "rename", "nova")
    commit(own_project, "rename")
    script = own_project.parent / "myproj-bin/lab"
    script.write_text(script.read_text().replace("myproj.lab", "nova.lab"))
    text = call(own_project, "lab", "resume", "@last", "trainer.max_epochs=2", cold=True)
    assert "the package was called myproj then; continues with the code of" in text
    assert "epoch 2/2" in text
    assert "test/acc" in call(own_project, "lab", "eval", "@last", cold=True)
    assert "run again as" in call(own_project, "lab", "runs", "reproduce", "@last", cold=True)
