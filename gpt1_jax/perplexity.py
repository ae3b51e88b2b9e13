"""Section 4.1: the perplexity of a pretrained model on any text (the paper's 18.4 on BooksCorpus).

    gpt1 perplexity --init_from=runs/gpt1 --text=books/valid
    gpt1 perplexity --init_from=runs/gpt1 --tokens=runs/gpt1/tokens --split=valid --stride=64

The text is one stream, as in pretraining: each document's tokens and one line break. A window of
n_ctx tokens starts every `stride` tokens. The first window scores all its targets. Each later
window scores its last `stride` targets, which have at least n_ctx - stride + 1 tokens of context.
With stride = n_ctx, the default, the result is pretraining's validation perplexity, over the whole
text. The log-probabilities of a text's tokens are `gpt1_jax.load(RUN).score(TEXT)` in Python.
"""

import collections
import time
from collections.abc import Sequence

import numpy as np
from absl import flags

from gpt1_jax import cli, metrics, rules, storage
from gpt1_jax.data import corpus, prepared
from gpt1_jax.data import files as files_lib
from gpt1_jax.data.corpus import Join
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, log_probs
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import provenance, results
from gpt1_jax.weights import from_hub


def evaluate(
    init_from: str,
    text: str | Sequence[str] | None = None,
    tokens: str | None = None,
    split: str = 'valid',
    step: int | None = None,
    stride: int | None = None,
    tokens_per_batch: int = 4096,
    text_field: str = 'text',
    join: Join = Join(),
) -> dict:
    """Measures the perplexity of a pretrained run on text or on prepared tokens.

    The result, a row, is printed, appended to the run's results.jsonl, and returned.
    text:          one or several specs, see data/corpus.py. Exactly one of `text` and `tokens`.
    tokens, split: a prepared directory with the run's vocabulary, and its split.
    step:          a saved step, by default the latest.
    stride:        from 1 to n_ctx, the default.
    join:          which rows of the text form a document (data/corpus.py).
    The row has the perplexity per token as 'value', the perplexity 'per_word' (white space
    separates words), and 'bits_per_byte' of the documents' UTF-8. The last two are over all words
    and bytes of the text. The vocabulary has no letter case and only one kind of white space, so no
    figure says how well the model would predict case and white space. UserError for a mistake in
    any argument.
    """
    if bool(text) == bool(tokens):
        raise UserError('give either --text=FILES or --tokens=DIR')
    run = load.open_pretrained(from_hub.local_run(init_from))
    started = time.perf_counter()
    step = run.step(step)
    tokenizer = run.tokenizer()
    n_ctx = run.config['model']['n_ctx']
    stride = n_ctx if stride is None else stride
    rules.require({'stride': (stride, rules.whole(1, n_ctx))})
    if tokens:
        ids, counts, files = _prepared(tokenizer, storage.path(tokens), split)
    else:
        ids, counts, files = _files(tokenizer, text, text_field, join)
    own = max(0, len(ids) - bool(text))  # without the line break that follows a document
    if own < 2:
        raise UserError(
            f'the text has {own} token(s): at least two are needed, one to predict and one before '
            'it'
        )
    mesh = sharding.make_mesh()
    model, params = load.pretrained(run, step, mesh)
    logs = log_probs.by_token(model, params, mesh, ids, stride, tokens_per_batch)
    nats = -float(logs.sum())
    row = {
        'kind': 'perplexity',
        'task': 'perplexity',
        'split': split if tokens else None,
        'n': len(logs),
        'metric': 'perplexity',
        'value': metrics.perplexity(nats / len(logs)),
        'per_word': metrics.perplexity(nats / counts['words']),
        'bits_per_byte': metrics.bits_per_byte(nats, counts['bytes']),
        'n_ctx': n_ctx,
        'stride': stride,
        **counts,
        'tokens': len(ids),
        'unknown': int(np.count_nonzero(ids == tokenizer.unk_id)),
        'files': files,
        'text': text or str(tokens),
        'seconds': round(time.perf_counter() - started, 1),
        **run.origin(step),
    }
    _print(row)  # first, so that the row is not lost if nothing can be written
    results.append_new(run.results, [row])
    if run.outputs != run.path:
        print(f'row in {run.results}')
    return row


def _files(tokenizer, spec, text_field, join) -> tuple[np.ndarray, dict, dict]:
    """(int32 ids, {'documents', 'words', 'bytes'}, {file: hash}) of a corpus spec.

    The documents follow each other as in pretraining.
    """
    found = [np.zeros(0, np.int32)]
    counts: collections.Counter[str] = collections.Counter()
    for document in corpus.documents(spec, text_field, join):
        ids = tokenizer.encode(document.text)
        counts['documents'] += 1
        counts['words'] += corpus.count_words(document)
        counts['bytes'] += len(document.utf8)
        if ids:  # no line break follows a blank document
            found.append(np.array([*ids, tokenizer.newline_id], np.int32))
    files = filter(files_lib.is_file, corpus.expand(spec))
    return np.concatenate(found), dict(counts), provenance.file_hashes(files)


def _prepared(tokenizer, directory, split) -> tuple[np.ndarray, dict, dict]:
    manifest = prepared.read_manifest(directory, tokenizer.fingerprint)
    shards = prepared.open_split(directory, split, verify=True).shards
    counts = {name: manifest['splits'][split][name] for name in ('documents', 'words', 'bytes')}
    return np.concatenate(shards), counts, {'tokens': manifest['fingerprint']}


def _define_flags():
    cli.define_model_flags()
    flags.DEFINE_multi_string(
        'text',
        None,
        'a file, directory, pattern, tfds:NAME:SPLIT[:FIELD] or "novels"; may be given several '
        'times',
    )
    cli.define_row_flags()
    flags.DEFINE_string('tokens', None, 'a prepared directory, instead of text')
    flags.DEFINE_string('split', None, 'with --tokens: its split (default: valid)')
    flags.DEFINE_integer(
        'stride', None, "tokens from a window's start to the next's (default: the context)"
    )
    flags.DEFINE_integer('tokens_per_batch', 4096, 'tokens in a batch', lower_bound=1)


def main() -> None:
    f = flags.FLAGS
    if f.split and not f.tokens:
        raise UserError('--split goes with --tokens=DIR: a text is scored whole')
    evaluate(
        f.init_from,
        f.text,
        f.tokens,
        f.split or 'valid',
        f.step,
        f.stride,
        f.tokens_per_batch,
        f.text_field,
        join=cli.join(),
    )


def _print(row):
    unknown = row['unknown'] / row['tokens']
    print(
        f'{row["documents"]:,} document(s), {row["tokens"]:,} tokens ({unknown:.3%} unknown), '
        f'{row["words"]:,} words, {row["bytes"]:,} bytes of UTF-8'
    )
    print(
        f'step {row["step"]:,}, windows of {row["n_ctx"]:,} tokens at stride {row["stride"]:,}: '
        f'{row["n"]:,} tokens scored'
    )
    print(f'perplexity per token {row["value"]:.3f}')
    print(f'perplexity per word {row["per_word"]:.3f} (words are separated by white space)')
    print(f'bits per byte {row["bits_per_byte"]:.4f}')
    print(
        "note: the paper's 18.4 is per token of the published vocabulary on BooksCorpus: it "
        'compares only with a perplexity of that vocabulary on that text'
    )


if __name__ == '__main__':
    cli.run(main, _define_flags, ends_with_output=True)
