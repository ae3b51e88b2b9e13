"""Section 4.1: the perplexity of a pretrained model on any text (the paper's 18.4 on BooksCorpus).

    python -m gpt1_jax.perplexity --init_from=runs/gpt1 --text=books/valid
    python -m gpt1_jax.perplexity --init_from=runs/gpt1 --tokens=runs/gpt1/tokens --split=valid --stride=64
    python -m gpt1_jax.perplexity --init_from=runs/gpt1 --sentence='The cat sat on the mat.'

The text is one stream, as in pretraining: each document's tokens and one line break. A window is n_ctx tokens and, one
place on, their n_ctx targets; windows begin every `stride` tokens. The first one scores all its targets, which is all
but the text's first token; each other one its last `stride`, each of them after n_ctx - stride + 1 tokens at least.
With stride = n_ctx, the default, that is pretraining's validation perplexity, here over all of the text. A sentence
is scored as it is, no line break follows it, and each token's log-probability is printed; --per_token=FILE writes them
as JSON lines, of any text.
"""
import collections
import math
import time

import jax
import numpy as np
from absl import flags

from gpt1_jax import checkpoint, cli, results, scoring, sharding
from gpt1_jax.data import corpus
from gpt1_jax.data import tokens as tokens_lib
from gpt1_jax.errors import UserError

NOTE = ("note: the paper's 18.4 is per token of the published vocabulary on BooksCorpus: only a figure of that "
        'vocabulary and that text compares with it')


def evaluate(init_from, text=None, tokens=None, split='valid', step=None, stride=None, tokens_per_batch=4096,
             text_field='text', path=None, sentence=None, each=None):
    """The perplexity of a pretrained run on text, or on a split of prepared tokens; appends to results.jsonl, returns
    the row (a sentence's is returned alone).

    text:   a spec or several, see data/corpus.py. tokens: a prepared directory, of the run's vocabulary, and its split.
    step:   a saved update; default the latest. stride: from 1 to n_ctx, the default.
    path:   of results.jsonl; default the run's, and of a sentence none.
    sentence: a text itself, instead of `text`. each: called with `token_rows`: every token's log-probability.
    The row has the perplexity per token as 'value'; 'per_word', a word being what white space separates; and
    'bits_per_byte' of the documents' UTF-8. Both are over all words and bytes of the text, and None for tokens, which
    no longer know them. Letter case and the kind of white space cost nothing: the vocabulary drops them.
    UserError for a mistake in any of these.
    """
    if sum(map(bool, (text, tokens, sentence is not None))) != 1:
        raise UserError('give either --text=FILES or --tokens=DIR or --sentence=TEXT')
    results.check(path)
    run, started = scoring.open_pretrained(init_from), time.perf_counter()
    step, tokenizer, mesh, n_ctx = run.step(step), run.tokenizer(), sharding.make_mesh(), run.config['model']['n_ctx']
    stride = n_ctx if stride is None else stride
    if not 1 <= stride <= n_ctx:
        raise UserError(f'stride = {stride}, must be from 1 to the context, {n_ctx}')
    if sentence is not None:
        ids, counts, files = np.array(tokenizer.encode(sentence), np.int32), _counts(sentence), {}
        _check_length(len(ids))
    elif text:
        ids, counts = stream(tokenizer, text, text_field)
        files = results.file_hashes([source for source in corpus.sources(text) if corpus.is_file(source)])
    else:
        ids, counts, files = _prepared(tokens, split, tokenizer)
    model, params = scoring.restore(run, step, mesh)
    logs = scoring.by_token(model, params, mesh, ids, stride, tokens_per_batch)
    nats, scored = -float(logs.sum()), len(logs)
    if each is not None:
        each(token_rows(tokenizer, ids, logs))
    row = {
        'kind': 'perplexity', 'task': 'perplexity', 'split': split if tokens else None, 'n': scored,
        'metric': 'perplexity', 'value': _exp(nats / scored),
        'per_word': None if tokens else _exp(nats / counts['words']),
        'bits_per_byte': None if tokens else nats / math.log(2) / counts['bytes'],
        'n_ctx': n_ctx, 'stride': stride, **counts, 'tokens': len(ids),
        'unknown': int(np.count_nonzero(ids == tokenizer.unk_id)), 'step': step, 'run': str(run.path),
        'digest': checkpoint.params_digest(checkpoint.read_meta(run.checkpoints, step)), 'files': files,
        'text': sentence or text or str(tokens), 'seconds': round(time.perf_counter() - started, 1),
        'device': jax.devices()[0].device_kind, **results.versions()}
    if path or sentence is None:  # a sentence is asked in passing
        results.append_new(path or run.results, [row])
    return row


