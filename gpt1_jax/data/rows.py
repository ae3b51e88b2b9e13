"""Section 3.3: the rows of a split, read, chosen and encoded; each only once in a process."""

from gpt1_jax.data import inputs
from gpt1_jax.data.tokens import permutation
from gpt1_jax.errors import UserError

_CACHE: dict = {}  # a sweep fine-tunes on the same rows many times
CACHED = 24        # splits kept at most


def load(task, directory, split, tokenizer, n_ctx, hashes, limit=None, skip_bad=False):
    """The Encoded rows of a split, in the file's order.

    hashes: of the split's files (results.file_hashes): what was read before is used again as long as they are the same.
    limit: at most so many rows, chosen once and for all seeds alike. skip_bad: leave bad rows out and say how many;
    else UserError names the first.
    """
    key = (task, str(directory), split, tokenizer.fingerprint, n_ctx, tuple(sorted(hashes.items())), limit, skip_bad)
    if key not in _CACHE:
        while len(_CACHE) >= CACHED:
            _CACHE.pop(next(iter(_CACHE)))
        _CACHE[key] = _read(task, directory, split, tokenizer, n_ctx, limit, skip_bad)
    return _CACHE[key]


def choose(examples, limit):
    """A seeded subset of at most `limit` of a list, in its order; all of it without a limit."""
    if limit is None or limit >= len(examples):
        return examples
    return [examples[i] for i in sorted(permutation(0, 0, len(examples))[:limit])]


def check_split(task, split, labelled=False):
    """UserError where a task has no such split, or none with labels."""
    if split in task.unlabelled and labelled:
        raise UserError(f'{task.name}: split {split!r} has no labels')
    if split not in task.splits + task.unlabelled:
        raise UserError(f'{task.name} has no split {split!r} (there are {", ".join(task.splits + task.unlabelled)})')


def _read(task, directory, split, tokenizer, n_ctx, limit, skip_bad):
    skipped = [] if skip_bad else None
    examples = task.read(directory, split, skipped)
    if split not in task.unlabelled and any(example.label is None for example in examples):
        row = next(example.id for example in examples if example.label is None)
        raise UserError(f'{task.name}: row {row} has no label')
    found = inputs.encode_all(choose(examples, limit), task, tokenizer, n_ctx, skipped)
    if skipped:
        print(f'{task.name} {split}: {len(skipped):,} bad row(s) left out, the first: {skipped[0]}', flush=True)
    return found
