"""`--parent` of `lab train` is recorded as the id of a run that exists."""

import pytest
from labrig import env
from labrig.errors import LabError
from labrig.project import Project
from labrig.training.start import command as start
from record_package import PACKAGE, call, train
from repositories import write


class Asked(Exception):
    """What a run would be made of."""


@pytest.fixture
def own(own_project, monkeypatch):
    """A project whose `lab train` stops where it would create the run."""

    def stop(project, runs, request):
        raise Asked(request.parent)

    monkeypatch.setattr(start, "create_run", stop)
    write(own_project, {"data/digits.h5": ""})  # nobody reads it; it must be there
    return Project(own_project, PACKAGE)


def recorded_parent(project, *words):
    with pytest.raises(Asked) as asked:
        start.train_command(project, ["trial=baseline", *words])
    return asked.value.args[0]


@pytest.mark.release
@pytest.mark.slow
def test_parents_are_resolved_and_must_exist(own, monkeypatch):
    assert recorded_parent(own) is None
    with pytest.raises(LabError, match="there are no runs"):
        start.train_command(own, ["trial=baseline", "--parent", "@last"])
    first, second = train(own), train(own, metrics={"val/loss": 0.1})
    call(own, "runs tag", first.id, "base")
    names = [("base", first), (first.id, first), (first.id[:-1], first), ("@best:val/loss", second)]
    for word, run in names:
        assert recorded_parent(own, "--parent", word) == run.id
    for arguments in (["trial=baseline"], ["trial=baseline", "seed=0,1", "-m"]):
        with pytest.raises(LabError, match="no run 'nonsense'"):
            start.train_command(own, [*arguments, "--parent", "nonsense"])
    # The repetition of a run that lies in another directory of runs.
    monkeypatch.setenv(env.FROZEN, str(start.__file__).partition("/src/")[0])
    assert recorded_parent(own, "--parent", "20260101-000000-abcdef") == "20260101-000000-abcdef"
