"""How fast text becomes tokens: characters, words and tokens a second for each core.

python -m experiments.benchmarks.tokenize --tokenizer=runs/gpt1 --corpus='books/*.txt' --characters=2000000

A part of the corpus is encoded in this one process (ftfy, the released standardisation, spaCy's words, SentencePiece);
`prepare` does the same in a process for every core. --rounds repeats it, to see what else the machine does.
"""
import statistics
import time
from collections.abc import Sequence

import jax
from absl import flags

from experiments.benchmarks import record
from experiments.lib.markdown import table
from gpt1_jax import cli
from gpt1_jax.data import corpus, encode
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError


def measure(tokenizer: Tokenizer, units: Sequence[encode.Unit], rounds: int) -> dict:
    """{'characters', 'tokens', 'seconds': of each round} of encoding these encode.Units, each round anew."""
    tokenizer.encode('a warm-up')  # loads spaCy and SentencePiece
    seconds = []
    for _ in range(rounds):
        tokens, began = 0, time.perf_counter()
        for unit in units:
            for part in unit.texts:
                tokens += len(tokenizer.encode(part.text, part.unescape_html))
        seconds.append(time.perf_counter() - began)
    return {'characters': sum(unit.characters for unit in units), 'tokens': tokens, 'seconds': seconds}


def _define_flags():
    flags.DEFINE_string('tokenizer', None, 'A run, or a directory with a tokenizer.')
    flags.DEFINE_string('corpus', None, 'Files, directories or globs, comma-separated.')
    flags.DEFINE_integer('characters', 1_000_000, 'About how much of it.', lower_bound=1)
    flags.DEFINE_integer('rounds', 3, 'How often.', lower_bound=1)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    if not f.tokenizer or not f.corpus:
        raise UserError("give --tokenizer=RUN and --corpus='FILES'")
    jax.config.update('jax_platforms', 'cpu')  # nothing is run
    tokenizer = Tokenizer.of(f.tokenizer)
    units, characters = [], 0
    for unit in encode.units(corpus.documents(f.corpus), min(encode.UNIT_CHARACTERS, f.characters)):
        units.append(unit)
        characters += unit.characters
        if characters >= f.characters:
            break
    found = measure(tokenizer, units, f.rounds)
    median = statistics.median(found['seconds'])
    print('\n'.join(table(
        ('characters', 'tokens', 'characters/s a core', 'tokens/s a core', 'range of tokens/s'),
        [(f"{found['characters']:,}", f"{found['tokens']:,}", f"{found['characters'] / median:,.0f}",
          f"{found['tokens'] / median:,.0f}", f"{found['tokens'] / max(found['seconds']):,.0f} to "
          f"{found['tokens'] / min(found['seconds']):,.0f}")])))
    record.write(f.out, found)


if __name__ == '__main__':
    cli.run(main, _define_flags)
