"""Settings: where the options of a group may lie, and what each key that makes a step faster or smaller changes."""

from conftest import call

LION = "lion:\n  _target_: torch.optim.AdamW\n  _partial_: true\n  lr: 0.5\n"


def test_options_lie_in_one_file_or_in_files_of_their_own(own_project):
    conf = own_project / "src/myproj/conf"
    (conf / "optimizer.yaml").write_text(LION)
    (conf / "optimizer").mkdir()
    (conf / "optimizer/sgd.yaml").write_text("_target_: torch.optim.SGD\n_partial_: true\nlr: 0.25\n")

    def origin(option):
        return call(own_project, "lab", "config", "trial=baseline", f"optimizer={option}", "--origin")

    assert "optimizer.lr=0.5  # src/myproj/conf/optimizer.yaml" in origin("lion"), "beside the template's"
    assert "optimizer.lr=0.25  # src/myproj/conf/optimizer/sgd.yaml" in origin("sgd"), "in place of the template's"
    assert "optimizer.lr=0.001  # src/myproj/lab/conf/optimizer.yaml" in origin("adam")
    assert "momentum" not in origin("sgd")
    said = call(own_project, "lab", "config", "trial=baseline", "optimizer=lyon", rc=2)
    assert "did you mean: lion. Options of optimizer: adam, adamw, lion, sgd" in said


def test_settings_where_options_belong(own_project):
    (own_project / "src/myproj/conf/optimizer.yaml").write_text("lr: 0.5\n")
    said = call(own_project, "lab", "config", "trial=baseline", "optimizer=lr", rc=2)
    assert "must hold the options of optimizer by name" in said
    assert "conf/optimizer/NAME.yaml" in said
