"""gpt1_jax.data.quickstart.derived: balanced items from raw text, and none of them seen in training."""
import collections
import dataclasses
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from gpt1_jax.data.document import Document
from gpt1_jax.data.quickstart import cloze, derived, overlap, word_overlap
from gpt1_jax.data.tasks import quickstart
from gpt1_jax.errors import UserError
from tiny import ROOT

pytestmark = pytest.mark.full


def made_up(number, sentences=40):
    """A document of sentences of made-up words, each its own, none shared with another document."""
    rng = random.Random(number)
    return Document(f'{quickstart.LIBRARIES[min(number // 20, 2)]}.{number}', ' '.join(
        ('S' + ' '.join(''.join(rng.choices('abcdefgh', k=6)) for _ in range(rng.randint(6, 9))) + '.')
        for _ in range(sentences)))


@pytest.fixture(scope='module')
def small():
    splits = derived.split([made_up(number) for number in range(60)], 0.15, 0.25)
    return splits, derived.derive(splits, n_train=80, n_dev=20, n_test=40)


@pytest.fixture(scope='module')
def real(embedded_corpus):
    splits = derived.split(embedded_corpus)
    return splits, derived.derive(splits)


def every(sets, *splits):
    return [example for by_split in sets.values() for split in splits for example in by_split.get(split, ())]


def test_splits_share_no_document(small):
    splits, _ = small
    names = [document.name for part in (splits.train, splits.dev, splits.test) for document in part]
    assert sorted(names, key=lambda name: int(name.split('.')[1])) == [made_up(number).name for number in range(60)]


def test_counts_are_those_asked_for(small):
    counts = {name: {split: len(found) for split, found in by_split.items()} for name, by_split in small[1].items()}
    assert counts == {
        'cloze': {'train': 80, 'dev': 20, 'test': 40}, 'source': {'train': 80, 'dev': 20, 'test': 40},
        'acceptability': {'dev': 20, 'test': 40}}


def test_labels_are_equally_frequent(small):
    for name, by_split in small[1].items():
        for examples in by_split.values():
            counts = collections.Counter(e.label for e in examples)
            assert len(counts) == (3 if name == 'source' else 2)
            assert max(counts.values()) - min(counts.values()) <= (name == 'source')


def test_cloze_answer_follows_its_context(small):
    splits, sets = small
    texts = [document.text for document in splits.test]
    for example in sets['cloze']['test']:
        right, wrong = example.choices[example.label], example.choices[1 - example.label]
        assert any(f'{example.texts[0]} {right}' in text for text in texts)
        assert not any(f'{example.texts[0]} {wrong}' in text for text in texts)


def test_half_of_the_wrong_endings_come_from_the_same_document(small):
    splits, sets = small
    same = 0
    for example in sets['cloze']['test']:
        (home,) = [document.text for document in splits.test if example.texts[0] in document.text]
        same += example.choices[1 - example.label] in home
    assert same == 20


def test_wrong_endings_are_outside_the_item_and_not_next_to_it(small):
    splits, sets = small
    for example in sets['cloze']['test']:
        right, wrong = example.choices[example.label], example.choices[1 - example.label]
        (home,) = [overlap.sentences(d.text) for d in splits.test if example.texts[0] in d.text]
        if wrong in home:
            assert not -5 <= home.index(wrong) - home.index(right) <= 1
        assert abs(len(wrong.split()) - len(right.split())) <= cloze.LENGTH_GAP


def test_the_words_that_an_ending_shares_with_its_context_do_not_give_it_away(real):
    items = real[1]['cloze']
    weights = word_overlap.rarity(text for e in items['train'] for text in (*e.texts, *e.choices))
    right_shares_more = []
    for example in items['train'] + items['test']:
        context = set(overlap.words(example.texts[0]))
        scores = [word_overlap.shared(context, set(overlap.words(choice)), weights) for choice in example.choices]
        right_shares_more.append(np.sign(scores[example.label] - scores[1 - example.label]))
    assert abs(np.mean(right_shares_more)) < 0.1  # 0.54 where wrong endings are drawn by their length alone


def test_items_do_not_depend_on_the_order_of_sets():
    code = ('import random\n'
            'from gpt1_jax.data.quickstart import word_overlap\n'
            'rng = random.Random(0)\n'
            'texts = [" ".join(rng.choices([f"w{i}" for i in range(300)], k=40)) for _ in range(200)]\n'
            'weights = word_overlap.rarity(texts)\n'
            'found = [word_overlap.shared(set(a.split()), set(b.split()), weights) for a, b in zip(texts, texts[1:])]\n'
            'print(found)')
    outputs = set()
    for seed in '0', '1', '2':
        done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, env=os.environ | {'PYTHONHASHSEED': seed},
                              capture_output=True, text=True, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1 and '0.' in outputs.pop()


def test_cloze_context_ends_with_whole_sentences(small):
    for example in small[1]['cloze']['train']:
        assert 1 <= len(overlap.sentences(example.texts[0])) <= 4
        assert len(example.texts[0].split()) <= derived.SEGMENT_WORDS


def test_segment_words_limit_the_context(small):
    sets = derived.derive(small[0], n_train=20, n_dev=10, n_test=10, segment_words=17)
    assert max(len(e.texts[0].split()) for found in sets['cloze'].values() for e in found) <= 17


