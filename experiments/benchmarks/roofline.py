"""How fast the real pretraining step could be on a TPU slice or GPU that is not here: milliseconds, MFU, bytes, memory.

python -m experiments.benchmarks.roofline --topology=v5e:1x1 --rows=16 --config=configs/pretrain.py \\
    --config.model.dtype=bfloat16

Needs `pip install 'jax[tpu]'` for TPUs (v4, v5e, v5p, v6e), `jax[cuda13]` for an H200; none of the hardware. The step
is compiled as pretraining compiles it, and its kernels are added up in two ways:

* by roofline: each kernel takes as long as its bytes at the chip's memory bandwidth or its matrix products at the
  chip's bfloat16 peak, whichever is longer, and kernels run one after the other;
* by the compiler's own estimate of a kernel's cycles (TPUs alone), which also counts the vector units; for kernels in
  Pallas, of which it makes none, by the bundles of instructions in its schedule.

For a GPU it is compiled twice, with matrix products by Triton and by cuBLASLt: on the device XLA times both and chooses
for each product, and what is fused into products differs.
"""
import dataclasses
from collections.abc import Mapping, Sequence

import jax
from absl import flags
from ml_collections import ConfigDict, config_flags

from experiments.benchmarks import record
from experiments.compile import check, chips, exposure, tpu_schedule
from experiments.compile.kernels import Kernel, kernels, total
from experiments.lib.markdown import table
from gpt1_jax import cli, rules
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import step_cost
from gpt1_jax.pretrain import RULES

# Parts of the model, each with what its operations are called; the first that fits a kernel's own name has it, else the
# first that fits the name of what is fused into it.
PARTS = (('attention', ('/attn/blhe', '/attn/bhlm', '/attn/softmax', '/attn/jit', '/attn/self', 'pallas_call')),
         ('attention projections', ('/attn/',)), ('mlp', ('/mlp/',)), ('residual and norm', ('/ln_',)),
         ('loss', ('td,rd', 'jvp()')), ('embedding', ('/embed/',)))
WORTH = ('What this is worth: nothing ran. No step is faster than its roofline; how far it stays behind is not known '
         "from here. The compiler's cycles are the cost model by which it schedules, not calibrated on a device: "
         'take them to be off by a quarter, and trust differences between two versions more than either.')


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of one execution of a kernel. roofline: the least it can take. compiler: by the compiler's estimate;
    where it has none, the roofline."""
    kernel: Kernel
    roofline: float
    compiler: float


def costs(found: Sequence[Kernel], chip: chips.Chip) -> list[Cost]:
    """The Costs of a step's kernels on a chip, dearest first, all executions counted."""
    result = []
    for one in found:
        if one.kind == 'collective':  # waits for links, see experiments/compile/exposure.py
            result.append(Cost(one, 0.0, 0.0))
            continue
        roofline = max(one.bytes / chip.bandwidth, one.flops / chip.peak)
        estimated = one.cycles / chip.clock if one.cycles else roofline
        if one.kind == 'ours' and not chip.gpu:  # the schedule of a kernel in Pallas has no waits for memory
            estimated = max(roofline, tpu_schedule.cycles(one.instruction) / chip.clock)
        if one.kind == 'prefetch':  # runs beside other kernels, whose estimates have the wait
            estimated = 0.0
        result.append(Cost(one, roofline, estimated))
    return sorted(result, key=lambda each: -each.kernel.times * max(each.roofline, each.compiler))


