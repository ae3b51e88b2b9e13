"""Finds what bounds the real pretraining step on a TPU slice or GPU that you do not have.

python -m experiments.benchmarks.roofline --topology=v5e:1x1 --rows=16 \\
    --config=configs/pretrain.py \\
    --config.model.dtype=bfloat16

It prints milliseconds, MFU, bytes and memory. It needs `pip install 'jax[tpu]'` for TPUs (v4, v5e,
v5p, v6e) or `jax[cuda13]` for an H200, and no hardware. The step is compiled as pretraining
compiles it, and its kernels are added up by roofline: each kernel takes as long as its bytes at the
chip's memory bandwidth or its matrix products at the chip's bfloat16 peak, whichever is longer.
Kernels run one after the other. No step is faster.

For a GPU all matrix products are cuBLASLt's, as in training.
--options=xla_gpu_enable_triton_gemm=true uses Triton's, into which XLA fuses other operations. On
the device XLA would then time both and choose for each product.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
from absl import flags
from ml_collections import ConfigDict

from experiments.benchmarks import record
from experiments.compile import check, chips, hlo
from experiments.compile.kernels import Kernel, kernels
from gpt1_jax import cli, rules
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import step_cost
from gpt1_jax.pretraining import RULES
from gpt1_jax.runs.markdown import table

# Parts of the model, each with words in the names of its operations. A kernel belongs to the first
# part that fits its own name, or else to the first part that fits the names of the operations fused
# into it.
PARTS = (
    ('residual and norm', ('/ln_',)),
    ('loss', ('td,rd', 'jvp()')),
    (
        'attention',
        ('/attn/blhe', '/attn/bhlm', '/attn/softmax', '/attn/jit', '/attn/self', 'pallas_call'),
    ),
    ('attention projections', ('/attn/',)),
    ('mlp', ('/mlp/',)),
    ('embedding', ('/embed/',)),
)


def costs(found: Sequence[Kernel], chip: chips.Chip) -> list[dict]:
    """Returns the kernels of a step as rows, the most expensive over all executions first.

    A row has the kernel's fields, 'part', and 'roofline', the least seconds of one execution.
    """
    rows = []
    for one in found:
        # A collective waits for links, see hlo.exposed
        moved = 0 if one.kind == 'collective' else one.bytes
        row = dataclasses.asdict(one) | {
            'part': part_of(one),
            'roofline': max(moved / chip.bandwidth, one.flops / chip.peak),
        }
        del row['inside']
        rows.append(row)
    return sorted(rows, key=lambda row: -row['times'] * row['roofline'])


def measure(
    config: ConfigDict,
    topology: str,
    rows: int,
    vocab_size: int = 40478,
    options: Mapping[str, bool | str] | None = None,
) -> dict:
    """Compile the config's step for a slice, `rows` windows a chip, and add up its kernels.

    options: XLA's flags for this compilation. Returns {'topology', 'rows', 'ideal' and 'roofline':
    seconds, 'bytes': {kind: bytes of a step}, 'memory': bytes a chip holds, 'parts': {part:
    {'bytes', 'flops', 'roofline'}}, 'kernels': rows, most expensive first, ...}. For several chips
    it also has 'exchange': {'least', 'most'}, hlo.exposed with all of a chip's links in use at
    once, or only the links of one axis. UserError as in check.fitting_step.
    """
    config = config.copy_and_resolve_references()
    chip, shape = chips.parse(topology)
    mesh = check.mesh_of(config, topology)
    config.batch.size = rows * mesh.size * config.batch.microbatches
    rules.validate(config, RULES)
    model = check.backbone_of(config, vocab_size)
    step = check.fitting_step(config, topology, model, mesh, options)
    tokens = config.batch.size * model.config.n_ctx // mesh.size
    ideal = (
        step_cost.flops_per_token(step.program.state.params, model.config.n_ctx)
        * tokens
        / chip.peak
    )
    found = {
        'topology': topology,
        'chips': mesh.size,
        'rows': rows,
        'microbatches': config.batch.microbatches,
        'n_ctx': model.config.n_ctx,
        'dtype': config.model.dtype,
        'compiler': chips.compiler(chip),
        'options': dict(options or {}),
        'compile_seconds': round(sum(step.seconds), 1),
        'memory': step.memory['in all'],
    }
    found |= summary(step.text, chip, ideal)
    if mesh.size > 1:
        beside = {row['instruction']: row['roofline'] for row in found['kernels']}
        found['exchange'] = {
            name: hlo.exposed(
                step.text,
                mesh.size,
                beside,
                lambda sent, place=place: chips.link_seconds(chip, shape, sent)[place],
            )
            for place, name in enumerate(('least', 'most'))
        }
    return found


def summary(text: str, chip: chips.Chip, ideal: float) -> dict:
    """Returns the figures of a compiled step's text. ideal: seconds of the step's arithmetic by
    formula, at the chip's peak."""
    rows = costs(kernels(text), chip)
    parts = {}
    moved = {}
    for row in rows:
        part = parts.setdefault(row['part'], dict.fromkeys(('bytes', 'flops', 'roofline'), 0))
        for name in part:
            part[name] += row['times'] * row[name]
        moved[row['kind']] = moved.get(row['kind'], 0) + row['times'] * row['bytes']
    return {
        'ideal': ideal,
        'roofline': sum(part['roofline'] for part in parts.values()),
        'bytes': dict(sorted(moved.items())),
        'launches': sum(row['times'] for row in rows),
        'parts': parts,
        'kernels': rows,
    }


