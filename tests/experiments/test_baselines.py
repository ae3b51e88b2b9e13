"""The baselines of the fine-tuned tables: features by hand, planted rules found, the frozen model's
numbers against the numpy model, the cell that says who is ahead."""

import dataclasses
import itertools
import json
import math
import types

import jax
import numpy as np
import pytest

import plain_scores
import reference
from experiments import baselines as program
from experiments.lib import baselines
from experiments.paper import numbers, scores
from gpt1_jax import metrics
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks.example import Example
from tiny import cola, load_config, override

pytestmark = pytest.mark.full

RTE, STSB, SST2, STORY = (tasks.get(name) for name in ('rte', 'stsb', 'sst2', 'story_cloze'))
VOCABULARY = [f'word{i}' for i in range(40)]


def sentence(rng, n=6):
    return ' '.join(rng.choice(VOCABULARY, n, replace=False))


def planted(rng, task, n=200):
    """Rows whose label follows from shared words (pairs, choices) or from one word (single
    texts)."""
    for i in range(n):
        text = sentence(rng)
        other = sentence(rng)
        part = ' '.join(text.split()[:3])
        right = int(rng.integers(2))
        label = right
        texts = (text, other if right else part)
        choices = ()
        if task is STORY:
            texts, choices = (text,), ((other, part) if right else (part, other))
        elif task is SST2:
            texts = (f'{text} {("bad", "good")[right]}',)
        elif task is STSB:
            shared = int(rng.integers(7))
            texts = (text, ' '.join([*text.split()[:shared], *other.split()[shared:]]))
            label = 5 * shared / 6
        yield Example(str(i), texts, choices, label)


def value(task, rows, scores):
    return metrics.compute(task.metrics[:1], np.array([row.label for row in rows]), scores)[
        task.metrics[0]
    ]


@pytest.mark.quick
def test_shared_words_by_hand():
    weights = {'a': 1.0, 'cat': 2.0, 'dog': 3.0, 'sat': 4.0}
    (row,) = baselines.shared_words([('A cat sat', 'a dog, a cat')], weights)
    assert row.tolist() == pytest.approx(
        [2 / 4, 2 / 3, 2 / 3, 3 / 10, 3 / 7, 3 / 6, math.log(4), math.log(4)]
    )


@pytest.mark.parametrize(
    'metric, labels, answer', [('accuracy', [0, 0, 1], 0), ('f1', [0, 0, 0, 1], 1)]
)
def test_the_constant_answer_is_that_with_the_highest_metric(metric, labels, answer):
    task = dataclasses.replace(RTE, metrics=(metric,))
    train = [Example(str(i), ('a', 'b'), (), label) for i, label in enumerate(labels)]
    assert baselines.constant(task, train, train[:2]).argmax(-1).tolist() == [answer] * 2
    assert baselines.constant(STSB, train, train) is None  # one number has no correlation


def states(sequences):
    """How many words the last text has of the one before it."""
    return {6: np.array([[len(set(a.split()) & set(b.split()))] for a, b in sequences], np.float32)}


def log_probs(sequences):
    """A word costs 5 nats, one of the text before it 1, "bad" 9."""
    return np.array(
        [
            (
                -sum(
                    1.0 if word in ' '.join(before).split() else {'bad': 9.0}.get(word, 5.0)
                    for word in last.split()
                ),
                len(last.split()),
            )
            for *before, last in sequences
        ]
    )


FOUND = {
    'overlap': baselines.overlap,
    'words': baselines.words,
    'joined': lambda *rows: baselines.probe(*rows, states, joined=True)[0],
    'likelihood': lambda *rows: baselines.likelihood(*rows, log_probs),
}


@pytest.mark.parametrize(
    'task, name',
    [*itertools.product((RTE, STSB, STORY), FOUND), (SST2, 'words'), (SST2, 'likelihood')],
)
def test_a_planted_rule_is_found_on_new_rows(task, name):
    rng = np.random.default_rng(0)
    train, rows = (list(planted(rng, task)) for _ in range(2))
    assert value(task, rows, FOUND[name](task, train, rows)) > 0.9
    flipped = [
        dataclasses.replace(row, label=(5 if task is STSB else 1) - row.label) for row in train
    ]
    assert value(task, rows, FOUND[name](task, flipped, rows)) < 0.1


@pytest.mark.parametrize('task', [RTE, STSB, SST2, STORY])
def test_the_probe_takes_the_layer_that_knows(task):
    """Layer 2 is the bag of words; layer 1 is noise."""
    rng = np.random.default_rng(0)
    words = {word: i for i, word in enumerate([*VOCABULARY, 'good', 'bad'])}

    def states(texts):
        found = np.zeros((len(texts), len(words)), np.float32)
        for row, (text,) in zip(found, texts):
            row[[words[word] for word in text.split()]] = 1
        return {1: rng.normal(size=found.shape), 2: found}

    train, rows = (list(planted(rng, task)) for _ in range(2))
    found, layer = baselines.probe(task, train, rows, states)
    assert layer == 2 and value(task, rows, found) > 0.8


