"""lm-evaluation-harness on tasks of local files, against our own zero-shot scorer; what it writes, and mistakes."""
import json
import pathlib
import socket

import numpy as np
import pytest

from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import log_probs, zero_shot_heuristics
from gpt1_jax.weights import import_run
from harness_model import BATCH, MESH, N_CTX, TEXTS, TOKENIZER, greedy, requests
from official import PASSAGES, SCHEMAS
from tiny import command

pytest.importorskip('lm_eval')
from gpt1_jax.evaluation import lm_harness  # noqa: E402  (it needs the extra)

pytestmark = pytest.mark.full

EXAMPLES = {
    'sst2': [Example(str(i), (text,), label=i % 2) for i, text in enumerate(TEXTS[:8])],
    'race': [Example(question, (passage['article'], question), tuple(options), 'ABCD'.index(answer))
             for passage in PASSAGES['middle'] for question, options, answer in
             zip(passage['questions'], passage['options'], passage['answers'])],
    'dpr': [Example(str(i), (f'{before} ', f' {after}'), choices, 'AB'.index(label))
            for i, (before, _, after, *choices, label) in enumerate(SCHEMAS)]}
# What the harness makes of the same texts. dpr: one continuation after each of several contexts.
PROMPTS = {
    'sst2': {'doc_to_text': '{{texts[0]}} very', 'doc_to_choice': ['negative', 'positive'], 'doc_to_target': 'label'},
    'race': {'doc_to_text': '{{texts[0]}} {{texts[1]}}', 'doc_to_choice': '{{choices}}', 'doc_to_target': 'label'},
    'dpr': {'doc_to_text': 'label', 'doc_to_choice': '{{[texts[0] + choices[0], texts[0] + choices[1]]}}',
            'doc_to_target': '{{texts[1]}}', 'target_delimiter': ''}}


def write_task(directory, name, rows, **config):
    """A task of local files, nothing else."""
    data = directory / f'{name}.jsonl'
    data.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    config = {'task': name, 'dataset_path': 'json', 'test_split': 'test', 'output_type': 'multiple_choice',
              'dataset_kwargs': {'data_files': {'test': str(data)}, 'cache_dir': str(directory / 'cache')}} | config
    (directory / f'{name}.yaml').write_text(json.dumps(config))  # JSON is YAML


@pytest.fixture(scope='module')
def tasks(tmp_path_factory):
    directory = tmp_path_factory.mktemp('tasks')
    for name, prompt in PROMPTS.items():
        rows = [{'texts': e.texts, 'choices': e.choices, 'label': e.label} for e in EXAMPLES[name]]
        write_task(directory, name, rows, metric_list=[{'metric': 'acc'}], **prompt)
    rows = [{'text': '\n'.join(TEXTS[i:i + 5 * i])} for i in range(1, 5)]
    write_task(directory, 'rolling', rows, output_type='loglikelihood_rolling', doc_to_text='',
               doc_to_target='{{text}}', metric_list=[{'metric': 'word_perplexity'}, {'metric': 'bits_per_byte'}])
    rows = [{'text': text, 'answer': 'no such answer'} for text in TEXTS[:3]]
    write_task(directory, 'written', rows, output_type='generate_until', doc_to_text='{{text}}',
               doc_to_target='{{answer}}', generation_kwargs={'until': ['.'], 'max_gen_toks': 8},
               metric_list=[{'metric': 'exact_match'}])
    return directory


