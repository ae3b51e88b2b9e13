"""Generate text from a prompt with a pretrained model. Not in the paper.

    gpt1 generate --init_from=runs/gpt1 --prompt='The old man looked at the sea' --top_k=40
    gpt1 generate --init_from=runs/gpt1 --prompt='Once' --samples=4 --stop='The end' --temperature=0.8

The text is lower-case, as the vocabulary is. Words are printed as they are generated; with several samples, those of
the first one. --temperature=0 is greedy decoding.
"""
from absl import flags

from gpt1_jax import cli
from gpt1_jax.data.detokenize import readable
from gpt1_jax.evaluation import load, text_generation
from gpt1_jax.evaluation.decoding import Sampling
from gpt1_jax.parallel import sharding
from gpt1_jax.weights import from_hub


def _define_flags():
    how = Sampling()
    cli.define_model_flags()
    flags.DEFINE_string('prompt', None, 'the text to continue', required=True)
    flags.DEFINE_integer('tokens', 100, 'maximum number of tokens to generate')
    flags.DEFINE_integer('samples', 1, 'number of texts, generated in one batch')
    flags.DEFINE_float('temperature', how.temperature, 'the logits are divided by it; 0 = greedy decoding')
    flags.DEFINE_integer('top_k', how.top_k, 'sample from the k most probable tokens; 0 = from all')
    flags.DEFINE_float('top_p', how.top_p, 'sample from the fewest tokens with this probability in all; 1 = from all')
    flags.DEFINE_integer('seed', how.seed, 'equal seeds give equal texts')
    flags.DEFINE_multi_string('stop', [], 'end before this string; may be given several times')


def main() -> None:
    f = flags.FLAGS
    how = Sampling(f.temperature, f.top_k, f.top_p, f.seed)
    run = load.open_pretrained(from_hub.local_run(f.init_from))
    step = run.step(f.step)
    tokenizer = run.tokenizer()
    mesh = sharding.make_mesh()
    prompt = tokenizer.decode(text_generation.encode(tokenizer, [f.prompt])[0])
    text_generation.stop_forms(tokenizer, f.stop)  # fails before the model is read
    model, params = load.pretrained(run, step, mesh)
    decoded = printed = ''

    def show(_, sample, text):
        nonlocal decoded, printed
        if sample > 0:
            return
        if not printed:  # the prompt waits for the first word, as notices come before it
            print(heading(0, f.samples), end='')
            text = prompt + after(text)
        decoded += text
        whole = readable(decoded)
        print(whole[len(printed):], end='', flush=True)
        printed = whole

    try:
        found, = text_generation.generate(model, params, mesh, tokenizer, [f.prompt], f.tokens, how, f.samples, f.stop,
                                          show)
    except KeyboardInterrupt:
        print()  # ends the line of text before the message
        raise
    print('' if printed else heading(0, f.samples) + readable(prompt))
    for sample, continuation in enumerate(found[1:], 1):
        print(heading(sample, f.samples) + readable(prompt + after(continuation.text)))


def heading(sample: int, samples: int) -> str:
    """The line above a sample where there are several."""
    return f'--- {sample + 1} of {samples}\n' if samples > 1 else ''


def after(text: str) -> str:
    """A continuation as it is printed after its prompt."""
    return text if text.startswith('\n') or not text else f' {text}'


if __name__ == '__main__':
    cli.run(main, _define_flags, ends_with_output=True)
