"""lm-evaluation-harness: its requests against plain forwards, tasks of local files against our own
zero-shot scorer."""

import json
import pathlib
import random
import socket
import types
import zlib

import jax
import numpy as np
import pytest
import yaml

import plain_scores
from gpt1_jax.data import bpe_training
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, log_probs, zero_shot_heuristics
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import workdir
from gpt1_jax.weights import import_run, names
from official import PASSAGES, SCHEMAS
from tiny import command, sentence

HARNESS = pathlib.Path(pytest.importorskip('lm_eval').__file__).parent
from gpt1_jax.evaluation import lm_harness  # noqa: E402  (it needs the extra)

pytestmark = pytest.mark.full
N_CTX = 48
MESH = sharding.make_mesh()
BATCH = 2
TEXTS = [sentence(random.Random(i)) for i in range(60)]
LONG = '\n'.join(TEXTS[:12])
TOKENIZER = bpe_training.train(TEXTS + [PASSAGES['middle'][0]['article']] * 9, merges=150)


def requests(*arguments):
    return [types.SimpleNamespace(args=one) for one in arguments]


@pytest.fixture(scope='module')
def pretrained(tmp_path_factory):
    """Weights large enough for a model that is sure of itself."""
    fields = import_run.fields(
        {
            'n_layer': 1,
            'n_embd': 16,
            'n_head': 2,
            'n_inner': 32,
            'n_ctx': N_CTX,
            'vocab_size': TOKENIZER.vocab_size,
        }
    )

    def weights(name):
        drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(
            0, 0.5, names.shapes(fields)[name]
        )
        return drawn.astype(np.float32) + ('ln_' in name and name.endswith('weight'))

    return import_run.save(
        tmp_path_factory.mktemp('harness') / 'run',
        'a test',
        fields,
        names.to_tree(fields, weights),
        TOKENIZER,
        {},
    ).path


@pytest.fixture(scope='module')
def model(pretrained):
    return load.pretrained(workdir.load(pretrained), import_run.STEP, MESH)


@pytest.fixture(scope='module')
def lm(model):
    return lm_harness.GPT1(*model, MESH, TOKENIZER, BATCH)


@pytest.fixture(scope='module')
def params(model):
    return jax.device_get(model[1])


def nats(params, ids, n):
    """log P of the last n ids."""
    return plain_scores.last(params, ids, n)[0].sum()


def notices(capfd):
    """Returns the notices on stderr, without the progress bars."""
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith('notice: ')]


def test_a_continuation_has_the_probability_and_the_flag_of_a_plain_forward(lm, params):
    asked = [(TEXTS[i], f' {TEXTS[i + 20]}') for i in range(8)] + [('', TEXTS[5]), ('The', ' cat')]
    for text in TEXTS:  # with the most probable word after it, where that is a token by itself
        token = int(plain_scores.logits(params, TOKENIZER.encode(text))[-1].argmax())
        if TOKENIZER.encode(TOKENIZER.piece(token)) == [token]:
            asked += [
                (text, f' {TOKENIZER.piece(token)}'),
                (text, f' {TOKENIZER.piece(token)} the'),
            ]
    found = lm.loglikelihood(requests(*asked))
    for (context, continuation), (nats, best) in zip(asked, found, strict=True):
        before = TOKENIZER.encode(context) or [TOKENIZER.newline_id]
        after = TOKENIZER.encode(continuation)
        logs, is_best = plain_scores.last(params, before + after, len(after))
        assert nats == pytest.approx(logs.sum(), abs=1e-4) and best is is_best
    assert 1 <= sum(best for _, best in found) <= len(asked) - 11


def test_a_rolling_text_is_every_token_once_in_the_harness_windows(lm, params):
    ids = [TOKENIZER.newline_id, *TOKENIZER.encode(LONG)]
    n = len(ids) - 1
    assert n > 2 * N_CTX and n % N_CTX  # several windows, the last one not full by itself
    full = n // N_CTX
    expected = [nats(params, ids[k * N_CTX : (k + 1) * N_CTX + 1], N_CTX) for k in range(full)]
    expected.append(nats(params, ids[-N_CTX - 1 :], n - full * N_CTX))
    found = lm.loglikelihood_rolling(requests((LONG,), (TEXTS[0],), (' \n',)))
    short = [TOKENIZER.newline_id, *TOKENIZER.encode(TEXTS[0])]
    assert found == pytest.approx([sum(expected), nats(params, short, len(short) - 1), 0], abs=1e-3)


