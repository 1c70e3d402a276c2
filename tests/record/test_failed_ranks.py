"""Of several processes the record names the one that failed first; and what another node has that differs."""

import platform

import pytest
from labrig.machine.ranks import rank_of_process
from labrig.record.write import attempt as nodes
from labrig.record.write import recording as failed_ranks
from labrig.record.write.attempt import describe_exception
from labrig.record.write.begin import begin_attempt
from labrig.record.write.recording import first_reason, note_failure
from record_package import create, make_project

GLOO = RuntimeError("[pair.cc:553] Connection closed by peer [10.77.0.12]:4711")


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """An attempt of three processes, of which nobody waits for one that is gone."""
    monkeypatch.setattr(failed_ranks, "PATIENCE_S", 0)
    project = make_project(tmp_path / "project")
    attempt = begin_attempt(create(project), project)
    attempt.facts["world_size"] = 3
    return attempt


def fails(attempt, rank, error):
    note_failure(attempt.run_dir, attempt.n, rank, f"c{rank}", error)


def test_a_lost_connection_is_no_reason_where_another_process_wrote_one(attempt):
    fails(attempt, 2, ValueError("the first"))
    fails(attempt, 1, ValueError("the second"))
    own = describe_exception(GLOO)
    assert first_reason(attempt, own)["line"] == "rank 2 on c2: ValueError: the first"
    assert "ValueError: the first" in (attempt.dir / "traceback-2.txt").read_text()


def test_a_process_without_a_word_is_named_beside_what_the_first_one_saw(attempt):
    fails(attempt, 1, GLOO)
    line = first_reason(attempt, describe_exception(GLOO))["line"]
    assert line.startswith(f"rank 2 on {platform.node()} ended without a word: killed (signal 9")
    assert "Connection closed by peer" in line


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("connection refused: db:5432"), ValueError("x")]
)
def test_an_error_of_ones_own_stays_the_reason(attempt, error):
    """A data base that does not answer is no process that is gone."""
    own = describe_exception(error)
    assert first_reason(attempt, own) == own
    fails(attempt, 1, GLOO)
    assert first_reason(attempt, own) == own


def test_other_versions_and_gpus_of_a_node_are_lines_of_the_record(attempt, monkeypatch):
    def has(n_gpus, torch):
        gpus = [{"model": "NVIDIA A100", "uuid": str(n)} for n in range(n_gpus)]
        facts = {"torch": torch, "cuda": "12.6", "cudnn": 1, "driver": "560", "gpus": gpus}
        monkeypatch.setattr(nodes, "torch_facts", lambda: facts)

    has(4, "2.13.0")
    nodes.write_node(attempt.run_dir, attempt.n, 1)
    assert nodes.compare_nodes(attempt.run_dir, attempt.n) == []
    has(2, "2.12.1")
    here = platform.node()
    lines = nodes.compare_nodes(attempt.run_dir, attempt.n)
    assert lines == [
        f"node {here} has torch 2.13.0, {here} 2.12.1",
        f"node {here} has 4 x NVIDIA A100, {here} 2 x NVIDIA A100",
    ]
    start = nodes.read_advisory(attempt.dir / "start.json")
    assert start["environment_differences"] == lines


def test_a_process_that_lightning_started_has_its_own_rank():
    """Its launcher says LOCAL_RANK alone; one that says more is believed."""
    of_torchrun = {"TORCHELASTIC_RUN_ID": "1", "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
    of_torchrun |= {
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "c1",
        "MASTER_PORT": "1",
    }
    assert rank_of_process({"LOCAL_RANK": "1"}) == 1
    assert rank_of_process({}) == 0
    assert rank_of_process(of_torchrun) == 5
