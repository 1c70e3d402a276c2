"""`data.order=lengths`: steps of similar length, in an order of their own each epoch, exact after a resume."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labrig.data import H5DataModule, Order, write_data_file
from labrig.errors import LabError
from labrig.hdf5.read.order import POOL

N = 3001


def lengths_of(n, seed=0):
    """As of texts: most are short, some are ten times as long."""
    return np.random.default_rng(seed).lognormal(3, 0.7, n).astype(int)


def order_of(n, batch_size, seed=0, rank=0, world_size=1, lengths=True, **further):
    bucket = further.pop("bucket", batch_size * world_size)
    of_length = {"lengths": lengths_of(n), "bucket": bucket} if lengths else {}
    return Order(
        n, batch_size, seed, True, rank=rank, world_size=world_size, **of_length, **further
    )


def indices_of(order, epoch=0, position=0):
    return [batch.indices.tolist() for batch in order.batches(epoch, position)]


def flat(batches):
    return [index for batch in batches for index in batch]


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 400),
    batch_size=st.integers(1, 20),
    seed=st.integers(0, 50),
    world_size=st.integers(1, 3),
    epoch=st.integers(0, 3),
    n_steps=st.integers(0, 20),
)
def test_each_sample_comes_once_on_any_number_of_processes_and_after_a_resume(
    n, batch_size, seed, world_size, epoch, n_steps
):
    whole = flat(indices_of(order_of(n, batch_size * world_size, seed), epoch))
    assert sorted(whole) == list(range(n))
    ranks = [order_of(n, batch_size, seed, rank, world_size) for rank in range(world_size)]
    steps = zip(*(indices_of(rank, epoch) for rank in ranks), strict=True)
    found = [index for parts in steps for part in parts for index in part]
    assert found == whole[: len(found)]
    position = min(n_steps * batch_size * world_size, n)
    resumed = order_of(n, 7, seed, bucket=batch_size * world_size)
    assert flat(indices_of(resumed, epoch, position)) == whole[position:]


def n_padded(order):
    lengths = lengths_of(N)
    return sum(len(batch) * lengths[batch].max() for batch in indices_of(order))


def test_little_is_padded_and_no_epoch_is_like_another():
    order = order_of(N, 16)
    n_values = lengths_of(N).sum()
    assert n_padded(order_of(N, 16, lengths=False)) > 1.9 * n_values
    assert n_padded(order) < 1.1 * n_values
    first, second = indices_of(order), indices_of(order, 1)
    together = {frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}
    assert len(together) < 3
    means = [lengths_of(N)[batch].mean() for batch in first[: POOL * 2]]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 256, length).astype(np.uint8) for length in lengths_of(101)]
    path = tmp_path / "texts.h5"
    fields = {"x": texts, "y": np.arange(101)}
    write_data_file(path, fields, {"train": range(101)}, order=np.arange(101))
    return path


def module_of(file, **settings):
    return H5DataModule(str(file), batch_size=8, **settings)


@pytest.mark.slow
def test_a_resume_goes_on_in_the_order_of_its_checkpoint(file, capsys):
    whole = [y.tolist() for _, y in module_of(file, order="lengths").loader("train", True)]
    begun = module_of(file, order="lengths").loader("train", shuffle=True)
    batches = iter(begun)
    first = [next(batches)[1].tolist() for _ in range(5)]
    state = begun.state_dict()
    batches.close()
    resumed = module_of(file, order="lengths", num_workers=1).loader("train", shuffle=True)
    resumed.load_state_dict(state)
    assert first + [y.tolist() for _, y in resumed] == whole
    resumed.close()
    resumed = module_of(file).loader("train", shuffle=True)
    with pytest.raises(LabError, match=r"Type: data\.order=lengths"):
        resumed.load_state_dict(state)
    at_random = module_of(file).loader("train", shuffle=True)
    wanted = [y.tolist() for _, y in at_random]
    resumed = module_of(file, order="lengths").loader("train", shuffle=True)
    resumed.load_state_dict(at_random.state_dict() | {"epoch": 0, "position": 0})
    assert [y.tolist() for _, y in resumed] == wanted
    assert "resuming with data.order=random" in capsys.readouterr().err


def test_samples_of_one_length_are_refused(file):
    for chosen in ({"fields": ["y"]}, {"shapes": {"x": 30}}):
        with pytest.raises(LabError, match=r"data.order=lengths: no field of .* is padded"):
            module_of(file, order="lengths", **chosen).loader("train", shuffle=True)
    with pytest.raises(LabError, match=r"data\.draws=torch has the order of a DataLoader"):
        module_of(file, order="lengths", draws="torch").train_dataloader()
