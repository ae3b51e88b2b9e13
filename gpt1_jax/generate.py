"""Generate text from a prompt with a pretrained model. Not in the paper.

    gpt1 generate --init_from=runs/gpt1 --prompt='The old man looked at the sea' --top_k=40
    gpt1 generate --init_from=runs/gpt1 --prompt='Once' --samples=4 --stop='The end' \\
        --temperature=0.8

The text is lower-case, as the vocabulary is. Words are printed as they are generated, with several
samples only the words of the first sample. --temperature=0 is greedy decoding.
"""

from absl import flags

from gpt1_jax import cli
from gpt1_jax.data.detokenize import continued
from gpt1_jax.evaluation import load, text_generation
from gpt1_jax.evaluation.decoding import Sampling
from gpt1_jax.parallel import sharding
from gpt1_jax.weights import from_hub


def _define_flags():
    cli.define_model_flags()
    flags.DEFINE_string('prompt', None, 'the text to continue', required=True)
    flags.DEFINE_integer('tokens', 100, 'maximum number of tokens to generate')
    flags.DEFINE_integer('samples', 1, 'number of texts, generated in one batch')
    flags.DEFINE_float(
        'temperature', Sampling.temperature, 'the logits are divided by it; 0 = greedy decoding'
    )
    flags.DEFINE_integer(
        'top_k', Sampling.top_k, 'sample from the k most probable tokens; 0 = from all'
    )
    flags.DEFINE_float(
        'top_p',
        Sampling.top_p,
        'sample from the fewest tokens with this probability in all; 1 = from all',
    )
    flags.DEFINE_integer('seed', Sampling.seed, 'equal seeds give equal texts')
    flags.DEFINE_multi_string('stop', [], 'end before this string; may be given several times')


def main() -> None:
    f = flags.FLAGS
    how = Sampling(f.temperature, f.top_k, f.top_p, f.seed)
    run = load.open_pretrained(from_hub.local_run(f.init_from))
    step = run.step(f.step)
    tokenizer = run.tokenizer()
    mesh = sharding.make_mesh()
    ids = tokenizer.encode(f.prompt)
    prompt = tokenizer.decode(ids)
    model, params = load.pretrained(run, step, mesh)
    printed = ''

    def show(sample, text):
        nonlocal printed
        if sample == 0:
            whole = shown(0, text)
            print(whole[len(printed) :], end='', flush=True)
            printed = whole

    def shown(sample, text):
        """A sample with its prompt, below a line with its number if there are several samples."""
        heading = f'--- {sample + 1} of {f.samples}\n' if f.samples > 1 else ''
        return heading + continued(prompt, text)

    try:
        first, *others = text_generation.generate(
            model, params, mesh, tokenizer, ids, f.samples, f.tokens, how, f.stop, show
        )
    except KeyboardInterrupt:
        print()  # ends the line of text before the message
        raise
    show(0, first.text)  # only the prompt if no word follows it
    print()
    for sample, continuation in enumerate(others, 1):
        print(shown(sample, continuation.text))


if __name__ == '__main__':
    cli.run(main, _define_flags, ends_with_output=True)
