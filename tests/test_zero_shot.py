"""Zero-shot scoring: the heuristics, against values worked out by hand from the model's own probabilities."""
import types

import numpy as np
import pytest
from tiny import SHARED, cola, corpus, load_config, override, pretrain_config

from gpt1_jax import metrics, pretrain, results, zero_shot
from gpt1_jax.data.published import from_published
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError

pytestmark = pytest.mark.filterwarnings('ignore:.*the published set has')

# Words to ids by first appearance, as a tokenizer would.
WORDS = ['<unk>', 'a', 'b', 'c', 'very', 'positive', 'negative']
TOKENIZER = types.SimpleNamespace(encode=lambda text: [WORDS.index(word) for word in text.split()])


def uniform_but(preferred):
    """A scorer in scoring.score's form under which the token `preferred` has log-probability -1 and every other -3."""
    def score(sequences, names):
        assert len(names) == len(sequences)
        sums = [sum(-1.0 if i == WORDS.index(preferred) else -3.0 for i in ids[-n:]) for ids, n in sequences]
        return np.array(sums), np.array([n for _, n in sequences])
    return score


def test_sst2_appends_very_and_compares_the_two_words():
    asked = []

    def score(sequences, names):
        asked.extend(sequences)
        return uniform_but('positive')(sequences, names)
    _, scores, _ = zero_shot.sst2(score, TOKENIZER, lambda split: [Example('1', ('a b',), label=1)])
    assert asked == [([1, 2, 4, 6], 1), ([1, 2, 4, 5], 1)]
    assert scores.tolist() == [[-3.0, -1.0]]  # negative is label 0, positive is label 1


def test_acceptability_compares_means_over_the_tokens_after_the_first():
    pair = Example('1', (), ('a b b', 'b a'), 0)
    _, scores, _ = zero_shot.acceptability(uniform_but('b'), TOKENIZER, lambda split: [pair])
    assert scores.tolist() == [[-1.0, -3.0]]


def test_cola_is_cut_where_the_training_split_says():
    examples = {'train': [Example(str(i), (text,), label=label) for i, (text, label) in
                          enumerate([('a b b', 1), ('a b c', 1), ('a c c', 0), ('b c c', 0)])],
                None: [Example('x', ('c b b',), label=1), Example('y', ('b a c',), label=1)]}
    _, scores, details = zero_shot.cola(uniform_but('b'), TOKENIZER, examples.get)
    # Training means are -1, -2, -3, -3: the cut with the highest Matthews correlation is half-way between -2 and -3.
    assert details == {'threshold': -2.5}
    assert scores.tolist() == [[0.0, 1.5], [0.0, -0.5]]


def test_the_threshold_is_the_best_of_all_cuts():
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=60), rng.integers(0, 2, 60)
    scores += gold * 0.7
    chosen = zero_shot.best_threshold(scores, gold)
    candidates = (np.sort(scores)[1:] + np.sort(scores)[:-1]) / 2
    best = max(metrics.matthews(gold, (scores > c).astype(int)) for c in candidates)
    assert metrics.matthews(gold, (scores > chosen).astype(int)) == pytest.approx(best)


@pytest.fixture(scope='module')
def pretrained(tmp_path_factory):
    base = tmp_path_factory.mktemp('zero_shot')
    config = pretrain_config(corpus(base / 'text'), model__n_ctx=64, train__steps=4, checkpoint__every=2,
                             checkpoint__keep_steps=(2,), tokenizer__merges=200)
    return pretrain.run(config, base / 'run').path


def config(task, pretrained, directory, **overrides):
    return override(load_config('zero_shot', task),
                    {'init_from': str(pretrained), 'data__dir': str(directory)} | overrides)


def test_every_saved_step_is_scored_and_its_predictions_recompute(pretrained, tmp_path):
    data = cola(tmp_path / 'cola')
    rows = zero_shot.run(config('cola', pretrained, data, results=str(tmp_path / 'results.jsonl')))
    assert [(row['step'], row['metric']) for row in rows] == [
        (2, 'matthews'), (2, 'accuracy'), (4, 'matthews'), (4, 'accuracy')]
    assert results.read(tmp_path / 'results.jsonl') == rows
    for row in rows:
        _, gold, scores = metrics.read_predictions(row['predictions'])
        assert metrics.compute([row['metric']], gold, scores) == {row['metric']: row['value']}
        assert row['n'] == 13 and row['threshold'] < 0 and len(row['digest']) == 16


def test_one_step_can_be_chosen(pretrained, tmp_path):
    rows = zero_shot.run(config('cola', pretrained, cola(tmp_path / 'cola'), step=2))
    assert {row['step'] for row in rows} == {2}


@pytest.mark.parametrize('overrides, message', [
    ({'step': 3}, 'no checkpoint of step 3; there are 2, 4'), ({'init_from': None}, 'give --config.init_from'),
    ({'init_from': 'nowhere'}, 'nowhere: not a run directory'), ({'task': 'rte'}, "no zero-shot evaluator for 'rte'"),
    ({'data__dir': 'nowhere'}, 'nowhere/.*tsv: no such file')])
def test_a_mistake_is_named(pretrained, tmp_path, overrides, message):
    with pytest.raises(UserError, match=message):
        zero_shot.run(override(config('cola', pretrained, cola(tmp_path / 'cola')), overrides))


def test_a_text_of_one_token_names_its_row(pretrained, tmp_path):
    data = cola(tmp_path / 'cola')
    with open(data / 'dev.tsv', 'a') as file:
        file.write('gj04\t1\t\tthe\n')
    with pytest.raises(UserError, match='row 14: 0 of 1 tokens to score'):
        zero_shot.run(config('cola', pretrained, data))


@pytest.mark.skipif(not (SHARED / 'openai_vocab').exists(), reason='the published vocabulary is not beside the clone')
def test_the_published_ids_of_the_sst2_words_are_the_recipes():
    published = from_published(SHARED / 'openai_vocab/encoder_bpe_40000.json', SHARED / 'openai_vocab/vocab_40000.bpe')
    assert [published.encode(word) for word in ('very', 'positive', 'negative')] == [[963], [6353], [9503]]
