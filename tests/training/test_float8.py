"""`speed.float8` is refused where the GPU has no such numbers. Nothing here multiplies any: that needs such a GPU."""

import pytest
import torch
from in_process import BASELINE, composed, learn
from labrig.errors import LabError
from labrig.training.parts.accelerate import is_convertible, require_float8_gpu, use_float8
from torch import nn


@pytest.mark.slow
def test_it_is_refused_without_a_gpu(home):
    with pytest.raises(LabError, match=r"needs an NVIDIA GPU .* this training runs on the CPU"):
        learn(home, *BASELINE, "speed.float8=true")
    assert composed(home, *BASELINE).speed.float8 is False


def pretend_gpu(monkeypatch, capability):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")


def test_it_is_refused_on_an_older_gpu(monkeypatch):
    pretend_gpu(monkeypatch, (8, 0))
    with pytest.raises(LabError, match=r"a GPU has 8\.0"):
        require_float8_gpu(on_gpu=True)


def network():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def test_only_layers_of_right_sizes_are_converted():
    parts = network()
    assert [is_convertible(part, "") for part in parts] == [True, False, False]


def test_layers_keep_their_weights_and_names(monkeypatch, capsys):
    pytest.importorskip("torchao", reason="the extra float8 is not installed")
    pretend_gpu(monkeypatch, (9, 0))
    converted = network()
    before = dict(converted.named_parameters())
    use_float8([converted], on_gpu=True)
    assert [type(part).__name__ for part in converted] == ["Float8Linear", "ReLU", "Linear"]
    assert {name: id(value) for name, value in converted.named_parameters()} == {
        name: id(value) for name, value in before.items()
    }
    assert "1 linear layers" in capsys.readouterr().out


def test_a_network_without_such_layers_is_refused(monkeypatch):
    pytest.importorskip("torchao", reason="the extra float8 is not installed")
    pretend_gpu(monkeypatch, (9, 0))
    with pytest.raises(LabError, match="no linear layer has sizes"):
        use_float8([nn.Sequential(nn.Linear(7, 3))], on_gpu=True)
