"""Section 3.2: predict labels, scores or choices for unlabelled rows with a fine-tuned run.

    gpt1 predict --init_from=runs/cola --input=new.tsv --output=predictions.jsonl

The input is a file in the task's layout, or, for any task, a .jsonl file with one row on each line:
{"id": "a", "texts": ["One text, or two."]}, for multiple choice with "choices": ["One.", "Two."].
The output has one line for each row, in the same order: {"id": "a", "label": "1", "probabilities":
{"0": 0.1, "1": 0.9}}, or "score". An output that ends in .csv or .tsv is a table with the columns
of the input and `prediction`, which is the label or the score. It is UTF-8. If it is not ASCII, it
begins with the mark by which Excel knows UTF-8.
"""

import csv
import functools
import io
import pathlib

from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.data import rows as rows_lib
from gpt1_jax.data.tasks import unlabelled
from gpt1_jax.errors import UserError, refuse
from gpt1_jax.evaluation import fine_tuned, load
from gpt1_jax.runs import results, workdir
from gpt1_jax.weights import from_hub

TABLES = {'.csv': ',', '.tsv': '\t'}
COLUMN = 'prediction'


def run(
    init_from: str | storage.Path,
    source: str,
    target: str | storage.Path,
    step: int | None = None,
    skip_bad: bool = False,
    encoding: str | None = None,
) -> tuple[list[dict], list[str]]:
    """Predict the rows of a file. Returns (answers, messages of the bad rows that are left out).

    init_from: a fine-tuned run.
    source:    the file to read.
    target:    the file to write.
    step:      a saved step, by default the best on dev.
    skip_bad:  leave bad rows out.
    encoding:  of a table, by default the encoding of the run's tables.
    UserError for a mistake in any of these, naming the file and the row.
    """
    target = storage.path(target)
    results.check(target)
    if not storage.remote(target) and target.resolve() == pathlib.Path(source).resolve():
        raise UserError(f'{target}: is both the input and the output')
    if pathlib.Path(source).exists() and not pathlib.Path(source).is_file():
        raise UserError(
            f'{source}: is not a file; a pipe is not read, because rows are read several times'
        )
    tuned = load.fine_tuned(workdir.load(from_hub.local_run(init_from)), step, encoding)
    delimiter = TABLES.get(target.suffix.lower())
    unreadable: list[str] = []
    too_long: list[str] = []
    on_bad = functools.partial(refuse, option='--skip_bad')
    examples = unlabelled.read(tuned.task, source, unreadable.append if skip_bad else on_bad)
    records = {example.id: example.record or {} for example in examples}
    if delimiter and any(COLUMN in record for record in records.values()):
        raise UserError(f'{source}: has a column {COLUMN!r} already: give it another name')
    try:
        answers = fine_tuned.predict(tuned, examples, too_long.append if skip_bad else on_bad)
    except UserError as error:
        raise UserError(f'{source}: {error}') from None
    if delimiter:
        storage.write(target, _table(answers, records, delimiter), follow=True)
    else:
        results.write(target, answers, follow=True)
    return answers, unreadable + [f'{source}: {message}' for message in too_long]


def _table(answers, records, delimiter):
    """The bytes of a table: for each answer its record, {column: value}, and the prediction."""
    rows = []
    for answer in answers:
        record = records[answer['id']]
        # A text as it is, with its spaces
        cells = {
            name: value if isinstance(value, str) else rows_lib.of_cell(value)
            for name, value in record.items()
        }
        rows.append(cells | {COLUMN: answer.get('label', answer.get('score'))})
    columns = dict.fromkeys(name for row in rows for name in row if name != COLUMN)
    file = io.StringIO()
    table = csv.DictWriter(
        file, [*columns, COLUMN], restval='', delimiter=delimiter, lineterminator='\n'
    )
    table.writeheader()
    table.writerows(rows)
    text = file.getvalue()
    # Excel reads a table as UTF-8 only if it begins with a mark
    encoding = 'utf-8' if text.isascii() else 'utf-8-sig'
    return text.encode(encoding, 'backslashreplace')  # as in JSON lines


def _define_flags():
    flags.DEFINE_string('init_from', None, 'directory of a fine-tuned run', required=True)
    flags.DEFINE_string(
        'input', None, 'the rows: a file in the layout of the task, or .jsonl', required=True
    )
    flags.DEFINE_string(
        'output',
        None,
        'a file to write: a table with the columns of the input (.csv, .tsv), else JSON lines',
        required=True,
    )
    flags.DEFINE_integer('step', None, 'a saved step (default: the best on dev)')
    flags.DEFINE_bool(
        'skip_bad',
        False,
        'leave bad rows out and print how many; by default the first one is an error',
    )
    flags.DEFINE_string(
        'encoding', None, 'the encoding of a table (default: as in training); the output is UTF-8'
    )


def main() -> None:
    f = flags.FLAGS
    answers, bad = run(f.init_from, f.input, f.output, f.step, f.skip_bad, f.encoding)
    cut = sum('cut' in answer for answer in answers)
    if bad:
        print(f'{len(bad):,} bad row(s) left out, the first: {bad[0]}')
    print(f'{len(answers):,} row(s), {cut:,} of them cut to the context: {f.output}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
