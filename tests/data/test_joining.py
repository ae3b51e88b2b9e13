"""Section 4.1: rows to documents."""
import pyarrow
import pyarrow.parquet
import pytest

from gpt1_jax.data import corpus
from gpt1_jax.data.document import Document, Join, joined
from gpt1_jax.errors import UserError

ROWS = [('aa', 1), ('bbb', 1), ('', 1), ('c', 2), ('dddddd', 2), ('e', 1)]


@pytest.mark.parametrize('how, expected', [
    (Join(), [('f:0', 'aa'), ('f:1', 'bbb'), ('f:2', ''), ('f:3', 'c'), ('f:4', 'dddddd'), ('f:5', 'e')]),
    (Join('k'), [('f:0', 'aa bbb '), ('f:3', 'c dddddd'), ('f:5', 'e')]),
    (Join('k', between='\n\n'), [('f:0', 'aa\n\nbbb\n\n'), ('f:3', 'c\n\ndddddd'), ('f:5', 'e')]),
    (Join('k', 6), [('f:0', 'aa bbb'), ('f:2', ''), ('f:3', 'c'), ('f:4', 'dddddd'), ('f:5', 'e')]),
    (Join(characters=5), [('f:0', 'aa'), ('f:1', 'bbb '), ('f:3', 'c'), ('f:4', 'dddddd'), ('f:5', 'e')]),
    (Join(characters=10 ** 6), [('f:0', 'aa bbb  c dddddd e')])])
def test_rows_become_documents(how, expected):
    given = [Document(f'f:{i}', text, key if how.key else None) for i, (text, key) in enumerate(ROWS)]
    assert [(document.name, document.text) for document in joined(given, how)] == expected
    assert list(joined([], how)) == []


def test_joined_rows_have_all_words_in_order_and_no_document_is_too_long():
    texts = ['x' * (i * 7919 % 83) + str(i) for i in range(500)]
    found = list(joined([Document('', text) for text in texts], Join(characters=100)))
    assert ' '.join(document.text for document in found) == ' '.join(texts)
    assert max(len(document.text) for document in found) <= 100 and len(found) < 350


def test_a_key_column_joins_across_row_groups_but_not_across_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pyarrow.table({'book': ['a'] * 3 + ['b'] * 4, 'text': [f's{i}.' for i in range(7)]})
    for name in ('1.parquet', '2.parquet'):
        pyarrow.parquet.write_table(table, name, row_group_size=2)
    (tmp_path / '3.jsonl').write_text('{"book": "b", "text": "x"}\n{"book": "b", "text": "y"}\n')
    (tmp_path / '4.txt').write_text('whole')
    expected = ['s0. s1. s2.', 's3. s4. s5. s6.']
    found = [document.text for document in corpus.documents('.', join=Join('book'))]
    assert found == [*expected, *expected, 'x y', 'whole']
    for name, where in (('1.parquet', '1.parquet'), ('3.jsonl', '3.jsonl: line 1')):
        with pytest.raises(UserError, match=f"{where} has no field 'boek', only 'book', 'text', did you mean 'book'"):
            list(corpus.documents(name, join=Join('boek')))
