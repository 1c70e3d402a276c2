"""A resumed training sees what an uninterrupted one sees, and ends with its weights."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from hdf5_training import BATCH_SIZE, N, make_file, train
from projects import HELPERS, SOURCE, warm_process

N_TRAIN = N - 20
STEPS = -(-N_TRAIN // BATCH_SIZE)  # per epoch on one rank


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an uninterrupted training of one rank sees and ends with."""
    directory = tmp_path_factory.mktemp("whole")
    make_file(directory / "data.h5")
    return train(directory)


@pytest.fixture(scope="module")
def whole_on_two(tmp_path_factory):
    """The same on two ranks."""
    directory = tmp_path_factory.mktemp("whole_on_two")
    make_file(directory / "data.h5")
    return train_on_two(directory)


def train_on_two(directory: Path, **options):
    """One attempt on two processes; their results."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = ["train", directory, json.dumps({"world": 2, **options})]
    variables = {
        "PYTHONPATH": str(SOURCE),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
        "NODE_RANK": "0",
    }
    ranks = [
        warm_process().start(
            "hdf5_programs",
            words,
            HELPERS,
            os.environ | variables | {"LOCAL_RANK": str(rank)},
            subprocess.STDOUT,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], "\n".join(outputs)
    results = [json.loads((directory / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert results[0]["weights"] == results[1]["weights"]
    return results, "\n".join(outputs)


def trained(result, epoch=None):
    """The batches trained on, of one epoch or of all; each with its epoch in front."""
    return [batch for batch in result["seen"] if batch[0] != "val" and epoch in (None, batch[0])]


def samples(*batches):
    return [int(index) for batch in batches for index in batch[1:]]


def test_an_epoch_is_every_sample_once_in_its_own_order(whole):
    epochs = [samples(*trained(whole, epoch)) for epoch in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(N_TRAIN))] * 3
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


STOPS = (1, 7, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS + 5, -1, -2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop_after", "num_workers"),
    [
        *((stop, 0) for stop in STOPS),
        pytest.param(7, 2, marks=pytest.mark.slow),
        *(pytest.param(stop, 2, marks=pytest.mark.release) for stop in STOPS if stop != 7),
    ],
)
def test_resumed_is_uninterrupted(tmp_path, whole, stop_after, num_workers):
    make_file(tmp_path / "data.h5")
    before = train(tmp_path, stop_after=stop_after, num_workers=num_workers)
    after = train(tmp_path, resume=True, num_workers=num_workers)
    assert trained(before) + trained(after) == trained(whole)
    assert after["weights"] == whole["weights"]


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [3, 6, -2])
def test_resumed_is_uninterrupted_when_an_epoch_is_only_a_part_of_the_data(tmp_path, stop_after):
    options = {"limit_train_batches": 6, "val_check_interval": 2, "accumulate_grad_batches": 1}
    for part in ("whole", "parts"):
        (tmp_path / part).mkdir()
        make_file(tmp_path / part / "data.h5")
    whole = train(tmp_path / "whole", **options)
    before = train(tmp_path / "parts", stop_after=stop_after, **options)
    after = train(tmp_path / "parts", resume=True, **options)
    assert trained(before) + trained(after) == trained(whole)
    assert len(trained(whole)) == 18
    assert after["weights"] == whole["weights"]


@pytest.mark.release
@pytest.mark.slow
def test_two_ranks_share_an_epoch(whole_on_two, whole):
    ranks = whole_on_two[0]
    for epoch in range(3):
        parts = [samples(*trained(rank, epoch)) for rank in ranks]
        assert sorted(parts[0] + parts[1]) == list(range(N_TRAIN))
    assert len(trained(ranks[0])) == len(trained(ranks[1]))
    validated = [samples(*(batch for batch in rank["seen"] if batch[0] == "val")) for rank in ranks]
    assert sorted(validated[0] + validated[1]) == sorted(list(range(N_TRAIN, N)) * 3)
    # the order is that of one rank: the first step of two ranks is the first two of one
    assert samples(ranks[0]["seen"][0], ranks[1]["seen"][0]) == samples(*whole["seen"][:2])


@pytest.mark.parametrize(
    ("stop_after", "num_workers"), [(5, 0), pytest.param(17, 2, marks=pytest.mark.slow)]
)
@pytest.mark.release
def test_two_ranks_resumed_are_uninterrupted(tmp_path, whole_on_two, stop_after, num_workers):
    make_file(tmp_path / "data.h5")
    before, _ = train_on_two(tmp_path, stop_after=stop_after, num_workers=num_workers)
    after, _ = train_on_two(tmp_path, resume=True, num_workers=num_workers)
    for rank in range(2):
        assert trained(before[rank]) + trained(after[rank]) == trained(whole_on_two[0][rank])
    assert after[0]["weights"] == whole_on_two[0][0]["weights"]


@pytest.mark.slow
def test_from_two_ranks_to_one_continues_at_the_same_sample_and_says_so(tmp_path, whole, capfd):
    make_file(tmp_path / "data.h5")
    train_on_two(tmp_path, stop_after=5)
    after = train(tmp_path, resume=True)
    order = [samples(*trained(whole, epoch)) for epoch in range(3)]
    assert [samples(*trained(after, epoch)) for epoch in range(3)] == [
        order[0][80:],
        order[1],
        order[2],
    ]
    assert "not be bit-identical" in capfd.readouterr().err
    validated = samples(*(batch for batch in after["seen"] if batch[0] == "val"))
    assert sorted(validated) == sorted(
        list(range(N_TRAIN, N)) * 3
    )  # also after the epoch that was cut


@pytest.mark.slow
def test_from_one_rank_to_two_continues_at_the_same_sample_and_says_so(tmp_path, whole):
    make_file(tmp_path / "data.h5")
    train(tmp_path, stop_after=STEPS + 3)
    after, output = train_on_two(tmp_path, resume=True)
    order = [samples(*trained(whole, epoch)) for epoch in range(3)]
    both = [samples(*trained(after[0], epoch), *trained(after[1], epoch)) for epoch in range(3)]
    assert [sorted(epoch) for epoch in both] == [[], sorted(order[1][24:]), sorted(order[2])]
    assert output.count("not be bit-identical") == 1
