"""Texts and long sequences are packed as Python and the tokenizer read them; only training words are known."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from hdf5_packing import all_rows, packing  # noqa: F401
from labrig.config.compose import compose
from labrig.data import DataFileError, H5DataModule, Tokenizer, fingerprint, verify_file
from labrig.errors import LabError
from labrig.hdf5.file.info import facts_of
from labrig.hdf5.pack.append import append_command
from labrig.hdf5.pack.command import pack_command
from labrig.project import Project
from labrig.training.check import check_classes
from omegaconf import OmegaConf
from projects import project_in, work_on
from tokenizers import Tokenizer as HubTokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

TEXTS = ["a cat, a hat", "Grüße 👋\r\n", "dogs bark", "a dog", 'he said "no",\nthen left', "naïve"]


def folders(root, texts=TEXTS, encoding="utf-8"):
    """A folder for each of two classes."""
    for i, text in enumerate(texts):
        file = root / ("cold", "warm")[i % 2] / f"{i}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode(encoding))
    return root


def samples(layout):
    values, ends = all_rows(layout, "x", "x_offsets")
    return [values[a:b] for a, b in pairwise(ends)]


def tokenizer(layout):
    return Tokenizer.of(layout.fields["x"].attrs)


def split(layout, name):
    return [samples(layout)[row] for row in layout.map(layout.splits[name])]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_texts_are_what_python_decodes(tmp_path, pack, encoding):
    raw = folders(tmp_path / "raw/t", encoding=encoding)
    layout = pack("t", raw, "--as", "text", "--encoding", encoding)
    found = {
        x.tobytes().decode(): y
        for x, y in zip(samples(layout), *all_rows(layout, "y"), strict=True)
    }
    assert found == {text: i % 2 for i, text in enumerate(TEXTS)}
    assert json.loads(layout.fields["y"].attrs["classes"]) == ["cold", "warm"]
    assert facts_of(layout) == {"n_tokens": 256, "n_classes": 2}
    with pytest.raises(DataFileError, match=r"it is not ascii.*--encoding latin-1"):
        pack("t", folders(tmp_path / "raw/u"), "--as", "text", "--encoding", "ascii")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_a_table_gives_the_same_texts(tmp_path, pack, suffix, capsys):
    table = pa.table({"n": range(6), "text": [*TEXTS[:5], ""], "kind": list("ababab")})
    file = tmp_path / f"raw/t.{suffix}"
    (pa.csv.write_csv if suffix == "csv" else pa.parquet.write_table)(table, file)
    words = ("--as", "text", "--columns", "text", "--label", "kind")
    layout = pack("t", file, *words)
    found = {
        x.tobytes().decode(): y
        for x, y in zip(samples(layout), *all_rows(layout, "y"), strict=True)
    }
    assert found == {text: i % 2 for i, text in enumerate([*TEXTS[:5], ""])}
    assert "1 empty text: 5. --skip-damaged leaves them out" in capsys.readouterr().err
    assert pack("t", file, *words, "--skip-damaged").n_samples == 5
    with pytest.raises(DataFileError, match="has the columns n, text, kind"):
        pack("t", file, "--as", "text", "--label", "kind")


@pytest.mark.parametrize("name", ["words", "characters"])
def test_a_vocabulary_is_of_the_training_split_only(tmp_path, pack, name):
    texts = [f"w{i} shared{i % 3}, {chr(0x4E00 + i)}" for i in range(60)]
    layout = pack("t", folders(tmp_path / "raw/t", texts), "--as", "text", "--tokenizer", name)
    made, unknown = tokenizer(layout), 1
    shown = [made.decode(x).replace(" ,", ",") for x in split(layout, "train")]
    assert set(shown) <= set(texts), "training texts have a token for each part"
    known = {part for text in shown for part in made.split(text)}
    assert {*made.vocabulary[2:]} == known
    assert made.n_tokens == len(known) + 2
    for name in ("val", "test"):
        assert any((x == unknown).any() for x in split(layout, name))
    assert all((x >= unknown).all() for x in samples(layout)), "0 is padding"
    for text in texts:
        assert made.encode(text).tolist() == [
            made.vocabulary.index(part) if part in known else unknown for part in made.split(text)
        ]
    again = Tokenizer.of(json.loads(json.dumps(made.attrs)))
    assert again == made
    other = pack("t", tmp_path / "raw/t", "--as", "text", "--tokenizer", "words", "--n-tokens", 9)
    assert tokenizer(other).n_tokens == 9
    assert fingerprint(other)["sha256"] != fingerprint(layout)["sha256"]


def test_a_word_keeps_its_accents_and_vowel_signs():
    text = "Cafe\u0301, हिन्दी भाषा! ต้นไม้ قَلَم 👋a ꦧꦱꦗꦮꦶ"
    words = ["cafe\u0301", ",", "हिन्दी", "भाषा", "!", "ต้นไม้", "قَلَم", "👋", "a", "ꦧꦱꦗꦮꦶ"]
    assert Tokenizer("words").split(text) == words


def test_a_file_of_tokenizers_gives_its_own_ids(tmp_path, pack):
    own = HubTokenizer(WordLevel({"[UNK]": 0, "a": 1, "cat": 2, "dog": 7}, unk_token="[UNK]"))
    own.pre_tokenizer = Whitespace()
    own.enable_truncation(2)
    own.enable_padding()
    own.save(str(tmp_path / "own.json"))
    own.no_truncation()
    own.no_padding()
    raw = folders(tmp_path / "raw/t")
    layout = pack("t", raw, "--as", "text", "--tokenizer", tmp_path / "own.json")
    expected = sorted(own.encode(text).ids for text in TEXTS)
    assert sorted(x.tolist() for x in samples(layout)) == expected
    assert facts_of(layout)["n_tokens"] == 8


def test_one_long_text_keeps_its_order_and_is_split_by_position(tmp_path, pack):
    text = "To be, or not to be — that is the question.\n" * 30
    file = tmp_path / "raw/play.txt"
    file.write_text(text, encoding="utf-8")
    layout = pack(
        "p", file, "--as", "tokens", "--tokenizer", "characters", "--split", "train=0.9,val=0.1"
    )
    (train,), (val,) = split(layout, "train"), split(layout, "val")
    n = int(0.9 * len(text))
    assert tokenizer(layout).decode(train) == text[:n]
    assert tokenizer(layout).decode(val) == text[n:]
    assert tokenizer(layout).vocabulary[2:] == sorted(set(text[:n]))
    layout = pack("p", file, "--as", "tokens")
    joined = b"".join(split(layout, name)[0].tobytes() for name in ("train", "val", "test"))
    assert joined.decode() == text


def test_one_long_array_keeps_its_order_and_type(tmp_path, pack):
    tokens = np.random.default_rng(0).integers(0, 500, 1000).astype(np.uint16)
    np.save(tmp_path / "raw/a.npy", tokens)
    np.save(tmp_path / "raw/b.npy", tokens[:300])
    layout = pack("a", tmp_path / "raw/a.npy", "--as", "tokens")
    parts = [split(layout, name)[0] for name in ("train", "val", "test")]
    assert np.array_equal(np.concatenate(parts), tokens)
    assert parts[0].dtype == np.uint16
    assert [len(part) for part in parts] == [800, 100, 100]
    assert facts_of(layout) == {"n_tokens": tokens.max() + 1}
    both = (f"train={tmp_path}/raw/a.npy", f"val={tmp_path}/raw/b.npy")
    layout = pack("a", *both, "--as", "tokens")
    assert np.array_equal(split(layout, "val")[0], tokens[:300])
    with pytest.raises(DataFileError, match=r"one list of 1000 numbers.*To keep it: --as tokens"):
        pack("a", tmp_path / "raw/a.npy", "--as", "arrays")
    np.save(tmp_path / "raw/c.npy", tokens.reshape(10, 100))
    (tmp_path / "raw/d.txt").write_bytes("Grüße".encode("latin-1"))
    np.save(tmp_path / "raw/empty.npy", tokens[:0])
    (tmp_path / "raw/empty.txt").touch()
    for name, message in (
        ("empty.txt", "empty.txt is empty"),
        ("empty.npy", "empty.npy is empty"),
        ("c.npy", r"c.npy cannot be read: its shape is \[10, 100\].*--as arrays"),
        ("d.txt", r"d.txt cannot be read: it is not utf8.*--encoding latin-1"),
        ("", r"raw is a directory; .*Name its files: lab data pack a .*raw/FILE --as tokens"),
    ):
        with pytest.raises(DataFileError, match=message):
            pack("a", tmp_path / "raw" / name, "--as", "tokens")


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (np.arange(4000, dtype="<u2") % 65, (), r"bytes of 0, .*np.save\('x.npy', np.fromfile"),
        (np.arange(4000, dtype="<u2") + 40000, (), r"bytes of 0, .*np.save"),
        ("one text".encode("utf-16"), (), r"it is UTF-16. Type: --encoding utf-16"),
        (b"one text", ("--n-tokens", 5), r"--n-tokens is for characters and words, found bytes"),
        (b"one text", ("--tokenizer", "characters", "--n-tokens", 0), r"--n-tokens 0: <pad> and"),
        (b"one text", ("--tokenizer", "characters", "--n-tokens", 2), r"--n-tokens 2: <pad> and"),
    ],
)
def test_what_is_no_text_or_no_vocabulary_is_refused(tmp_path, pack, content, words, message):
    (tmp_path / "raw/a.bin").write_bytes(bytes(content))
    with pytest.raises(DataFileError, match=message):
        pack("a", tmp_path / "raw/a.bin", "--as", "tokens", *words)


def test_numbers_and_texts_are_no_one_field_and_a_suffix_may_be_in_capitals(tmp_path, pack):
    np.save(tmp_path / "raw/a.npy", np.arange(1000) % 50)
    (tmp_path / "raw/a.npy").rename(tmp_path / "raw/a.NPY")
    layout = pack(
        "a", tmp_path / "raw/a.NPY", "--as", "tokens", "--split", "train=0.7,val=0.1,test=0.2"
    )
    assert [len(split(layout, name)[0]) for name in ("train", "val", "test")] == [700, 100, 200]
    (tmp_path / "raw/b.txt").write_text("a text")
    for names in (("a.NPY", "b.txt"), ("b.txt", "a.NPY")):
        with pytest.raises(DataFileError, match=r"some sources are .npy with numbers"):
            pack("a", *(tmp_path / "raw" / name for name in names), "--as", "tokens")


def test_a_byte_order_mark_is_left_out_and_that_is_said(tmp_path, pack, capsys):
    raw = folders(tmp_path / "raw/t")
    for file in (raw / "warm").iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    layout = pack("t", raw, "--as", "text")
    assert {x.tobytes().decode() for x in samples(layout)} == {*TEXTS}
    assert "3 with a byte order mark in front, which is left out" in capsys.readouterr().out
    layout = pack("t", raw / "warm/1.txt", "--as", "tokens", "--tokenizer", "characters")
    assert "\ufeff" not in tokenizer(layout).vocabulary


def test_letters_without_a_token_are_told(tmp_path, pack, capsys):
    vocabulary = {letter: i for i, letter in enumerate("abcdehiklnorstu")} | {"ca": 15}
    own = HubTokenizer(BPE(vocabulary, [("c", "a")]))
    own.save(str(tmp_path / "own.json"))
    raw = folders(tmp_path / "raw/t", ["cat", "Привет", "c!at", "dote", "hat", "a\u0301"])
    layout = pack("t", raw, "--as", "text", "--tokenizer", tmp_path / "own.json")
    assert "has no token for letters of 3 texts: left out" in capsys.readouterr().err
    expected = [own.encode(file.read_text()).ids for file in raw.rglob("*.txt")]
    assert sorted(x.tolist() for x in samples(layout)) == sorted(expected)
    folders(tmp_path / "raw/whole", ["cat", "dote"])
    pack("t", tmp_path / "raw/whole", "--as", "text", "--tokenizer", tmp_path / "own.json")
    assert "has no token" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "special", "message"),
    [
        (WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"), 1000, "gives the token 1000, and has 2"),
        (WordLevel({"a": 0}), 0, r"own.json: WordLevel error: Missing \[UNK\] token"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_contradicts_itself_is_refused(tmp_path, pack, model, special, message):
    own = HubTokenizer(model)
    own.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", special)])
    own.save(str(tmp_path / "own.json"))
    raw = folders(tmp_path / "raw/t")
    with pytest.raises(DataFileError, match=message):
        pack("t", raw, "--as", "text", "--tokenizer", tmp_path / "own.json")


def test_other_data_take_the_vocabulary_of_the_first(tmp_path, pack):
    first = pack("a", folders(tmp_path / "raw/a"), "--as", "text", "--tokenizer", "words")
    new = folders(tmp_path / "raw/b", ["a new cat", "zebra"])
    project = project_in(tmp_path)
    pack_command(project, ["b", str(new), "--as", "text", "--classes-of", "a", "--split", "test=1"])
    layout = verify_file(tmp_path / "data/b.h5")
    assert tokenizer(layout) == tokenizer(first)
    assert sorted(map(len, samples(layout))) == [1, 3]
    append_command(project, ["a", str(new)])
    (_, added) = sorted((tmp_path / "data/a").iterdir())
    assert tokenizer(verify_file(added)) == tokenizer(first)


@pytest.mark.release
@pytest.mark.slow
def test_a_configuration_reads_how_many_tokens_and_classes_there_are(own_project):
    project = work_on(Project(own_project, "myproj"))
    raw = folders(own_project / "raw/t", ["a b", "c d"] * 20)
    pack_command(project, ["letters", str(raw), "--as", "text", "--tokenizer", "words"])
    words = ["trial=baseline", "data=letters", "model.width=${data_of:n_tokens}"]
    composition = compose(project, [*words, "model.n_classes=${data_of:n_classes}"])
    assert composition.config.model == {**composition.config.model, "width": 6, "n_classes": 2}
    assert "width: 6\n" in composition.yaml, "the record holds the number"
    with pytest.raises(
        LabError, match=r"model.width: .*letters.h5 does not say n_words. It says: n_t"
    ):
        compose(project, [*words[:2], "model.width=${data_of:n_words}"])
    (own_project / "data/letters.h5").unlink()
    with pytest.raises(
        LabError, match=r"model.width: no data file letters.h5.*lab data pack letters"
    ):
        compose(project, words)


def test_a_batch_of_tokens_is_int64_and_the_model_has_to_know_them_all(tmp_path, pack):
    layout = pack("t", folders(tmp_path / "raw/t"), "--as", "text", "--tokenizer", "words")
    data = H5DataModule(str(layout.path), batch_size=4)
    batch = next(iter(data.loader("train")))
    assert [tensor.dtype for tensor in batch] == [torch.uint8, torch.int64]
    x, _ = data.on_after_batch_transfer(batch, 0)
    assert x.dtype == torch.int64
    assert torch.equal(x, batch[0].long())
    n_tokens = tokenizer(layout).n_tokens
    check_classes(OmegaConf.create({"model": {"n_tokens": n_tokens}}), data)
    with pytest.raises(LabError, match=rf"model.n_tokens is 3, but .*t.h5 has {n_tokens} tokens"):
        check_classes(OmegaConf.create({"model": {"n_tokens": 3}}), data)


@pytest.mark.slow
def test_a_tokenizer_of_transformers_gives_its_own_ids(tmp_path, pack):
    transformers = pytest.importorskip("transformers")
    own = HubTokenizer(WordLevel({"[UNK]": 0, "a": 1, "cat": 2, "dog": 300}, unk_token="[UNK]"))
    own.pre_tokenizer = Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=own, unk_token="[UNK]")
    fast.save_pretrained(tmp_path / "own")
    raw = folders(tmp_path / "raw/t")
    layout = pack("t", raw, "--as", "text", "--tokenizer", tmp_path / "own")
    assert sorted(x.tolist() for x in samples(layout)) == sorted(fast(TEXTS)["input_ids"])
    assert samples(layout)[0].dtype == np.uint16
    with pytest.raises(DataFileError, match=r"--tokenizer no/such is neither bytes"):
        pack("t", raw, "--as", "text", "--tokenizer", "no/such")
