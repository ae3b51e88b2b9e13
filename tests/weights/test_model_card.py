"""The card of an exported model: what it says of the run."""

import pytest

from exports import TOKENS, edited
from gpt1_jax.runs import results, workdir
from gpt1_jax.weights import hugging_face, model_card
from tiny import load_config

pytestmark = pytest.mark.full


CARDS = {  # of an export: (what stands in its card, what does not)
    'exported': (
        (
            '---\nlicense: "other"\n',
            f'corpus: `books`, hash of its tokens `{TOKENS}`',
            'tokens seen: 1,536 (4 steps of 8 x 48)',
            '"n_layer": 2,',
            '"size": 8',
            '* valid_perplexity 87.5',
            'trained by gpt1_jax',
            'trained with: jax ',
            'not chosen yet',
            'which OpenAIGPTTokenizer cannot',
        ),
        ('MIT License', 'valid_perplexity 90'),
    ),  # nothing published is in it; of another step
    'classifier': (
        (
            'license: "apache-2.0"',
            'fine-tuned on cola',
            'pipeline_tag: "text-classification"',
            'train.tsv `0123',
            'cola, dev, finetune: matthews 0.25',
            'bias is folded into the bias of the last LayerNorm',
            'Copyright (c) 2018 OpenAI',
        ),
        ('matthews 0.75',),
    ),  # of other parameters
    'theirs': (  # imported weights
        (
            'Copyright (c) 2018 OpenAI',
            'openai-community/openai-gpt',
            'corpus and tokens seen: not recorded with the weights',
        ),
        ('trained with',),
    ),
}


@pytest.mark.parametrize('export', CARDS)
def test_a_card_says_what_is_recorded_with_the_weights(export, request):
    card = (request.getfixturevalue(export) / 'README.md').read_text()
    present, absent = CARDS[export]
    assert (
        [line for line in present if line not in card]
        == []
        == [line for line in absent if line in card]
    )


def test_the_card_of_a_run_that_began_with_other_weights_says_so(pretrained, tmp_path):
    config = {'init_from': str(pretrained.path), 'init_step': None}
    hugging_face.export(
        edited(pretrained, tmp_path / 'run', lambda c: c.update(config)), tmp_path / 'out'
    )
    card = (tmp_path / 'out' / 'README.md').read_text()
    assert '* before this run: weights of another run, with the tokens seen by it' in card
    assert str(pretrained.path) not in card  # a path tells nobody anything


def test_the_card_of_a_task_of_one_s_own_has_its_name_and_the_weights_that_it_is_from(
    tuned, tmp_path
):
    own = {'data': 'me/reviews.csv', 'text': ['text'], 'label': 'stars'}
    change = {
        'task': 'custom',
        'custom': own,
        'labels': ['0', '1'],
        'fingerprint': {'origin': 'd1'},
    }
    other = edited(tuned, tmp_path / 'run', lambda c: c.update(change))
    hugging_face.export(other, tmp_path / 'out')
    card = (tmp_path / 'out' / 'README.md').read_text()
    assert '# GPT-1 fine-tuned on reviews\n' in card and 'task: reviews, labels 0, 1' in card
    assert 'weights of digest `d1`' in card


ODD = {
    '<script>x</script>': '`<script>x</script>`',
    'two\n# lines': r'`two\n# '
    r'lines`',
    'a\x1b[31mb': r'`a\x1b[31mb`',
    '[x](http://y)': '`[x](http://y)`',
    '`id`': "`'id'`",
    '': '``',
    'très bien': 'très bien',
    'not_same': 'not_same',
}


@pytest.mark.quick
def test_what_data_and_files_name_is_no_markdown_and_no_html_in_a_card(tmp_path):
    assert {name: model_card._shown(name) for name in ODD} == ODD
    config = load_config('finetune').to_dict() | {
        'kind': 'finetune',
        'task': 'custom',
        'custom': {'data': 'me/<b>\n# set.csv'},
        'labels': [*ODD],
        'fingerprint': {'files': {'<i>.csv': 'a<b>`c'}},
    }
    run = workdir.Run(tmp_path, config)
    facts = ' '.join(f'{name}: {value}' for name, value in model_card._finetuning(run).items())
    assert facts == (
        r'task: `<b>\n# set`, labels '
        + ', '.join(ODD.values())
        + "; hashes of its files `<i>.csv` `a<b>'c` fine-tuned from: random weights"
    )
    results.write(
        run.results,
        [
            {
                'digest': 'd',
                'task': '<b>',
                'split': 'test',
                'group': 'x\n# y',
                'kind': 'finetune',
                'metric': '<u>',
                'value': 0.5,
                'n': '<u>',
                'files': {'<i>.csv': 'a'},
            }
        ],
    )
    results.write(run.metrics, [{'step': 3, 'dev_<u>': 0.5}])
    assert model_card.evaluations(run, 3, 'd') == [
        '`dev_<u>` 0.5000 at step 3',
        r'`<b>`, test, `x\n# y`, `<i>.csv`, finetune: `<u>` 0.5000 '
        r'(n = `<u>`)',
    ]
    run = workdir.Run(
        tmp_path,
        {
            'batch': {'size': 1},
            'model': {'n_ctx': 1},
            'data': {'corpus': 'a`<b>\n', 'tokens': str(tmp_path)},
            'fingerprint': {'tokens': '`<b>'},
        },
    )
    assert model_card._pretraining(run, 1)['corpus'] == r"`a'<b>\n`, hash of its tokens `'<b>`"
