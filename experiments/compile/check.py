"""Checks whether the real pretraining step fits a slice that you do not have, by compiling it.

python -m experiments.compile.check --topology=v5e:16x16 --config=configs/pretrain.py \\
    --config.model.dtype=bfloat16 --config.batch.size=4096 --config.mesh.fsdp=16

The program also reports the data exchanged between chips. It needs `pip install 'jax[tpu]'` for
TPUs (v4, v5e, v5p, v6e) or `jax[cuda13]` for GPUs (h200:1 to h200:8), and no hardware. If the step
does not fit, one line says what to change, and the exit status is 1.
"""

import re
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from absl import flags
from ml_collections import ConfigDict

from experiments.compile import chips, hlo
from gpt1_jax import cli, pretraining, rules
from gpt1_jax.cli import config_file
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.parallel import sharding, step_cost


class Step(NamedTuple):
    """A compiled pretraining step.

    text: the text of its optimised HLO module. seconds: the time to compile.
    memory: {'arguments', 'output', 'aliased', 'temporaries', 'code', 'in all': bytes a chip}.
    'aliased' is the part of the output that takes the arguments' place.
    """

    program: Any  # loop.Program
    text: str
    seconds: float
    memory: dict[str, int]


def compile_step(config: ConfigDict, model: Any, mesh: jax.sharding.Mesh) -> Step:
    """Compile the step of pretraining.run for a config, backbone and mesh.

    mesh: its devices need not exist. UserError if the batch or a parameter cannot be divided over
    the mesh. An error of the compiler is raised as it is.
    """
    sharding.check_batch(config.batch.size, config.batch.microbatches, mesh)
    program = pretraining.make_program(config, model, mesh)
    shape = (config.batch.size, model.config.n_ctx + 1)
    batch = {
        'tokens': jax.ShapeDtypeStruct(shape, jnp.int32, sharding=sharding.batch_sharding(mesh))
    }
    hyper = jax.eval_shape(lambda: pretraining.hyperparameters(config, 1))
    platform = {'gpu': 'cuda'}.get(mesh.devices.flat[0].platform, mesh.devices.flat[0].platform)
    lowered = program.step.trace(program.state, batch, hyper).lower(lowering_platforms=(platform,))
    began = time.perf_counter()
    compiled = lowered.compile()
    seconds = time.perf_counter() - began
    found = compiled.memory_analysis()
    memory = {
        'arguments': found.argument_size_in_bytes,
        'output': found.output_size_in_bytes,
        'aliased': found.alias_size_in_bytes,
        'temporaries': found.temp_size_in_bytes,
        'code': found.generated_code_size_in_bytes,
    }
    memory['in all'] = sum(memory.values()) - 2 * memory['aliased']
    return Step(program, compiled.as_text(), seconds, memory)


def check(config: ConfigDict, topology: str, vocab_size: int) -> dict:
    """Compile the config's step for a slice, and return its figures."""
    rules.validate(config, pretraining.RULES)
    model = backbone_of(config, vocab_size)
    mesh = mesh_of(config, topology)
    step = fitting_step(config, topology, model, mesh)
    return {
        'topology': topology,
        'mesh': dict(mesh.shape),
        'compiler': chips.compiler(chips.parse(topology)[0]),
    } | measure(step, config, model, mesh.size)


def fitting_step(config: ConfigDict, topology: str, model: Any, mesh: jax.sharding.Mesh) -> Step:
    """Compile like `compile_step`, for a mesh on the chips of a slice. UserError if the step needs
    more memory than a chip has."""
    try:
        step = compile_step(config, model, mesh)
        held = step.memory['in all']
        memory = chips.parse(topology)[0].memory
        if held <= memory:
            return step
        # The compiler for GPUs does not check this
        needed = f'{held / 2**30:.2f} GiB of {memory / 2**30:.2f} GiB'
    except jax.errors.JaxRuntimeError as error:
        if 'RESOURCE_EXHAUSTED' not in str(error):
            raise
        # The memory needed and available, in either wording
        sizes = re.findall(r'\b([\d.]+)([MGT])\b', str(error))
        needed = ' of '.join(f'{n} {unit}iB' for n, unit in sizes[:2])
    raise UserError(
        f'{topology}: out of memory, {needed or "size unknown"} a chip: try a larger '
        '--config.mesh.fsdp, --config.model.remat=True, more --config.batch.microbatches, a '
        'smaller batch or more chips'
    )


