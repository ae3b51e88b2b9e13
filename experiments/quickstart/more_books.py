"""Counts the quickstart's trigram over many more books, and compares it with the model `novels`.

python -m experiments.quickstart.more_books --books=books/train --run=runs/quickstart \\
    --out=experiments/results/quickstart/more_books.json

`novels` has read 620 books, and the quickstart's own trigram six novels. This trigram counts the
six novels and all books of a directory. RUN is a finished quickstart, with its items and the
predictions of `novels`. The result has both accuracies, their paired difference, how many items'
sentences stand in the books, and the most memory that the program has taken.
"""

import pathlib
import resource
import sys

from absl import flags
from gpt1_jax.configs import quickstart as sizes

from experiments.paper import scores
from experiments.quickstart import __main__ as quickstart
from experiments.quickstart import novel_tasks, report, trigram
from gpt1_jax import cli, metrics, storage
from gpt1_jax.data import corpus
from gpt1_jax.runs import provenance, results

SAME = 8  # words: a text that has so many words of an item in their order has the item's sentence


def run(books: str, directory: pathlib.Path, out: pathlib.Path) -> dict:
    """Returns and writes the comparison. directory: of the quickstart."""
    novels = list(corpus.documents(corpus.NOVELS))
    test = {'test': (novels[quickstart.TEST :], sizes.get_config().examples.test)}
    items = {
        task: made['test'] for task, made in novel_tasks.write(directory / 'tasks', test).items()
    }
    of_items = set()
    for item in sum(items.values(), []):
        of_items |= _sequences(' '.join([*item.texts, *item.choices[item.label :][:1]]))
    about = {'books': 0, 'megabytes': 0.0}
    shared = set()

    def texts():
        for novel in novels[: quickstart.DEV]:
            yield novel.text
        for book in corpus.documents(books):
            about['books'] += 1
            about['megabytes'] += len(book.text.encode()) / 1e6
            shared.update(of_items & _sequences(book.text))
            yield book.text

    counts = trigram.count(texts())
    about |= {
        'words': int(counts.grams[0].before[-1]),
        'sequences of three words': len(counts.grams[2].keys),
        'sequences of eight words in the items': len(of_items),
        'of these in the books': len(shared),
    }
    for task, of_task in items.items():
        ids, gold, found = metrics.read_predictions(_of_novels(directory, task))
        assert ids == [item.id for item in of_task]
        ours = report.estimate(gold, found)
        counted = report.estimate(gold, trigram.scores(counts, of_task))
        difference = report.less(ours, counted)
        about[task] = {
            'novels': report.shown(ours),
            'trigram': report.shown(counted),
            'novels - trigram': scores.signed(difference),
            'novels against the trigram': report.verdict(difference),
        }
    unit = {'darwin': 1}.get(sys.platform, 1024)  # bytes, of ru_maxrss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    about['memory, GB'] = round(peak / 1e9, 2)
    about |= {'processor': report.processor()} | provenance.versions()
    storage.write_json(out, about)
    return about


def _sequences(text):
    """Returns all sequences of SAME words of a text."""
    spoken = trigram.words(text)
    return set(zip(*(spoken[place:] for place in range(SAME))))


def _of_novels(directory, task):
    """Returns the path of the predictions of `novels` in a quickstart."""
    if task != report.WORD_ORDER:
        return directory / f'{task}_{report.PACKAGED}' / 'predictions_test.jsonl'
    rows = results.read(directory / 'results.jsonl')
    ours = str(directory / 'pretrain')
    found = [row for row in rows if row['task'] == task and row['config']['init_from'] != ours]
    return pathlib.Path(found[-1]['predictions'])


def _define_flags():
    flags.DEFINE_string('books', None, 'files or a directory of books', required=True)
    flags.DEFINE_string('run', 'runs/quickstart', 'the directory of a finished quickstart')
    flags.DEFINE_string('out', None, 'a file to write, JSON', required=True)


def main() -> None:
    f = flags.FLAGS
    for name, value in run(f.books, pathlib.Path(f.run), pathlib.Path(f.out)).items():
        print(f'{name}: {value}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
