"""Answers for rows without labels, of every kind of task, against plain numpy; the command and its
mistakes."""

import csv
import functools
import json
import os
import shutil

import jax
import numpy as np
import pytest

import official
import reference
import saved
from gpt1_jax import predict
from gpt1_jax.data import bpe_training, tasks
from gpt1_jax.errors import UserError
from gpt1_jax.models import build
from gpt1_jax.runs import results
from tiny import WORDS, finetune_config

pytestmark = pytest.mark.full

N_CTX = 48
MODEL = {
    'kind': 'gpt',
    'ops': {},
    'n_layer': 2,
    'n_embd': 16,
    'n_head': 4,
    'n_inner': 32,
    'n_ctx': N_CTX,
}
LONG = ' '.join(WORDS) + ' ' + ' '.join(WORDS)
PAIRS = [pair[:2] for pair in official.PAIRS[:11]]


@functools.cache
def tokenizer():
    return bpe_training.train([LONG, *(text for pair in PAIRS for text in pair)], merges=160)


def fitted(directory, task, steps=1, model=MODEL, code=None, **overrides):
    """(directory, parameters) of a run as fine-tuning leaves it, with random weights. model, code:
    the backbone's fields, and the digests of code that they name."""
    config = json.loads(json.dumps(finetune_config(task, directory, **overrides).to_dict())) | {
        'kind': 'finetune',
        'model': model | {'vocab_size': tokenizer().vocab_size},
        'lengths': (48,),
        'fingerprint': code or {},
    }
    task = tasks.of(config)
    heads = build.task_model(task, config['model'], 0.1)
    K = {'classify': 1, 'similarity': 2, 'choice': 2}[task.head]
    params = reference.random_like(jax.eval_shape(lambda: build.init_params(heads, K, 0)), seed=3)
    return saved.run(directory / 'run', config, tokenizer(), params, steps).path, params


def states(params, *segments):
    """float64[D]: the state at the extract token of [start] segment [delimiter] segment ...
    [extract]; a segment is a text, or several that are laid end to end."""
    t = tokenizer()
    ids = []
    for segment in segments:
        ids.append(t.delimiter_id if ids else t.start_id)
        for text in [segment] if isinstance(segment, str) else segment:
            ids += t.encode(text)
    return reference.gpt(params['backbone'], np.array([[*ids, t.extract_id]]))[0][0, -1]


def outputs(params, state):
    return state @ params['classifier']['kernel'] + params['classifier']['bias']


def answers(path, records, *more):
    """What `predict` writes for JSON of each record."""
    file = path.parent / 'new.jsonl'
    file.write_text(''.join(json.dumps(record) + '\n' for record in records))
    found, bad = predict.run(path, file, path.parent / 'out.jsonl', *more)
    assert results.read(path.parent / 'out.jsonl') == found and not bad
    return found


def close(found, expected):
    """Whether a row has a softmax of logits, the names of the labels aside."""
    np.testing.assert_allclose(
        list(found['probabilities'].values()), reference.softmax(np.array(expected)), atol=1e-5
    )
    return True


def test_labels_of_single_texts(tmp_path):
    path, params = fitted(tmp_path, 'cola')
    texts = [pair[i % 2] for i, pair in enumerate(PAIRS)] + ['Red.']
    found = answers(path, [{'id': str(i + 5), 'texts': [text]} for i, text in enumerate(texts)])
    assert [row['id'] for row in found] == [str(i + 5) for i in range(12)]
    for row, text in zip(found, texts):
        expected = outputs(params, states(params, text))
        assert close(row, expected) and row['label'] == '01'[expected.argmax()]
        assert list(row) == ['id', 'label', 'probabilities']
        assert list(row['probabilities']) == ['0', '1']
    assert len({round(row['probabilities']['1'], 3) for row in found}) > 5


def test_multiple_choice_is_a_softmax_over_the_choices_that_a_row_has(tmp_path):
    path, params = fitted(tmp_path, 'race')
    rows = [
        {'texts': texts, 'choices': WORDS[i : i + n]}
        for i, (texts, n) in enumerate(zip(PAIRS, (4, 2, 3)))
    ]
    for found, row in zip(answers(path, rows), rows, strict=True):
        choices = row['choices']
        expected = [outputs(params, states(params, row['texts'], one))[0] for one in choices]
        assert list(found['probabilities']) == list('ABCD'[: len(choices)])
        assert close(found, expected) and found['label'] == 'ABCD'[int(np.argmax(expected))]


def test_a_score_of_soft_labels_is_their_mean(tmp_path):
    path, params = fitted(tmp_path, 'custom:rating')
    for row, (a, _) in zip(answers(path, [{'text': a} for a, _ in PAIRS]), PAIRS, strict=True):
        assert close(row, outputs(params, states(params, a)))
        assert list(row['probabilities']) == list('1234567')
        mean = np.dot(list(row['probabilities'].values()), range(1, 8))
        assert row['score'] == pytest.approx(mean, abs=1e-4)