def measure(step: Step, config: ConfigDict, model: Any, devices: int) -> dict:
    """Return the figures of a compiled step."""
    c = model.config
    params = step.program.state.params
    moved = hlo.collectives(step.text, devices)
    rows, width = params['embed']['tokens'].shape
    # The step's table has the rows of the vocabulary and of the positions
    whole = sum(len(part) for part in params['embed'].values())
    per_token = step_cost.flops_per_token(params, c.n_ctx)
    return {
        'seconds': step.seconds,
        'memory': step.memory,
        'parameters': sum(x.size for x in jax.tree.leaves(params)),
        'flops_per_step': per_token * config.batch.size * c.n_ctx,
        'collectives': hlo.summary(moved),
        'trips_known': all(one.known for one in moved),
        'table_gathers': hlo.table_gathers(moved, whole, width),
        'logit_transfers': hlo.logit_transfers(moved, rows, width),
    }


def lines(row: dict, config: ConfigDict) -> list[str]:
    """Return the lines that the check prints."""
    c = config
    mesh = ' x '.join(f'{name}={size}' for name, size in row['mesh'].items())
    sent = {kind: one['sent'] for kind, one in row['collectives'].items()}
    kinds = [
        f'{one["count"]} {kind}, {_size(sent[kind])}' for kind, one in row['collectives'].items()
    ]
    text = [
        f'{row["topology"]}: mesh {mesh}; {c.batch.size:,} x {c.model.n_ctx} tokens in '
        f'{c.batch.microbatches} microbatch(es), {c.model.dtype}, {row["parameters"]:,} '
        f'parameters; jax {jax.__version__}, {row["compiler"]}',
        f'compile, s: {row["seconds"]:.0f}',
        f'memory a chip, GiB: {row["memory"]["in all"] / 2**30:.1f} of '
        f'{chips.parse(row["topology"])[0].memory / 2**30:.0f}',
        'of the memory, MiB: '
        + ', '.join(f'{name} {n / 2**20:,.1f}' for name, n in row['memory'].items()),
        f'collectives: {"; ".join(kinds) or "none"}',
        f'sent a chip: {_size(sum(sent.values()))}',
        f'gathers of the token table: {_counts(row["table_gathers"], " in ")}',
        f'transfers of logits: {_counts(row["logit_transfers"], " ")}',
        f'TFLOP a step: {row["flops_per_step"] / 1e12:,.1f}',
    ]
    if not row['trips_known']:
        text.append('collectives in loops of unknown length are counted once')
    return text


def _size(sent):
    return f'{sent / 1e6:,.1f} MB'


def _counts(found, between):
    """Return '1 in bf16, 2 in f32'."""
    return ', '.join(f'{n}{between}{what}' for what, n in found.items()) or 'none'


def backbone_of(config: ConfigDict, vocab_size: int) -> Any:
    """Return the config's backbone for a tokenizer of vocab_size ids."""
    return backbone(own_fields(config.model.to_dict()) | {'vocab_size': vocab_size})


def mesh_of(config: ConfigDict, topology: str) -> jax.sharding.Mesh:
    """Return the config's mesh on the chips of a slice."""
    return sharding.make_mesh(**config.mesh, devices=chips.devices(topology))


def _define_flags():
    config_file.define('pretrain', 'What to compile; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string(
        'topology', None, 'The slice: v5e:16x16, two of them as 2*v5e:16x16, h200:8', required=True
    )
    flags.DEFINE_integer(
        'vocab_size', 40478, "Ids of the tokenizer; the published one's by default.", lower_bound=1
    )


def main() -> None:
    f = flags.FLAGS
    jax.config.update('jax_platforms', 'cpu')  # nothing is run on this machine's devices
    row = check(f.config, f.topology, f.vocab_size)
    print('\n'.join(lines(row, f.config)))


if __name__ == '__main__':
    cli.run(main, _define_flags)
