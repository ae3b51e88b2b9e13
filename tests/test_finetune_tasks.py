"""Fine-tuning on a set of each kind: what it is scored by, on which splits and groups."""

import pytest

from gpt1_jax import finetune
from gpt1_jax.runs import results
from tiny import finetune_config

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings('ignore:.*the published set has')]


def mrpc(directory):
    directory.mkdir()
    for split, n in (('train', 16), ('dev', 5)):
        rows = [f'{i % 2}\t{i}\t{i}\tThe cat sat on a mat.\t{"A cat sat." if i % 2 else "Red dogs ran."}\n'
                for i in range(n)]
        header = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n'
        (directory / f'{split}.tsv').write_text(header + ''.join(rows))
    return directory


def rte(directory):
    directory.mkdir()
    for split, n in (('train', 16), ('dev', 5)):
        rows = [f'{i}\tThe cat sat.\tA cat sat.\t{"entailment" if i % 2 else "not_entailment"}' for i in range(n)]
        (directory / f'{split}.tsv').write_text('index\tsentence1\tsentence2\tlabel\n' + '\n'.join(rows) + '\n')
    return directory


def stories(directory):
    directory.mkdir()
    rows = [f'id{i},A cat sat.,It ran.,Dogs ran.,Birds sang.,The {"cat" if i % 2 else "moon"} sang.,Red red red.,'
            f'{i % 2 + 1}' for i in range(374 + 16)]
    (directory / 'cloze_test_val__spring2016.csv').write_text(
        'InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,'
        'RandomFifthSentenceQuiz2,AnswerRightEnding\n' + '\n'.join(rows) + '\n')
    return directory


@pytest.mark.parametrize('task, make, metric', [
    ('rte', rte, 'accuracy'), ('mrpc', mrpc, 'f1'), ('story_cloze', stories, 'accuracy')])
def test_each_kind_of_task_trains_and_is_scored(pretrained, tmp_path, task, make, metric):
    config = finetune_config(task, make(tmp_path / 'data'), init_from=str(pretrained), train__epochs=1)
    rows = finetune.run(config, tmp_path / 'run')
    assert rows[0]['metric'] == metric and 0 <= rows[0]['value'] <= 1
    n = rows[0]['n']
    assert len(results.read(tmp_path / 'run' / 'predictions_dev.jsonl')) == n == (374 if task == 'story_cloze' else 5)
