"""Section 3.2: labels, scores or choices for rows without them, by a fine-tuned run.

    python -m gpt1_jax.predict --init_from=runs/cola --input=new.tsv --output=predictions.jsonl

The input is a file in the layout of the task's own, or a .jsonl file with a row a line that fits any task:
{"id": "a", "texts": ["One text, or two."]}, of multiple choice with "choices": ["One.", "Two."]. The output has a line
a row, in the same order: {"id": "a", "label": "1", "probabilities": {"0": 0.1, "1": 0.9}}, or "score".
"""
import os

from absl import flags

from gpt1_jax import cli, prediction, results, workdir
from gpt1_jax.data.tasks import unlabelled
from gpt1_jax.errors import UserError


def predict(init_from, source, target, step=None, skip_bad=False):
    """Answers the rows of a file; returns (answers, messages of the bad rows left out).

    step: a saved step, default the best on dev. skip_bad: leave bad rows out. UserError for a mistake in any of these,
    naming the file and the row.
    """
    results.check(target)
    if os.path.realpath(source) == os.path.realpath(target):
        raise UserError(f'{target}: is both the input and the output')
    fitted = prediction.load(workdir.load(init_from), step)
    skipped = [] if skip_bad else None
    examples = unlabelled.read(fitted.task, source, skipped)
    long = [] if skip_bad else None
    try:
        answers = prediction.predict(fitted, examples, long)
    except UserError as error:
        raise UserError(f'{source}: {error}') from None
    results.write(target, answers)
    return answers, [*(skipped or ()), *(f'{source}: {message}' for message in long or ())]


def _define_flags():
    flags.DEFINE_string('init_from', None, 'directory of a fine-tuned run', required=True)
    flags.DEFINE_string('input', None, 'the rows: a file like those of the task, or .jsonl', required=True)
    flags.DEFINE_string('output', None, 'a file to write, JSON lines', required=True)
    flags.DEFINE_integer('step', None, 'a saved step (default: the best on dev)')
    flags.DEFINE_bool('skip_bad', False, 'leave bad rows out, and say how many; else the first one is an error')


def main():
    f = flags.FLAGS
    answers, bad = predict(f.init_from, f.input, f.output, f.step, f.skip_bad)
    cut = sum('cut' in answer for answer in answers)
    if bad:
        print(f'{len(bad):,} bad row(s) left out, the first: {bad[0]}')
    print(f'{len(answers):,} row(s), {cut:,} of them cut to the context: {f.output}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