@pytest.fixture(scope='module')
def evaluated(pretrained, tasks):
    """Every task at once, and the addresses that were asked for meanwhile."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, 'connect', lambda _, address: asked.append(address))
        patch.setattr(socket, 'getaddrinfo', lambda *address, **_: asked.append(address))
        found, samples = lm_harness.evaluate(pretrained, [*PROMPTS, 'rolling', 'written'], tasks, batch_size=BATCH)
    by_task = {}
    for sample in samples:
        by_task.setdefault(sample['task'], []).append(sample)
    return found, by_task, asked


@pytest.mark.parametrize('task', PROMPTS)
def test_our_zero_shot_scorer_and_the_harness_agree_item_by_item(evaluated, model, task):
    found, samples, _ = evaluated
    rows = zero_shot_heuristics.encode_all(zero_shot_heuristics.get(task), EXAMPLES[task], TOKENIZER, N_CTX, task)
    right = []
    for row, sample in zip(rows, samples[task], strict=True):
        sums, _ = log_probs.last_tokens(*model, MESH, row.sequences, BATCH * N_CTX)
        answers = [answer[0][0] for answer in sample['resps']]
        np.testing.assert_allclose(answers, sums, rtol=1e-5)
        right.append(int(sums.argmax() == row.label))
        assert sample['acc'] == right[-1]
    assert found['results'][task]['acc,none'] == pytest.approx(np.mean(right))
    assert sum(right) != 1.0 * len(right)


def test_rolling_and_written_answers_reach_the_harness_metrics(evaluated, lm):
    found, samples, _ = evaluated
    texts = [sample['doc']['text'] for sample in samples['rolling']]
    nats = -sum(lm.loglikelihood_rolling(requests(*((text,) for text in texts))))
    metrics = found['results']['rolling']
    assert metrics['bits_per_byte,none'] == pytest.approx(nats / np.log(2) / sum(len(text.encode()) for text in texts))
    assert metrics['word_perplexity,none'] == pytest.approx(np.exp(nats / sum(len(text.split()) for text in texts)))
    answers = [sample['resps'][0][0] for sample in samples['written']]
    assert answers == [greedy(lm, text, 8).partition('.')[0].strip() for text in TEXTS[:3]] and all(answers)
    assert found['results']['written']['exact_match,none'] == 0


def test_results_say_what_was_evaluated_and_nothing_was_fetched(evaluated, pretrained):
    found, _, asked = evaluated
    assert not asked
    assert found['run'] == str(pretrained) and found['step'] == import_run.STEP and len(found['digest']) >= 16
    assert found['provenance']['versions'].keys() >= {'lm_eval', 'jax'}
    assert 'word_perplexity' in lm_harness.table(found) and json.dumps(found)


@pytest.fixture
def local(monkeypatch):
    """Without the harness's own tasks, which take it half a minute to list."""
    manager = lm_harness.TaskManager
    monkeypatch.setattr(lm_harness, 'TaskManager', lambda **given: manager(**given | {'include_defaults': False}))


@pytest.mark.parametrize('given, message', [
    ({'tasks': ['sst2', 'nothing', 'none']}, "unknown task 'nothing', 'none': "),
    ({'tasks': []}, r'unknown task \(none given\): '),
    ({'tasks': ['missing']}, r'missing: cannot be loaded \(FileNotFoundError: .*'),
    ({'include_path': pathlib.Path('nowhere')}, 'nowhere: not a directory of tasks'),
    ({'limit': 0.0}, 'limit is 0.0, must be above 0')])
def test_a_mistake_is_named(local, pretrained, tasks, given, message):
    if not (tasks / 'missing.yaml').exists():
        write_task(tasks, 'missing', [], doc_to_text='{{text}}', doc_to_target='label', doc_to_choice=['a', 'b'],
                   dataset_kwargs={'data_files': {'test': str(tasks / 'no such file.jsonl')}})
    with pytest.raises(UserError, match=f'^{message}'):
        lm_harness.evaluate(pretrained, **{'tasks': ['sst2'], 'include_path': tasks} | given)


@pytest.mark.slow
def test_the_command_writes_results_and_samples(pretrained, tasks, tmp_path):
    out, samples = tmp_path / 'results.json', tmp_path / 'samples.jsonl'
    given = [f'--init_from={pretrained}', f'--include_path={tasks}']
    done = command('lm_eval', *given, '--tasks=race,rolling', '--limit=3', f'--out={out}', f'--samples={samples}',
                   check=0, env={'HF_HUB_OFFLINE': '1'})
    assert 'race' in done.stdout and 'word_perplexity' in done.stdout and '%|' not in done.stderr
    found = json.loads(out.read_text())
    assert found['results']['race']['sample_len'] == 3 and found['step'] == import_run.STEP
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [row['task'] for row in rows] == ['race'] * 3 + ['rolling'] * 3
    done = command('lm_eval', *given, '--tasks=race,nothing', check=1)
    *_, last = done.stderr.splitlines()  # before it the harness says that it has a race of its own
    assert last.startswith("error: unknown task 'nothing': ") and 'Traceback' not in done.stderr


def test_generation_kwargs_are_refused_before_any_task_is_scored(pretrained, tasks, tmp_path, monkeypatch):
    write_task(tmp_path, 'beams', [{'text': TEXTS[0], 'answer': 'no'}], output_type='generate_until',
               doc_to_text='{{text}}', doc_to_target='{{answer}}', generation_kwargs={'until': ['.'], 'num_beams': 4},
               metric_list=[{'metric': 'exact_match'}])
    monkeypatch.setattr(lm_harness.evaluator, 'evaluate', None)
    with pytest.raises(UserError, match='num_beams.*supported are until'):
        lm_harness.evaluate(pretrained, ['beams'], tmp_path, batch_size=BATCH)
