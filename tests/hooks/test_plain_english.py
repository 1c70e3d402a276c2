"""Pages are plain English, and the judge of that finds what is not."""

import sys

import pytest
from projects import LIBRARY, ROOT

sys.path.append(str(ROOT / "hooks"))
import plain_english

LONG = "We " + "really " * plain_english.LONGEST + "say it."


def faults(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n")
    return list(plain_english.faults_of(page))


def test_pages_and_glossary_are_plain(capsys):
    assert plain_english.main([]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("text", [LONG, f"- One entry.\n- {LONG}", f"what | why\n-|-\nx | {LONG}"])
def test_a_long_sentence_is_named_with_its_line(tmp_path, text):
    (fault,) = [
        each for each in faults(tmp_path, f"Short words here.\n\n{text}") if " words: " in each
    ]
    assert fault.startswith(f"page.md:{5 + text[: text.index(LONG)].count(chr(10))}: ")


def test_a_page_of_middling_sentences_is_too_much(tmp_path):
    sentence = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen. "
    assert "half of the sentences have 14 words" in faults(tmp_path, sentence * 9)[0]


@pytest.mark.parametrize("word", ["Thus", "utilised", "in order to", "upon"])
def test_a_hard_word_gets_a_plainer_one(tmp_path, word):
    (fault,) = faults(tmp_path, f"It works. {word} we say so.")
    assert "write" in fault


def test_code_is_no_english(tmp_path):
    assert (
        faults(tmp_path, f"It works.\n\n```\n{LONG} thus\n```\n\nSee `thus upon` there, please.")
        == []
    )


def test_a_word_of_the_glossary_has_one_row(tmp_path, monkeypatch):
    glossary = tmp_path / "glossary.md"
    glossary.write_text(
        "word | meaning\n-|-\nlead | before the end\nlead time | the same\nrun | one\n"
    )
    monkeypatch.setattr(plain_english, "GLOSSARY", glossary)
    (fault,) = plain_english.faults_of_glossary()
    assert "lead, lead time" in fault


def test_every_word_of_the_glossary_is_used():
    """In a page, a message or the code: a word that nobody uses needs no row."""
    pages = [path for path in plain_english.pages([]) if path != plain_english.GLOSSARY]
    files = [*pages, *LIBRARY.rglob("*.py")]
    text = " ".join(path.read_text(encoding="utf-8").lower() for path in files)
    assert [word for word in plain_english.glossary_words() if word not in text] == []
