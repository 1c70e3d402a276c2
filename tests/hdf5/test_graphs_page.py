"""The classes of docs/graphs.md: a batch of graphs is one large graph; parts of images are those of the file."""

import re

import numpy as np
import pytest
import torch
from labrig.data import write_data_file
from projects import ROOT


@pytest.fixture(scope="module")
def names():
    """What the Python of the page defines."""
    page = (ROOT / "docs/graphs.md").read_text(encoding="utf-8")
    defined = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exec(block, defined)
    return defined


def pack(path, samples):
    """What `lab data pack` stores of these samples: a group decides the split only."""
    fields = {name: [sample[name] for sample in samples] for name in samples[0] if name != "group"}
    stacked = {
        name: values if len({np.shape(value) for value in values}) > 1 else np.stack(values)
        for name, values in fields.items()
    }
    return write_data_file(path, stacked, {"train": range(len(samples)), "val": []})


def test_a_batch_of_graphs_is_one_large_graph(tmp_path, names):
    rng = np.random.default_rng(0)
    graphs = []
    (tmp_path / "raw").mkdir()
    for i in range(12):
        n_nodes = int(rng.integers(2, 7))
        nodes = rng.normal(size=(n_nodes, 3)).astype(np.float32)
        edges = rng.integers(0, n_nodes, (2, int(rng.integers(1, 9))))
        graphs.append((nodes, edges))
        np.savez(tmp_path / f"raw/{i:02}.npz", nodes=nodes, edges=edges, y=i)
    samples = list(names["Graphs"].samples(tmp_path / "raw"))
    pack(tmp_path / "graphs.h5", samples)
    data = names["Graphs"](path=str(tmp_path / "graphs.h5"), batch_size=5)
    seen = []
    for batch in data.train_dataloader():
        (nodes, edges, graph), label = data.on_after_batch_transfer(batch, 0)
        heard = torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])
        for place, number in enumerate(label.tolist()):
            own_nodes, own_edges = graphs[number]
            expected = np.zeros_like(own_nodes)
            np.add.at(expected, own_edges[1], own_nodes[own_edges[0]])
            assert np.array_equal(nodes[graph == place], own_nodes)
            assert np.allclose(heard[graph == place], expected, atol=1e-5)
        seen += label.tolist()
    assert sorted(seen) == list(range(12))


def test_parts_of_large_images_are_read_where_they_lie(tmp_path, names):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 384, 320), np.uint8)
    labels = np.array([4, 5, 6])
    slides = write_data_file(tmp_path / "slides.h5", {"x": pixels, "y": labels}, {})
    samples = list(names["Windows"].samples(slides))
    assert len(samples) == 3 * 3 * 2
    assert {sample["group"] for sample in samples} == {0, 1, 2}
    path = pack(tmp_path / "windows.h5", samples)
    assert path.stat().st_size < pixels.nbytes / 20  # no pixel is copied
    data = names["Windows"](str(slides), path=str(path), batch_size=7)
    n_seen = 0
    for batch in data.train_dataloader():
        x, label = data.on_after_batch_transfer(batch, 0)
        for part, (image, top, left), y in zip(x, batch[0].tolist(), label.tolist(), strict=True):
            assert y == labels[image]
            expected = pixels[image, :, top : top + 256, left : left + 256]
            assert np.array_equal(part, expected)
            n_seen += 1
    assert n_seen == len(samples)
    assert len(data.fingerprint()["slides_sha256"]) == 64
