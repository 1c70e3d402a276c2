"""Composing leaves a notebook's own Hydra as it was, and a recorded configuration too."""

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra_tree import make_tree
from labrig.config.compose import compose
from labrig.config.recorded import read_recorded, with_changes
from labrig.config.resolve import resolve
from labrig.errors import LabError


@pytest.mark.parametrize("initialized", [False, True])
def test_a_notebooks_own_hydra_stays_as_it_was(tmp_path, initialized):
    Plugins.instance()  # as any compose does: once in a process, it stores Hydra's own nodes
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.yaml").write_text("defaults: [mine, _self_]\nown: 1\n")
    store = ConfigStore.instance()
    nodes = store.repo
    store.store(name="mine", node={"mine": 2})
    store.store(name="lab", node={"nonsense": 2})
    store.store(group="trial", name="baseline", node={"nonsense": 3})
    try:
        names = {name: set(group) for name, group in nodes.items() if isinstance(group, dict)}
        if initialized:
            initialize_config_dir(str(own), version_base="1.2")
        hydra = GlobalHydra.instance()
        loader = hydra.hydra
        config = compose(make_tree(tmp_path / "project", {}), ["trial=baseline"]).config
        assert "nonsense" not in config
        assert GlobalHydra.instance() is hydra
        assert hydra.hydra is loader
        assert ConfigStore.instance() is store
        assert store.repo is nodes
        after = {name: set(group) for name, group in nodes.items() if isinstance(group, dict)}
        assert after == names
        if initialized:
            assert hydra_compose("config") == {"own": 1, "mine": 2}
    finally:
        GlobalHydra.instance().clear()
        for name in ("mine.yaml", "lab.yaml", "trial"):
            nodes.pop(name)


def test_a_recorded_configuration_is_changed_in_a_copy(tmp_path):
    made = compose(make_tree(tmp_path, {}), ["trial=baseline"])
    path = tmp_path / "config.yaml"
    path.write_text(made.yaml)
    recorded = read_recorded(path)
    longer = with_changes(recorded, ["trainer.max_epochs=30"], ("trainer.",), "Start a new run.")
    assert (recorded.trainer.max_epochs, longer.trainer.max_epochs) == (20, 30)
    assert made.config == resolve(recorded)
    with pytest.raises(LabError, match="Start a new run"):
        with_changes(recorded, ["trainer.max_epoch=30"], ("trainer.",), "Start a new run.")