def test_a_score_of_the_squared_loss_is_the_output_between_low_and_high(tmp_path):
    path, params = fitted(tmp_path, 'custom:rating', custom__score=(1, 6.5))
    for row, (a, _) in zip(answers(path, [{'text': a} for a, _ in PAIRS]), PAIRS, strict=True):
        (output,) = outputs(params, states(params, a))
        assert row == {'id': row['id'], 'score': pytest.approx(1 + 5.5 * output, abs=1e-4)}


def test_an_output_that_ends_in_csv_has_the_columns_of_the_input(tmp_path):
    path, _ = fitted(tmp_path, 'custom:rating')
    cells = [' A "red" cat,\nsat. ', 'Nó river', '', 'Seven sang.']
    file = tmp_path / 'new.csv'
    with open(file, 'w', newline='') as stream:
        csv.writer(stream).writerows([['who', 'text'], *enumerate(cells)])
    found, bad = predict.run(path, file, tmp_path / 'p.CSV', skip_bad=True)
    with open(tmp_path / 'p.CSV', newline='', encoding='utf-8-sig') as stream:
        header, *rows = csv.reader(stream)
    assert header == ['who', 'text', 'prediction'] and len(bad) == 1
    scores = [str(row['score']) for row in found]
    assert rows == [[str(i), cells[i], score] for i, score in zip((0, 1, 3), scores)]
    records = [{'text': 'A cat.', 'n': 3}, {'text': 'Nó.', 'more': ['é']}]
    file = tmp_path / 'new.jsonl'
    file.write_text(''.join(json.dumps(record) + '\n' for record in records))
    (first, second), _ = predict.run(path, file, tmp_path / 'p.tsv')
    assert (tmp_path / 'p.tsv').read_text() == (
        '\ufefftext\tn\tmore\tprediction\n'
        f'A cat.\t3\t\t{first["score"]}\n'
        f'Nó.\t\t"[""\\u00e9""]"\t{second["score"]}\n'
    )
    with pytest.raises(UserError, match="p.CSV: has a column 'prediction' already"):
        predict.run(path, tmp_path / 'p.CSV', tmp_path / 'again.csv')


def test_a_table_is_read_in_the_encoding_of_the_run_or_another(tmp_path):
    path, _ = fitted(tmp_path, 'custom:rating', custom__encoding='cp1252')
    file = tmp_path / 'new.csv'
    target = tmp_path / 'p.csv'
    for encoding, named in (('cp1252', None), ('utf-8', 'utf-8'), ('mac-roman', 'mac-roman')):
        file.write_bytes('text\nNó “river”\n'.encode(encoding))
        predict.run(path, file, target, encoding=named)
        assert target.read_text('utf-8-sig').startswith('text,prediction\nNó “river”,')
    path, _ = fitted(tmp_path / 'cola', 'cola')
    with pytest.raises(UserError, match='^--encoding=cp1252: files of cola are UTF-8$'):
        predict.run(path, file, target, encoding='cp1252')


def test_a_bad_row_is_named_or_left_out(tmp_path):
    path, _ = fitted(tmp_path, 'race')
    choices = {'choices': ['a cat', 'birds']}
    good = {'texts': ['A cat sat.', 'Who?']} | choices
    long = {'texts': ['A cat sat.', LONG]} | choices  # the question is never cut
    file = tmp_path / 'new.jsonl'
    out = tmp_path / 'out.jsonl'
    rows = [good, long, good, {'texts': ['A cat sat.']}]
    file.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    refused = 'new.jsonl: line 4: 1 texts, expected 2 .* --skip_bad leaves such rows out$'
    with pytest.raises(UserError, match=refused):
        predict.run(path, file, out)
    assert not out.exists()
    found, bad = predict.run(path, file, out, skip_bad=True)
    assert [row['id'] for row in found] == ['0', '2']
    assert bad[0] == f'{file}: line 4: 1 texts, expected 2 (n_texts of the task)'
    assert bad[1].startswith(f'{file}: race: row 1: ') and 'leave no room' in bad[1]
    file.write_text(json.dumps(long))
    with pytest.raises(UserError, match=f'^{file}: race: no examples left, 1 were skipped'):
        predict.run(path, file, out, skip_bad=True)


def test_what_is_no_fine_tuned_run_or_no_file_is_named(tmp_path):
    path, _ = fitted(tmp_path, 'cola')
    other = shutil.copytree(path, tmp_path / 'other')
    config = json.loads((path / 'config.json').read_text())
    (other / 'config.json').write_text(json.dumps(config | {'kind': 'pretrain'}))
    os.mkfifo(tmp_path / 'pipe')
    for run, file, out, message in (
        (path, 'new.tsv', 'nowhere/out.jsonl', 'there is no directory .*/nowhere'),
        (path, 'new.tsv', 'run/../new.tsv', 'new.tsv: is both the input and the output'),
        (other, 'new.tsv', 'out.jsonl', 'other: not a fine-tuned run'),
        (path, 'pipe', 'out.jsonl', 'pipe: is not a file; a pipe is not read'),
    ):
        with pytest.raises(UserError, match=message):
            predict.run(run, tmp_path / file, tmp_path / out)