def part_of(kernel: Kernel) -> str:
    """Returns the part of the model, mostly of PARTS, that a kernel's operations come from."""
    if kernel.kind in ('collective', 'prefetch'):
        return kernel.kind
    for names in (kernel.name, kernel.inside):
        for part, words in PARTS:
            if any(word in names for word in words):
                return part
    return (
        'layer stacks'
        if 'while/body/' in f'{kernel.name} {kernel.inside}'
        else 'optimizer and other'
    )


def lines(found: dict, top: int) -> list[str]:
    """Returns the lines to print, with the `top` most expensive kernels."""
    chip = chips.parse(found['topology'])[0]
    ideal = found['ideal']
    roofline = found['roofline']
    total_bytes = sum(found['bytes'].values())
    settings = ''.join(f', {name}={value}' for name, value in found['options'].items())
    result = [
        f'{found["topology"]}, {found["microbatches"]} x {found["rows"]} x {found["n_ctx"]} tokens '
        f'a chip, {found["dtype"]}, {found["compiler"]}{settings}',
        f'arithmetic at the peak {1e3 * ideal:8.1f} ms',
        f'by roofline            {1e3 * roofline:8.1f} ms, MFU {ideal / roofline:.1%}',
        f'memory traffic         {total_bytes / 1e9:8.1f} GB, outside matrix products '
        f'{(total_bytes - found["bytes"].get("product", 0)) / 1e9:.1f} GB; {found["launches"]:,} '
        'kernels',
        f'memory a chip          {found["memory"] / 2**30:8.2f} GiB of {chip.memory / 2**30:.1f}',
    ]
    if 'exchange' in found:
        least = found['exchange']['least']
        most = found['exchange']['most']
        result.append(
            f'between chips          {1e3 * least["transfers"]:8.1f} to '
            f'{1e3 * most["transfers"]:.1f} ms, of which exposed {1e3 * least["exposed"]:.1f} to '
            f'{1e3 * most["exposed"]:.1f} ms, not in the times above; {least["asynchronous"]} '
            f'asynchronous, {least["synchronous"]} synchronous'
        )
    cells = [
        (name, *_figures(row, 1))
        for name, row in sorted(found['parts'].items(), key=lambda part: -part[1]['roofline'])
    ]
    result += ['', *table(('part', 'GB', 'TFLOP', 'roofline, ms'), cells)]
    cells = [
        (
            row['name'].replace('jit(step)/', '').replace('closed_call/', '')[-60:],
            row['part'],
            row['result'][:48],
            row['times'],
            *_figures(row, row['times']),
        )
        for row in found['kernels'][:top]
    ]
    head = ('kernel', 'part', 'result', 'times', 'GB', 'TFLOP', 'roofline, ms')
    return [*result, *table(head, cells)]


def _figures(row, times):
    return (
        f'{times * row["bytes"] / 1e9:.2f}',
        f'{times * row["flops"] / 1e12:.3f}',
        f'{1e3 * times * row["roofline"]:.2f}',
    )


def _define_flags():
    record.define_step_flags()
    flags.DEFINE_string(
        'topology', 'v5e:1x1', 'The slice: v5e:1x1, v5e:16x16, v5p:2x2x1, h200:1, ...'
    )
    flags.DEFINE_integer(
        'rows',
        16,
        'Windows of n_ctx tokens a chip and microbatch, in place of config.batch.size.',
        lower_bound=1,
    )
    flags.DEFINE_list(
        'options', [], "XLA's flags for the compilation: 'xla_gpu_enable_triton_gemm=false,...'."
    )
    flags.DEFINE_integer('top', 10, 'Kernels to print, the most expensive first.', lower_bound=1)


def main() -> None:
    f = flags.FLAGS
    jax.config.update('jax_platforms', 'cpu')  # nothing is run on this machine's devices
    if bare := [option for option in f.options if '=' not in option]:
        raise UserError(f'--options={bare[0]}: must be FLAG=VALUE')
    pairs = (option.lstrip('-').partition('=') for option in f.options)
    options = {name: {'true': True, 'false': False}.get(value, value) for name, _, value in pairs}
    row = measure(f.config, f.topology, f.rows, f.vocab_size, options)
    print('\n'.join(lines(row, f.top)), flush=True)
    record.write(
        f.out, {'config': f.config.to_dict(), 'steps': [row | {'kernels': row['kernels'][: f.top]}]}
    )


if __name__ == '__main__':
    cli.run(main, _define_flags)