@pytest.mark.quick
def test_a_result_below_its_best_baseline_says_so(tmp_path):
    row = {'task': 'rte', 'split': 'dev', 'group': None, 'metric': 'accuracy', 'n': 277}
    values = {'constant': 0.53, 'overlap': 0.58, 'words': None, 'random': 0.70}
    rows = [row | {'baseline': name, 'value': value} for name, value in values.items()]
    rows.append(row | {'baseline': 'joined', 'value': 0.65, 'n': 100})  # of other rows
    (tmp_path / scores.BASELINES_FILE).write_text(json.dumps({'rows': rows}))
    config = types.SimpleNamespace(out=tmp_path)

    def cell(score, value):
        found = types.SimpleNamespace(value=value, n=277)
        return scores.best_baseline(config, score, found)

    assert cell(numbers.RTE, 0.52) == '58.0 (shared words); ours is below'
    assert cell(numbers.RTE, 0.60) == '58.0 (shared words)' and cell(numbers.QNLI, 0.60) == ''


@pytest.fixture(scope='module')
def models(pretrained):
    return program.Models(str(pretrained))


def line(models, *texts):
    """The ids of texts, each after a line break, with at most 64 / number of texts tokens for
    each."""
    return [
        i
        for text in texts
        for i in [models.tokenizer.newline_id, *models.tokenizer.encode(text)][: 64 // len(texts)]
    ]


LONG = 'The cat sat on a mat. ' * 9


def test_log_probabilities_are_the_plain_softmax_of_the_text_after_the_other(models):
    sequences = [
        ('The cat',),
        ('red dogs', 'The cat'),
        ('The cat', 'red dogs'),
        (LONG,),
        (LONG, LONG),
        ('The cat', ''),
        ('', 'The cat'),
    ]
    found = models.log_probs(sequences, pretrained=True)
    for texts, (total, n) in zip(sequences, found):
        assert n == min(len(models.tokenizer.encode(texts[-1])), 64 // len(texts) - 1)
        expected = (
            plain_scores.last(models.params[True], line(models, *texts), int(n))[0].sum()
            if n
            else 0.0
        )
        assert total == pytest.approx(expected, rel=1e-5)
    assert found[3, 1] == 63 and found[4, 1] == 31 and found[5].tolist() == [0, 0]
    assert (models.params[True]['embed']['tokens'] != models.params[False]['embed']['tokens']).any()


def test_states_are_the_mean_over_the_last_text_after_half_of_the_layers_and_after_all(models):
    sequences = [('The cat',), ('red dogs', 'The cat'), (LONG,), (LONG, LONG), ('',)]
    found = models.states(sequences, pretrained=True)
    assert sorted(found) == [2, 3]  # of three
    encode = models.tokenizer.encode
    params = models.params[True]
    for layers, of in found.items():
        lower = params | {'blocks': jax.tree.map(lambda leaf: leaf[:layers], params['blocks'])}
        for state, ids, m in (
            (of[0], encode('The cat'), len(encode('The cat'))),
            (of[1], line(models, 'red dogs', 'The cat'), len(encode('The cat'))),
            (of[2], encode(LONG)[:64], 64),
            (of[3], line(models, LONG, LONG), 31),
        ):
            expected = reference.gpt(lower, np.array([ids]))[0][0, -m:].mean(axis=0)
            np.testing.assert_allclose(state, expected, atol=1e-5)
        assert not of[4].any()


def test_the_file_has_what_applies_and_probes_with_a_pretrained_model_alone(
    tmp_path, pretrained, monkeypatch
):
    """CoLA has single texts, so nothing is joined. A second run computes nothing, one on other text
    everything, and the rows of other weights are dropped."""
    asked = []
    for name in ('states', 'log_probs'):

        def asks(self, texts, pretrained, name=name):
            asked.append((name, pretrained))
            random = np.random.default_rng(0).normal(size=(len(texts), 2))
            return {3: random} if name == 'states' else random

        monkeypatch.setattr(program.Models, name, asks)
    monkeypatch.setattr(program, 'MOST_ROWS', 36)
    fields = {'data': str(cola(tmp_path / 'CoLA').parent), 'finetune__data__train_rows': None}
    config = override(load_config('experiments'), fields)
    file = tmp_path / 'baselines.json'

    def computed(*names):
        assert program.run(config, file, names or ['cola']) == []
        return scores.baselines(file)

    rows = computed()
    assert asked == [] and {row['baseline'] for row in rows} == {'constant', 'words'}
    assert all(row['n'] == 13 and row['train_rows'] == 36 for row in rows)  # of 40
    config.pretrained = str(pretrained)
    rows = computed()
    assert asked == [('states', True), ('states', False), ('log_probs', True), ('log_probs', False)]
    applies = [name for name in scores.BASELINES if name not in ('overlap', 'joined')]
    assert [row['baseline'] for row in rows if row['metric'] == 'matthews'] == applies
    of_task = program.of_task
    again = []
    monkeypatch.setattr(
        program,
        'of_task',
        lambda run, name, *given: again.append(name) or of_task(run, name, *given),
    )
    assert computed() == rows and again == ['overlap', 'joined']
    with (tmp_path / 'CoLA' / 'train.tsv').open('a') as data:
        data.write('gj04\t1\t\tA new sentence.\n')
    rows = computed()
    assert again[2:] == list(scores.BASELINES)
    frozen = [row for row in rows if row['baseline'] not in scores.WITHOUT_MODEL]
    older = {name: value for name, value in frozen[0].items() if name != 'weights'}
    file.write_text(json.dumps({'rows': [older, frozen[1] | {'weights': 'other'}]}))
    assert computed('rte') == []