def measure(config: ConfigDict, topology: str, rows: int, vocab_size: int = 40478,
            options: Mapping[str, bool | str] | None = None) -> dict:
    """Compile the config's step for a slice, `rows` windows a chip, and add up its kernels.

    options: XLA's flags for this compilation. Returns {'topology', 'rows', 'seconds': {'ideal', 'roofline', 'compiler'
    or None}, 'mfu': {'roofline', 'compiler' or None}, 'bytes': {kind: of a step}, 'memory': bytes a chip holds,
    'parts': {part: {'bytes', 'flops', 'roofline', 'compiler'}}, 'kernels': rows, dearest first, 'exchange': as in
    `exchange`, of several chips alone, ...}. UserError as in check.check.
    """
    config = config.copy_and_resolve_references()
    chip, _ = chips.parse(topology)
    if not chip.gpu:
        tpu_schedule.folder()
    mesh = check.mesh_of(config, topology)
    config.batch.size = rows * mesh.size * config.batch.microbatches
    rules.validate(config, RULES)
    model = check.backbone_of(config, vocab_size)
    step = check.fitting_step(config, topology, model, mesh, options)
    tokens = config.batch.size * model.config.n_ctx // mesh.size
    ideal = step_cost.flops_per_token(step.program.state.params, model.config.n_ctx) * tokens / chip.peak
    found = {'topology': topology, 'chips': mesh.size, 'rows': rows, 'microbatches': config.batch.microbatches,
             'n_ctx': model.config.n_ctx, 'dtype': config.model.dtype, 'compiler': chips.compiler(chip),
             'options': dict(options or {}), 'compile_seconds': round(sum(step.seconds), 1), 'memory': step.bytes}
    found |= summary(step.text, chip, ideal)
    if mesh.size > 1:
        found['exchange'] = exchange(step.text, mesh.size, topology, found['kernels'])
    return found


def summary(text: str, chip: chips.Chip, ideal: float) -> dict:
    """The figures of a compiled step's text. ideal: seconds of its arithmetic by formula, at the chip's peak."""
    found = kernels(text)
    dear = costs(found, chip)
    roofline = sum(each.kernel.times * each.roofline for each in dear)
    compiler = sum(each.kernel.times * each.compiler for each in dear) if not chip.gpu else None
    parts = {}
    for each in dear:
        row = parts.setdefault(part_of(each.kernel), dict.fromkeys(('bytes', 'flops', 'roofline', 'compiler'), 0))
        for name, value in (('bytes', each.kernel.bytes), ('flops', each.kernel.flops), ('roofline', each.roofline),
                            ('compiler', each.compiler)):
            row[name] += each.kernel.times * value
    kinds = sorted({one.kind for one in found})
    return {'seconds': {'ideal': ideal, 'roofline': roofline, 'compiler': compiler},
            'mfu': {'roofline': ideal / roofline, 'compiler': compiler and ideal / compiler},
            'bytes': {kind: total(found, kind) for kind in kinds}, 'launches': sum(one.times for one in found),
            'parts': parts, 'kernels': [_row(each) for each in dear]}


def exchange(text: str, devices: int, topology: str, rows: Sequence[dict]) -> dict:
    """{'least' and 'most': as in exposure.exposed}: all of a chip's links in use at once, or those of one axis.

    rows: the kernels of `summary`, whose estimated times are what transfers hide behind.
    """
    chip, shape = chips.parse(topology)
    seconds = {row['instruction']: row['compiler'] for row in rows}
    return {name: exposure.exposed(text, devices, seconds,
                                   lambda sent: chips.link_seconds(chip, shape, sent)[place])
            for place, name in enumerate(('least', 'most'))}


def part_of(kernel: Kernel) -> str:
    """The part of the model, one of PARTS, that a kernel's operations come from."""
    if kernel.kind in ('collective', 'prefetch'):
        return kernel.kind
    for names in (kernel.name, kernel.inside):
        for part, words in PARTS:
            if any(word in names for word in words):
                return part
    return 'layer stacks' if 'while/body/' in f'{kernel.name} {kernel.inside}' else 'optimizer and other'


def _row(cost):
    kernel = dataclasses.asdict(cost.kernel)
    kernel.pop('inside')
    return kernel | {'part': part_of(cost.kernel), 'roofline': cost.roofline, 'compiler': cost.compiler}


