"""Section 4.1: turns text into a vocabulary and token shards for pretraining.

    gpt1 prepare --out=DIR --corpus=books --valid=0.01  # learns 40,000 merges
    gpt1 prepare --out=DIR --corpus=books --valid=valid_books --tokenizer=published \\
        --encoder=encoder_bpe_40000.json --bpe=vocab_40000.bpe  # the released vocabulary

    gpt1 prepare --out=DIR --corpus=books --valid=0.01 --tokenizer=VOCABULARY --part=2/8
    gpt1 prepare --out=DIR --merge  # once all eight are there

DIR then holds tokenizer/, train/ and valid/ (uint16 shards) and, written last, manifest.json. If
the command is killed, the same command resumes. If it has finished, the same command compares the
text and the shards with the manifest and repairs damaged files. It does not need jax.
"""

from typing import Any

from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.data import merging, parts
from gpt1_jax.data import prepare as data_prepare
from gpt1_jax.data.sources import Source
from gpt1_jax.data.tokenizer import MODEL_FILE
from gpt1_jax.errors import UserError
from gpt1_jax.runs import lock


def prepare(
    out: str | storage.Path,
    corpus: Source,
    valid: Source | float,
    tokenizer: Any = 'train',
    **fields,
) -> dict[str, Any]:
    """Writes a prepared directory and returns its manifest.

    tokenizer: also the name of a model (weights/from_hub.py). fields: of
    data.prepare.PrepareConfig. UserError as there, and as in data.prepare.prepare.
    """
    if (
        isinstance(tokenizer, str)
        and tokenizer not in ('train', 'published')
        and not any(
            # As load
            (storage.path(tokenizer) / place / MODEL_FILE).exists()
            for place in ('', 'tokenizer')
        )
    ):
        from gpt1_jax.weights import from_hub  # imports jax, which files do not need

        tokenizer = from_hub.local_tokenizer(tokenizer)
    config = data_prepare.PrepareConfig(corpus, valid, tokenizer, **fields)
    return data_prepare.prepare(config, storage.path(out), lock.hold)


def merge(out: str | storage.Path) -> dict[str, Any]:
    """Merges the parts in a directory (data/merging.py), and returns the manifest.

    UserError as there, and if another process works in the directory.
    """
    out = storage.path(out)
    with lock.hold(out):
        return merging.merge(out)


def _define_flags():
    flags.DEFINE_string('out', None, 'directory to write', required=True)
    flags.DEFINE_multi_string(
        'corpus',
        None,
        'a file, directory, pattern, tfds:NAME:SPLIT[:FIELD] or "novels"; may be given several '
        'times',
    )
    flags.DEFINE_multi_string(
        'valid', None, 'the same for validation text, or the fraction of documents to hold out'
    )
    flags.DEFINE_string(
        'tokenizer',
        'train',
        'train, published, a directory that holds a tokenizer, or a model: a run, novels, '
        'hf:USER/NAME',
    )
    flags.DEFINE_string('encoder', None, 'for --tokenizer=published: encoder_bpe_40000.json')
    flags.DEFINE_string('bpe', None, 'for --tokenizer=published: vocab_40000.bpe')
    flags.DEFINE_integer('merges', None, 'for --tokenizer=train: merges to learn (40000)')
    flags.DEFINE_integer(
        'vocab_size', None, 'for --tokenizer=train: rows of the vocabulary, instead of merges'
    )
    flags.DEFINE_integer(
        'tokenizer_characters',
        None,
        'for --tokenizer=train: learn from documents chosen by hash, with at most so many '
        'characters (default: all)',
    )
    flags.DEFINE_integer('processes', None, 'processes to tokenize with (default: one a core)')
    flags.DEFINE_bool(
        'verify', True, 'of a finished directory: compare the contents of text and shards as well'
    )
    cli.define_row_flags()
    flags.DEFINE_bool(
        'split_files',
        None,
        'read, or leave out, files in a directory that are named as validation or test data '
        '(default: read them, with a notice)',
    )
    flags.DEFINE_bool(
        'skip_bad',
        False,
        'leave rows without a text out and print how many; by default the first one is an error',
    )
    flags.DEFINE_string(
        'part',
        None,
        f'I/N: prepare part I, from 0, of N alone; /N: I is ${parts.KUBERNETES} or ${parts.SLURM}',
    )
    flags.DEFINE_bool('merge', False, 'merge the parts in --out; nothing else needs to be given')


def main() -> None:
    f = flags.FLAGS
    if not f.out:  # an unset variable of the shell
        raise UserError('--out is empty')
    if f.merge:
        if f.corpus or f.valid or f.part:
            raise UserError('--merge takes --out alone: what the parts were made from is known')
        manifest = merge(f.out)
    else:
        if not f.corpus or f.valid is None:
            raise UserError(
                'give --corpus=TEXT and --valid=TEXT or a fraction of the documents, or --merge'
            )
        valid = f.valid[0] if len(f.valid) == 1 else f.valid
        manifest = prepare(
            f.out,
            f.corpus,
            valid,
            f.tokenizer,
            encoder=f.encoder,
            bpe=f.bpe,
            merges=f.merges,
            vocab_size=f.vocab_size,
            processes=f.processes,
            text_field=f.text_field,
            verify=f.verify,
            join=cli.join(),
            characters=f.tokenizer_characters,
            part=parts.parse(f.part),
            split_files=f.split_files,
            skip_bad=f.skip_bad,
        )
    for split, entry in manifest['splits'].items():
        print(
            f'{split}: {entry["documents"]:,} documents, {entry["tokens"]:,} tokens, '
            f'{entry["unknown"]:,} unknown, {len(entry["shards"])} shards'
        )
    print(
        f'{f.out}: vocabulary of {manifest["vocab_size"]:,} rows, fingerprint '
        f'{manifest["fingerprint"][:16]}'
    )


if __name__ == '__main__':
    cli.run(main, _define_flags)