def test_a_context_that_is_too_long_loses_its_beginning_with_one_notice(lm, params, capfd):
    ids = TOKENIZER.encode(LONG)
    after = TOKENIZER.encode(TEXTS[20])
    found = lm.loglikelihood(
        requests((LONG, f'\n{TEXTS[20]}'), ('The', ' cat'), (LONG, ' the'), ('a', f' {LONG}'))
    )
    expected = nats(params, [*ids, TOKENIZER.newline_id, *after][-N_CTX - 1 :], len(after) + 1)
    assert found[0][0] == pytest.approx(expected, abs=1e-4)
    whole = lm.loglikelihood_rolling(requests((LONG,)))[0]  # a continuation of several windows
    first = [
        nats(params, [before, *ids[:N_CTX]], N_CTX)
        for before in (*TOKENIZER.encode('a'), TOKENIZER.newline_id)
    ]
    assert found[3][0] == pytest.approx(whole + first[0] - first[1], abs=1e-3)
    (told,) = notices(capfd)
    assert (
        told.startswith(f'notice: 3 of 4 requests exceed the context of {N_CTX} tokens')
        and 'from the left' in told
    )


@pytest.mark.parametrize(
    'context, continuation, before, after',
    [
        ('The cat', ' sat.', 'the cat', 'sat .'),
        ('The cat ', 'sat.', 'the cat', 'sat .'),
        ('', 'The cat', '\n', 'the cat'),
        (' \n', 'cat', '\n', 'cat'),
        ('A\n', 'B', 'a', '\nb'),
        ('A\n\n', '\nB', 'a', '\nb'),
        ('Answer:', 'A', 'answer :', 'a'),
        ('The ca', 't sat', 'the cat', 'sat'),
        ('The ca', 't', 'the ca', 't'),
    ],
)
def test_a_pair_is_split_where_its_context_ends(context, continuation, before, after):
    tokenizer = bpe_training.train(['the cat sat . answer : a b cat sat'] * 3, merges=30)
    found = lm_harness.pair(tokenizer, context, continuation)
    assert tuple(map(tokenizer.decode, found)) == (before, after)


# Tasks

EXAMPLES = {
    'sst2': [Example(str(i), (text,), label=i % 2) for i, text in enumerate(TEXTS[:8])],
    'race': [
        Example(question, (passage['article'], question), tuple(options), 'ABCD'.index(answer))
        for passage in PASSAGES['middle']
        for question, options, answer in zip(
            passage['questions'], passage['options'], passage['answers']
        )
    ],
    'dpr': [
        Example(str(i), (f'{before} ', f' {after}'), tuple(choices), label)
        for i, (before, after, *choices, label) in enumerate(SCHEMAS)
    ],
    'blimp': [Example(str(i), (), (TEXTS[i], TEXTS[i + 20]), 0) for i in range(8)],
}
BLIMP = yaml.safe_load((HARNESS / 'tasks' / 'blimp' / '_template_yaml').read_text())
# The same texts as tasks of the harness. dpr: the same continuation after each of several contexts.
PROMPTS = {
    'sst2': {
        'doc_to_text': '{{texts[0]}} very',
        'doc_to_choice': ['negative', 'positive'],
        'doc_to_target': 'label',
    },
    'race': {
        'doc_to_text': '{{texts[0]}} {{texts[1]}}',
        'doc_to_choice': '{{choices}}',
        'doc_to_target': 'label',
    },
    'dpr': {
        'doc_to_text': 'label',
        'doc_to_choice': '{{[texts[0] + choices[0], texts[0] + choices[1]]}}',
        'doc_to_target': '{{texts[1]}}',
        'target_delimiter': '',
    },
    # The harness's own
    'blimp': {name: BLIMP[name] for name in ('doc_to_text', 'doc_to_choice', 'doc_to_target')},
}


def write_task(directory, name, rows, **config):
    """A task of local files, nothing else."""
    data = directory / f'{name}.jsonl'
    data.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    config = {
        'task': name,
        'dataset_path': 'json',
        'test_split': 'test',
        'output_type': 'multiple_choice',
        'dataset_kwargs': {
            'data_files': {'test': str(data)},
            'cache_dir': str(directory / 'cache'),
        },
    } | config
    (directory / f'{name}.yaml').write_text(json.dumps(config))  # JSON is YAML


@pytest.fixture(scope='module')
def tasks(tmp_path_factory):
    directory = tmp_path_factory.mktemp('tasks')
    for name, prompt in PROMPTS.items():
        rows = [
            {
                'texts': e.texts,
                'choices': e.choices,
                'label': e.label,
                **dict(zip(('sentence_good', 'sentence_bad'), e.choices)),
            }
            for e in EXAMPLES[name]
        ]
        write_task(directory, name, rows, metric_list=[{'metric': 'acc'}], **prompt)
    rows = [{'text': '\n'.join(TEXTS[i : i + 5 * i])} for i in range(1, 5)]
    write_task(
        directory,
        'rolling',
        rows,
        output_type='loglikelihood_rolling',
        doc_to_text='',
        doc_to_target='{{text}}',
        metric_list=[{'metric': 'word_perplexity'}, {'metric': 'bits_per_byte'}],
    )
    write_task(
        directory,
        'written',
        [{'text': text, 'answer': 'no such answer'} for text in TEXTS[:3]],
        output_type='generate_until',
        doc_to_text='{{text}}',
        doc_to_target='{{answer}}',
        generation_kwargs={'until': ['.']},
        metric_list=[{'metric': 'exact_match'}],
    )
    write_task(
        directory,
        'missing',
        [],
        doc_to_text='{{text}}',
        doc_to_target='label',
        doc_to_choice=['a', 'b'],
        dataset_kwargs={'data_files': {'test': str(directory / 'no such file.jsonl')}},
    )
    return directory


