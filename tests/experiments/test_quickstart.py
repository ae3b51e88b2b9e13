"""The quickstart: its tasks, baselines and report, and all of it with a model too small to
learn."""

import collections
import json
import random

import numpy as np
import pytest
from gpt1_jax.configs import quickstart as sizes
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from experiments.lib import figures
from experiments.quickstart import __main__ as quickstart
from experiments.quickstart import more_books, novel_tasks, report, trigram
from gpt1_jax import pretraining
from gpt1_jax.data import corpus
from gpt1_jax.data.corpus import Document
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.pronouns import PRONOUNS
from gpt1_jax.errors import UserError
from gpt1_jax.runs import results
from tiny import load_config, override, predictions, pretrain_config

pytestmark = pytest.mark.full


@pytest.fixture(scope='module')
def novels():
    return list(corpus.documents('novels'))


def joined(novels):
    return ' '.join(' '.join(novel.text.split()) for novel in novels)


@pytest.mark.quick
def test_sentences_end_at_marks_before_a_capital_and_not_after_titles():
    text = 'Mr. Lee sat. "No!" she  said. Was it 3.5? It was.\n\nThe end'
    assert novel_tasks.sentences(text) == [
        ['Mr. Lee sat.', '"No!" she said.', 'Was it 3.5?', 'It was.'],
        ['The end'],
    ]


def test_either_pronoun_comes_next_equally_often_and_words_alone_are_of_no_help(novels):
    items = novel_tasks.pronoun(novels[:6], 1500, random.Random(0))
    text = joined(novels[:6])
    assert collections.Counter(item.label for item in items) == {0: 750, 1: 750}
    for item in items[:200]:
        assert f'{item.texts[0]} {PRONOUNS[item.label]}' in text and len(
            item.texts[0].split()
        ) in range(4, 20)
    halves = items[::2], items[1::2]
    vectors = CountVectorizer(token_pattern=r'\w+').fit(item.texts[0] for item in items)
    words, held_out = (vectors.transform(item.texts[0] for item in half) for half in halves)
    labels, gold = ([item.label for item in half] for half in halves)
    # 0.66 of sentences chosen at random
    assert MultinomialNB().fit(words, labels).score(held_out, gold) < 0.6


def test_the_wrong_ending_of_word_order_has_the_same_words_with_two_neighbours_exchanged(novels):
    items = novel_tasks.word_order(novels[7:], 200, random.Random(0))
    text = joined(novels[7:])
    assert sum(item.label for item in items) == 100
    for item in items:
        right = item.choices[item.label].split()
        wrong = item.choices[1 - item.label].split()
        assert f'{" ".join(item.texts)} {" ".join(right)}' in text
        first, second = [i for i, pair in enumerate(zip(right, wrong)) if len(set(pair)) == 2]
        assert (
            second == first + 1 and right[first] == wrong[second] and right[second] == wrong[first]
        )


def test_items_depend_on_the_novels_and_the_seed_alone(novels, tmp_path):
    first, second = (
        novel_tasks.write(tmp_path / name, {'test': (novels[8:], 20)}, seed)
        for name, seed in (('a', 0), ('b', 0))
    )
    assert first == second != novel_tasks.write(tmp_path / 'c', {'test': (novels[8:], 20)}, 1)
    with pytest.raises(UserError, match='the novels give 1 sentences, 8 wanted'):
        novel_tasks.word_order(
            [Document('', 'He was old. The old man sat down by the sea.')], 8, random.Random(0)
        )


@pytest.mark.quick
def test_probabilities_of_the_trigram_are_those_by_hand_and_sum_to_one():
    counts = trigram.count(['A b a, b', 'a c'])  # nothing follows across texts; `,` is a word
    uniform = 1 / 5  # a, b, c, the comma and all others
    rest = 0.75 * 4 / 7 * uniform
    one_word = {'other': rest}
    for word, n in {'a': 3, 'b': 2, 'c': 1, ',': 1}.items():
        one_word[word] = (n - 0.75) / 7 + rest
    after_a = {word: 0.75 * 3 / 3 * p for word, p in one_word.items()}
    for word in ('b', ',', 'c'):  # each follows `a` once
        after_a[word] += (1 - 0.75) / 3
    after_b_a = {word: 0.75 * 1 / 1 * p for word, p in after_a.items()}
    after_b_a[','] += 1 - 0.75
    for before, by_hand in {
        '': one_word,
        'other': one_word,
        'b other': one_word,
        'c': one_word,
        'a': after_a,
        'other a': after_a,
        'b a': after_b_a,
        'c b a': after_b_a,
    }.items():
        found = {word: trigram.probability(counts, word, before.split()) for word in by_hand}
        assert found == pytest.approx(by_hand), before
        assert sum(found.values()) == pytest.approx(1)