def test_source_label_names_the_document_that_a_passage_stands_in(small):
    splits, sets = small
    for example in sets['source']['test']:
        homes = {document.name.split('.')[0] for document in splits.test if example.texts[0] in document.text}
        assert homes == {quickstart.LIBRARIES[example.label]}


def test_acceptability_pairs_differ_by_one_swap(small):
    for example in small[1]['acceptability']['test']:
        right, wrong = (example.choices[i].split() for i in (example.label, 1 - example.label))
        changed = [i for i, (a, b) in enumerate(zip(right, wrong, strict=True)) if a != b]
        assert len(changed) == 2 and changed[1] == changed[0] + 1 and changed[0] > 0
        assert [right[i] for i in changed] == [wrong[i] for i in reversed(changed)]


def test_the_same_seed_gives_the_same_items(small):
    splits, sets = small
    assert derived.derive(splits, n_train=80, n_dev=20, n_test=40) == sets
    assert derived.derive(splits, seed=1, n_train=80, n_dev=20, n_test=40) != sets


def test_a_sentence_seen_in_training_is_in_no_evaluation_item():
    splits = derived.split([made_up(number) for number in range(60)], 0.15, 0.25)
    leaked = overlap.sentences(splits.test[0].text)
    dirty = dataclasses.replace(splits, train=splits.train + (Document('copy', ' '.join(leaked)),))
    found = derived.derive(dirty, n_train=80, n_dev=20, n_test=40)
    text = '\n'.join(text for e in every(found, 'test') for text in (*e.texts, *e.choices))
    assert not any(sentence in text for sentence in leaked if len(sentence.split()) >= 8)


def test_too_few_documents_are_named():
    splits = derived.split([made_up(number) for number in range(60)], 0.15, 0.25)
    with pytest.raises(UserError, match=r'cloze train: the documents give [\d,]+ items, 5,000 wanted'):
        derived.derive(splits, n_train=5000, n_dev=20, n_test=40)


def test_an_odd_count_cannot_be_balanced(small):
    with pytest.raises(UserError, match='^81 cloze items cannot be half .*: give an even number$'):
        derived.derive(small[0], n_train=81, n_dev=20, n_test=40)


def test_files_read_back_as_written(small, tmp_path):
    derived.write_all(tmp_path / 'sets', small[1])
    for task in (quickstart.CLOZE, quickstart.SOURCE, quickstart.ACCEPTABILITY):
        for split in task.splits:
            assert task.read(str(tmp_path / 'sets'), split) == small[1][task.name][split]
            assert task.files(str(tmp_path / 'sets'), split) == [str(tmp_path / 'sets' / f'{task.name}_{split}.jsonl')]


GOOD = {'id': '0', 'texts': ['a'], 'choices': ['b', 'c'], 'label': 1}


@pytest.mark.parametrize('change, cause', [
    ({'label': 2}, 'label 2 is not a whole number from 0 to 1'), ({'label': '1'}, "label '1' is not a whole number"),
    ({'label': None}, 'label None is not'), ({'choices': ['b']}, '1 choices, expected 2'),
    ({'id': 'first'}, "id 'first' stands twice")])
def test_a_bad_row_names_file_line_and_cause(tmp_path, change, cause):
    path = tmp_path / 'cloze_dev.jsonl'
    path.write_text('\n'.join(json.dumps(row) for row in ({**GOOD, 'id': 'first'}, {**GOOD, **change})))
    with pytest.raises(UserError, match=rf'cloze_dev\.jsonl: row 2: {cause}'):
        quickstart.CLOZE.read(str(tmp_path), 'dev')


@pytest.mark.slow
def test_embedded_corpus_gives_a_thousand_items_of_each(real):
    assert {name: len(by_split['test']) for name, by_split in real[1].items()} == {
        'cloze': 1000, 'source': 1000, 'acceptability': 1000}


def test_no_long_sentence_of_an_evaluation_item_stands_in_the_training_text(real):
    splits, sets = real
    sentences = {sentence for e in every(sets, 'dev', 'test') for text in (*e.texts, *e.choices)
                 for sentence in overlap.sentences(text) if len(sentence.split()) >= 8}
    assert len(sentences) > 3000
    training = [document.text for document in splits.train]
    training += [text for e in every(sets, 'train') for text in (*e.texts, *e.choices)]
    assert overlap.verbatim(sentences, training) == set()
    stream = ' ' + ' '.join(' '.join(overlap.words(text)) for text in training) + ' '
    some = random.Random(0).sample(sorted(sentences), 300)  # once more, by plain search
    assert not [sentence for sentence in some if f' {" ".join(overlap.words(sentence))} ' in stream]


def test_overlap_check_counts_what_grouping_and_dropping_remove(real):
    counts = derived.overlap_check(*real)
    assert counts['random_seen'] > 0.1 * counts['random_long']
    assert counts['held_seen'] < 0.01 * counts['held_long']
    assert counts['item_seen'] == 0


def test_no_sentence_of_a_test_item_stands_in_a_dev_item(real):
    def long(split):
        return {tuple(overlap.words(s)) for e in every(real[1], split) for t in (*e.texts, *e.choices)
                for s in overlap.sentences(t) if len(overlap.words(s)) >= 8}
    assert len(long('dev') & long('test')) <= 0.005 * len(long('test'))  # boilerplate alone, in more than ten documents