@pytest.fixture(scope='module')
def evaluated(pretrained, tasks):
    """Every task at once, and the addresses that were asked for meanwhile."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, 'connect', lambda _, address: asked.append(address))
        patch.setattr(socket, 'getaddrinfo', lambda *address, **_: asked.append(address))
        found, samples = lm_harness.evaluate(
            pretrained, [*PROMPTS, 'rolling'], tasks, batch_size=BATCH
        )
    by_task = {}
    for sample in samples:
        by_task.setdefault(sample['task'], []).append(sample)
    return found, by_task, asked


@pytest.mark.parametrize('task', PROMPTS)
def test_our_zero_shot_scorer_and_the_harness_agree_item_by_item(evaluated, model, task):
    found, samples, _ = evaluated
    rows = zero_shot_heuristics.encode_all(
        zero_shot_heuristics.get(task), EXAMPLES[task], TOKENIZER, N_CTX, task
    )
    right = []
    for row, sample in zip(rows, samples[task], strict=True):
        sums, _ = log_probs.last_tokens(*model, MESH, row.sequences, BATCH * N_CTX)
        answers = [answer[0][0] for answer in sample['resps']]
        np.testing.assert_allclose(answers, sums, rtol=1e-5)
        right.append(int(sums.argmax() == row.label))
        assert sample['acc'] == right[-1]
    assert found['results'][task]['acc,none'] == pytest.approx(np.mean(right))
    assert sum(right) != 1.0 * len(right)


def test_results_have_the_harness_metrics_and_what_was_evaluated_and_nothing_was_fetched(
    evaluated, pretrained, lm
):
    found, samples, asked = evaluated
    texts = [sample['doc']['text'] for sample in samples['rolling']]
    nats = -sum(lm.loglikelihood_rolling(requests(*((text,) for text in texts))))
    metrics = found['results']['rolling']
    assert metrics['bits_per_byte,none'] == pytest.approx(
        nats / np.log(2) / sum(len(text.encode()) for text in texts)
    )
    assert metrics['word_perplexity,none'] == pytest.approx(
        np.exp(nats / sum(len(text.split()) for text in texts))
    )
    assert not asked
    assert (
        found['run'] == str(pretrained)
        and found['step'] == import_run.STEP
        and len(found['digest']) >= 16
    )
    assert found['provenance']['versions'].keys() >= {'lm_eval', 'jax'}
    assert 'word_perplexity' in lm_harness.table(found) and json.dumps(found)


@pytest.mark.parametrize(
    'given, message',
    [
        ({'tasks': ['sst2', 'nothing', 'none']}, "unknown task 'nothing', 'none': "),
        ({'tasks': []}, r'unknown task \(none given\): '),
        ({'tasks': ['missing']}, r'missing: cannot be loaded \(FileNotFoundError: .*'),
        ({'tasks': ['written']}, 'written: tasks that generate text, .* are not supported'),
        ({'include_path': pathlib.Path('nowhere')}, 'nowhere: not a directory of tasks'),
        ({'limit': 0.0}, 'limit is 0.0, must be above 0'),
    ],
)
def test_a_mistake_is_named_before_any_task_is_scored(
    pretrained, tasks, monkeypatch, given, message
):
    # Without the harness's own tasks, which take it half a minute to list
    manager = lm_harness.TaskManager
    monkeypatch.setattr(
        lm_harness, 'TaskManager', lambda **given: manager(**given | {'include_defaults': False})
    )
    monkeypatch.setattr(lm_harness.evaluator, 'evaluate', None)
    with pytest.raises(UserError, match=f'^{message}'):
        lm_harness.evaluate(pretrained, **{'tasks': ['sst2'], 'include_path': tasks} | given)


@pytest.mark.slow
def test_the_command_writes_results_and_samples(pretrained, tasks, tmp_path):
    out = tmp_path / 'results.json'
    samples = tmp_path / 'samples.jsonl'
    given = [f'--init_from={pretrained}', f'--include_path={tasks}']
    done = command(
        'lm_eval',
        *given,
        '--tasks=race,rolling',
        '--limit=3',
        f'--out={out}',
        f'--samples={samples}',
        check=0,
        env={'HF_HUB_OFFLINE': '1'},
    )
    assert 'race' in done.stdout and 'word_perplexity' in done.stdout and '%|' not in done.stderr
    found = json.loads(out.read_text())
    assert found['results']['race']['sample_len'] == 3 and found['step'] == import_run.STEP
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [row['task'] for row in rows] == ['race'] * 3 + ['rolling'] * 3
    done = command('lm_eval', *given, '--tasks=race,nothing', check=1)
    *_, last = done.stderr.splitlines()  # before it the harness says that it has a race of its own
    assert last.startswith("error: unknown task 'nothing': ") and 'Traceback' not in done.stderr