def stream(tokenizer, spec, text_field='text'):
    """(int32[n] ids, {'documents', 'words', 'bytes'}) of a corpus spec, laid end to end as pretraining does.

    UserError where there are less than two tokens of text.
    """
    found, counts = [], collections.Counter()
    for document in corpus.documents(spec, text_field):
        ids = tokenizer.encode(document.text)
        counts.update(_counts(document.text))
        if ids:  # a blank document ends in no line break
            found.append(np.array([*ids, tokenizer.newline_id], np.int32))
    _check_length(sum(map(len, found)) - len(found))
    return np.concatenate(found), dict(counts)


def score(model, params, mesh, ids, stride, tokens_per_batch=4096):
    """(nats, targets): minus the log-probability of all tokens of int[n] after the first, and their number, n - 1."""
    logs = scoring.by_token(model, params, mesh, ids, stride, tokens_per_batch)
    return -float(logs.sum()), len(logs)


def token_rows(tokenizer, ids, logs):
    """[{"place", "id", "token", "log_probability"}]: of the first token None. A token that ends a word ends in a space.

    ids: int[n]. logs: float[n - 1], nats.
    """
    return [{'place': place, 'id': int(token), 'token': tokenizer.piece(int(token)), 'log_probability': log}
            for place, (token, log) in enumerate(zip(ids, [None, *logs.tolist()], strict=True))]


def _prepared(directory, split, tokenizer):
    """(ids, counts, fingerprint) of a prepared directory's split."""
    manifest = tokens_lib.read_manifest(directory)
    if manifest['tokenizer'] != tokenizer.fingerprint:
        raise UserError(f"{directory}: tokens of another vocabulary than the pretrained run's")
    found = tokens_lib.open_split(directory, split)
    if found.n_tokens < 2:
        raise UserError(f'{directory} ({split}): {found.n_tokens} token(s), at least two are needed')
    counts = {'documents': manifest['splits'][split]['documents'], 'words': None, 'bytes': None}
    return np.concatenate(found.shards), counts, {'tokens': manifest['fingerprint']}


def _counts(text):
    return {'documents': 1, 'words': len(text.split()), 'bytes': len(text.encode('utf-8', 'surrogatepass'))}


def _check_length(n):
    if n < 2:
        raise UserError(f'the text has {n} token(s): at least two are needed, one to predict and one before it')


def _exp(x):
    return math.exp(min(x, 700))


def _define_flags():
    flags.DEFINE_string('init_from', None, 'directory of a pretrained run', required=True)
    flags.DEFINE_integer('step', None, 'a saved update (default: the latest)')
    flags.DEFINE_multi_string('text', None, 'a file, directory, pattern, tfds:NAME:SPLIT[:FIELD] or "documentation"; '
                              'may be given several times')
    flags.DEFINE_string('sentence', None, 'a text itself, instead of files')
    flags.DEFINE_string('per_token', None, "a file to write, JSON lines: each token's log-probability")
    flags.DEFINE_string('text_field', 'text', 'field of a .jsonl record that holds its text')
    flags.DEFINE_string('tokens', None, 'a prepared directory, instead of text')
    flags.DEFINE_string('split', 'valid', 'with --tokens: its split')
    flags.DEFINE_integer('stride', None, "tokens from a window's begin to the next's (default: the context)")
    flags.DEFINE_integer('tokens_per_batch', 4096, 'scored at once', lower_bound=1)


def main():
    f = flags.FLAGS
    results.check(f.per_token)

    def each(rows):
        if f.sentence is not None:
            for row in rows:
                log = row['log_probability']
                print(f'{row["token"]!r:20} {"" if log is None else f"{log:9.4f}"}'.rstrip())
        if f.per_token:
            results.write(f.per_token, rows)

    row = evaluate(f.init_from, f.text, f.tokens, f.split, f.step, f.stride, f.tokens_per_batch, f.text_field,
                   sentence=f.sentence, each=each)
    size = '' if row['words'] is None else f', {row["words"]:,} words, {row["bytes"]:,} bytes of UTF-8'
    unknown = row['unknown'] / row['tokens']
    print(f'{row["documents"]:,} document(s), {row["tokens"]:,} tokens ({unknown:.3%} unknown){size}')
    print(f'step {row["step"]:,}, windows of {row["n_ctx"]:,} tokens at stride {row["stride"]:,}: '
          f'{row["n"]:,} tokens scored')
    print(f'perplexity per token {row["value"]:.3f}')
    if row['words'] is None:
        print('perplexity per word and bits per byte: n/a, prepared tokens do not know their text')
    else:
        print(f'perplexity per word {row["per_word"]:.3f} (words as white space separates them)')
        print(f'bits per byte {row["bits_per_byte"]:.4f}')
    print(NOTE)


if __name__ == '__main__':
    cli.run(main, _define_flags)
