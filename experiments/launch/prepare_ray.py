"""Tokenizes a corpus (Section 4.1) on a Ray cluster, one task a part, and merges the parts.

    python -m experiments.launch.prepare_ray --out=/data/tokens --corpus=/data/fineweb \\
        --valid=0.01 \\
        --tokenizer=/data/vocabulary/tokenizer --parts=256

It runs on the cluster of RAY_ADDRESS, as inside `ray job submit`, or else on the cores of this
machine. All nodes have gpt1_jax[ray] installed and see the same files, or gs://BUCKET/... A part
takes one core. If its process or its node dies, Ray runs the part again, and it resumes where it
was. Make several parts a core, to keep all cores busy.
"""

import os

from absl import flags

from gpt1_jax import cli, prepare, storage
from gpt1_jax.data import sources
from gpt1_jax.data.parts import Part
from gpt1_jax.errors import UserError

RETRIES = 10  # for a part whose process died


def run(
    out: str, corpus: list[str], valid: str, tokenizer: str, text_field: str, parts: int
) -> dict:
    """Prepare all parts, and return the merged manifest.

    UserError if there is a mistake in the input, if a part dies more than RETRIES times, or if Ray
    is not installed. The other parts are then stopped.
    """
    try:
        import ray
    except ImportError:
        raise UserError("Ray is not installed: pip install 'gpt1_jax[ray]'") from None
    ray.init()
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(prepare.prepare)
    waiting = [
        task.remote(
            out, corpus, valid, tokenizer, processes=1, text_field=text_field, part=Part(i, parts)
        )
        for i in range(parts)
    ]
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            ray.get(done)
            print(f'{parts - len(waiting)} of {parts} parts', flush=True)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise UserError(*error.cause.args) from None
        raise
    except ray.exceptions.RayError as error:
        raise UserError(f'a part died more than {RETRIES} times ({error})') from None
    finally:
        ray.shutdown()
    return prepare.merge(out)


def _define_flags():
    flags.DEFINE_string(
        'out',
        None,
        'directory to write, on a file system that all nodes share, or gs://...',
        required=True,
    )
    flags.DEFINE_multi_string(
        'corpus', None, 'files, a directory or a pattern; may be given several times', required=True
    )
    flags.DEFINE_string(
        'valid', '0.01', 'the same for validation text, or the fraction of documents to hold out'
    )
    flags.DEFINE_string('tokenizer', None, 'a directory that holds a tokenizer', required=True)
    flags.DEFINE_string(
        'text_field', 'text', 'field of JSON lines, or column of Parquet, that holds the text'
    )
    flags.DEFINE_integer('parts', 64, 'how many parts', lower_bound=1)


def main() -> None:
    f = flags.FLAGS

    # From the root: Ray's processes work in other directories.
    def absolute(name):
        # A link keeps its name and extension
        return name if storage.remote(name) else os.path.join(os.getcwd(), name)

    out, tokenizer, *corpus = map(absolute, (f.out, f.tokenizer, *f.corpus))
    valid = f.valid if sources.fraction_of(f.valid) else absolute(f.valid)
    manifest = run(out, corpus, valid, tokenizer, f.text_field, f.parts)
    for split, entry in manifest['splits'].items():
        print(
            f'{split}: {entry["documents"]:,} documents, {entry["tokens"]:,} tokens, '
            f'{len(entry["shards"])} shards'
        )


if __name__ == '__main__':
    cli.run(main, _define_flags)