@pytest.mark.quick
def test_the_trigram_takes_the_ending_that_is_likelier_by_the_word_after_the_context():
    counts = trigram.count(['I saw him. Then he ran. I saw him go.'])
    found = trigram.scores(counts, [Example('0', ('Once I saw',)), Example('1', ('But then',))])
    assert found.argmax(1).tolist() == [PRONOUNS.index('him'), PRONOUNS.index('he')]
    item = Example('2', ('Then', 'he'), ('saw him', 'ran.'))
    first, second = trigram.scores(counts, [item])[0]
    words = ['then', 'he', 'saw', 'him']
    assert first == pytest.approx(
        np.mean([np.log(trigram.probability(counts, words[i], words[:i])) for i in (2, 3)])
    )
    assert second > first


@pytest.mark.quick
@pytest.mark.parametrize(
    'changes, place, message',
    [
        ({'test': 6}, 'out', '^config.examples.test is 6, must be a multiple of 4'),
        ({}, 'gs://bucket/out', "^--workdir is 'gs://bucket/out', must be a local directory"),
    ],
)
def test_what_cannot_be_made_is_named_at_once(tmp_path, monkeypatch, changes, place, message):
    monkeypatch.chdir(tmp_path)
    config = load_config('quickstart')
    config.examples.update(changes)
    with pytest.raises(UserError, match=message):
        quickstart.run(config, place)
    assert not list(tmp_path.iterdir())


def test_the_report_has_each_accuracy_with_its_interval_and_the_paired_differences(tmp_path):
    def paths(**right):
        return {
            getattr(report, name.upper()): predictions(tmp_path / f'{n}.jsonl', n)
            for name, n in right.items()
        }

    results.write(
        tmp_path / 'metrics.jsonl',
        [{'step': 10, 'loss': 5.0}, {'step': 20, 'valid_perplexity': 20.1}],
    )
    zero_shot = {
        20: predictions(tmp_path / 'z1.jsonl', 90),
        10: predictions(tmp_path / 'z0.jsonl', 50),
    }
    headlines = report.write(
        tmp_path,
        {'novels': 3},
        dict.fromkeys(report.COLOURS, 'six novels'),
        tmp_path,
        {
            'pronoun': paths(pretrained=80, scratch=60, trigram=91, packaged=92),
            'word_order': paths(pretrained=90, trigram=70, packaged=98),
        },
        zero_shot,
    )
    text = (tmp_path / 'report.md').read_text()
    # 0.8 -+ 1.96 * 0.04
    assert figures.point(report.accuracy(tmp_path / '80.jsonl')) == pytest.approx(
        {'value': 0.8, 'low': 0.72, 'high': 0.88}, abs=0.015
    )
    for cell in (
        '| pronoun | 80.0 (7',
        '| pronoun | +20.0 (+1',
        '| word_order, zero-shot | 90.0 (',
        '| word_order, zero-shot |  | +20.0 (+1',
        '| 20 | 90.0 (',
        '| novels | 3 |',
        '|  | pretrained (six novels) | from scratch (six novels) |',
    ):
        assert cell in text
    verdicts = json.loads((tmp_path / 'verdicts.json').read_text())['verdicts']
    assert verdicts == {
        'pretrained against the trigram, pronoun': 'worse',
        'novels against the trigram, pronoun': 'undecided',
        'pretrained against the trigram, word_order': 'better',
        'novels against the trigram, word_order': 'better',
    }
    assert len(headlines) == 7 and text.rstrip().endswith(headlines[-1])
    for plot in ('pretraining.png', 'accuracy.png', 'zero_shot.png'):
        assert (tmp_path / plot).read_bytes().startswith(b'\x89PNG') and f']({plot})' in text