def lines(found: dict, top: int) -> list[str]:
    """What is printed."""
    chip = chips.parse(found['topology'])[0]
    seconds, mfu = found['seconds'], found['mfu']
    total_bytes = sum(found['bytes'].values())
    result = [f"{found['topology']}, {found['rows']} x {found['n_ctx']} tokens a chip"
              f"{_several(found['microbatches'])}, {found['dtype']}, {found['compiler']}{_with(found['options'])}",
              f"arithmetic at the peak {1e3 * seconds['ideal']:8.1f} ms",
              f"by roofline            {1e3 * seconds['roofline']:8.1f} ms, MFU {mfu['roofline']:.1%}"]
    if seconds['compiler']:
        result.append(f"by the compiler        {1e3 * seconds['compiler']:8.1f} ms, MFU {mfu['compiler']:.1%}")
    result += [f'memory traffic         {total_bytes / 1e9:8.1f} GB, outside matrix products '
               f"{(total_bytes - found['bytes'].get('product', 0)) / 1e9:.1f} GB; {found['launches']:,} kernels",
               f"memory a chip          {found['memory'] / 2**30:8.2f} GiB of {chip.memory / 2**30:.1f}", '']
    if 'exchange' in found:
        result[-1:] = [_exchange_line(found['exchange']), '']
    cells = [(name, *_figures(row, 1)) for name, row in
             sorted(found['parts'].items(), key=lambda part: -max(part[1]['roofline'], part[1]['compiler']))]
    result += table(('part', 'GB', 'TFLOP', 'roofline, ms', 'compiler, ms'), cells)
    cells = [(_short(row['name']), row['part'], row['result'][:48], row['times'], *_figures(row, row['times']))
             for row in found['kernels'][:top]]
    head = ('kernel', 'part', 'result', 'times', 'GB', 'TFLOP', 'roofline, ms', 'compiler, ms')
    return [*result, *table(head, cells)]


def _exchange_line(found):
    least, most = found['least'], found['most']
    return (f"between chips          {1e3 * least['transfers']:8.1f} to {1e3 * most['transfers']:.1f} ms, of which "
            f"exposed {1e3 * least['exposed']:.1f} to {1e3 * most['exposed']:.1f} ms, not in the times above; "
            f"{least['asynchronous']} asynchronous, {least['synchronous']} synchronous")


def _with(options):
    if 'xla_gpu_enable_triton_gemm' in options:
        return f", matrix products by {'Triton' if options['xla_gpu_enable_triton_gemm'] else 'cuBLASLt'}"
    return ''.join(f', {name}={value}' for name, value in options.items())


def _several(microbatches):
    return f' in each of {microbatches} microbatches' if microbatches > 1 else ''


def _figures(row, times):
    return (f"{times * row['bytes'] / 1e9:.2f}", f"{times * row['flops'] / 1e12:.3f}",
            f"{1e3 * times * row['roofline']:.2f}", f"{1e3 * times * row['compiler']:.2f}")


def _short(name):
    return name.replace('jit(step)/', '').replace('closed_call/', '')[-60:]


def options_of(text: str) -> dict[str, bool | str]:
    """{flag: value} of 'xla_a=true,xla_b=2'. UserError for others."""
    found = {}
    for part in filter(None, text.split(',')):
        name, equals, value = part.strip().lstrip('-').partition('=')
        if not equals or not value:
            raise UserError(f'--options: {part!r} is not FLAG=VALUE')
        found[name] = {'true': True, 'false': False}.get(value, value)
    return found


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/pretrain.py',
                                    'What to compile; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('topology', 'v5e:1x1', 'The slice: v5e:1x1, v5e:16x16, v5p:2x2x1, h200:1, ...')
    flags.DEFINE_integer('rows', 16, 'Windows of n_ctx tokens a chip and microbatch.', lower_bound=1)
    flags.DEFINE_string('options', '', "XLA's flags for the compilation: 'xla_gpu_enable_triton_gemm=false,...'.")
    flags.DEFINE_integer('vocab_size', 40478, "Ids of the tokenizer; the published one's by default.", lower_bound=1)
    flags.DEFINE_integer('top', 10, 'Kernels to print, the dearest first.', lower_bound=1)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    jax.config.update('jax_platforms', 'cpu')  # whatever this machine has, nothing is run
    options = options_of(f.options)
    several = [options]
    if chips.parse(f.topology)[0].gpu:
        several = [options | {'xla_gpu_enable_triton_gemm': triton} for triton in (True, False)]
    found = []
    for each in several:
        row = measure(f.config, f.topology, f.rows, f.vocab_size, each)
        print('\n'.join(lines(row, f.top)), flush=True)
        found.append(row | {'kernels': row['kernels'][:f.top]})
    print(WORTH)
    record.write(f.out, {'config': f.config.to_dict(), 'steps': found})


if __name__ == '__main__':
    cli.run(main, _define_flags)