def test_a_verdict_that_another_machine_turns_round_is_none():
    runs = [{'verdicts': {'a': 'better', 'b': said}} for said in ('better', 'undecided')]
    assert report.agreement(runs) == [
        'a: better in 2 of 2 runs',
        'b: no verdict, because the runs say better, undecided',
    ]


@pytest.mark.quick
def test_a_trigram_of_many_books_says_what_it_has_counted_and_finds_the_items_that_they_have(
    novels, tmp_path
):
    """The books are the novels of the test themselves."""
    short = [Document(novel.name, novel.text[:60_000]) for novel in novels]
    books = tmp_path / 'books'
    books.mkdir()
    for novel in short[7:8]:
        (books / 'book.txt').write_text(novel.text)
    items = novel_tasks.write(tmp_path / 'tasks', {'test': (novels[7:], 800)})
    for task, path in (
        ('pronoun', tmp_path / 'pronoun_novels' / 'predictions_test.jsonl'),
        ('word_order', tmp_path / 'word_order.jsonl'),
    ):
        of_task = items[task]['test']
        path.parent.mkdir(exist_ok=True)
        gold = [item.label for item in of_task]
        results.write_predictions(path, [item.id for item in of_task], gold, np.eye(2)[gold])
    row = {'task': 'word_order', 'config': {'init_from': 'novels'}, 'predictions': str(path)}
    results.append(tmp_path / 'results.jsonl', row)
    found = more_books.run(str(books), tmp_path, tmp_path / 'out.json')
    assert found['books'] == 1 and found['words'] > 600_000
    assert 10 < found['of these in the books'] < found['sequences of eight words in the items']
    assert found['word_order']['novels'] == '100.0 (100.0 to 100.0)'
    assert found['word_order']['novels against the trigram'] == 'better'
    assert json.loads((tmp_path / 'out.json').read_text()) == found


def config():
    return override(
        sizes.get_config(),
        dict(
            examples__train=32,
            examples__dev=16,
            examples__test=40,
            vocab_size=600,
            pretrain__model__n_layer=1,
            pretrain__model__n_embd=16,
            pretrain__model__n_head=2,
            pretrain__model__n_inner=16,
            pretrain__model__unroll=1,
            pretrain__train__steps=4,
            pretrain__batch__size=8,
            pretrain__checkpoint__keep_steps=(2,),
            pretrain__eval__windows=8,
            pretrain__eval__batch_size=8,
            pretrain__optimizer__warmup_steps=1,
            finetune__train__epochs=1,
            finetune__model__unroll=1,
            finetune__batch__lengths=1,
        ),
    )


@pytest.fixture
def packaged(novels, tmp_path):
    """The path of a run that takes the place of `novels`: of two layers, with one step saved."""
    text = tmp_path / 'text.txt'
    text.write_text(novels[0].text[:60_000])
    tiny = pretrain_config(text, model__n_ctx=96, tokenizer__merges=400, train__steps=2)
    return pretraining.run(tiny, tmp_path / 'packaged').path


def test_from_end_to_end_and_again_without_training(tmp_path, novels, packaged, monkeypatch):
    monkeypatch.setattr(quickstart, 'PACKAGED', str(packaged))
    short = [Document(novel.name, novel.text[:60_000]) for novel in novels]
    monkeypatch.setattr(quickstart.corpus, 'documents', lambda spec: iter(short))
    headlines = quickstart.run(config(), tmp_path)
    rows = results.read(tmp_path / 'results.jsonl')
    assert [
        (row['task'], row['config']['n_transfer'], row['n'])
        for row in rows
        if row['kind'] == 'finetune'
    ] == [(task, layers, 40) for task in ('pronoun',) for layers in (1, -1, 2)]
    assert [(row['task'], row['step'], row['n']) for row in rows if row['kind'] == 'zero_shot'] == [
        ('word_order', 2, 40),
        ('word_order', 4, 40),
        ('word_order', 2, 40),
    ]
    ours = str(tmp_path / 'pretrain')
    assert [row['config']['init_from'] for row in rows] == [ours, ours, str(packaged)] * 2
    metrics = (tmp_path / 'pretrain' / 'metrics.jsonl').read_bytes()
    assert quickstart.run(config(), tmp_path) == headlines and len(headlines) == 7
    assert (tmp_path / 'pretrain' / 'metrics.jsonl').read_bytes() == metrics
