"""Where a run continues: at its newest checkpoint, or with --fallback at the newest sound one."""
import itertools

from gpt1_jax import storage
from gpt1_jax.parallel import processes
from gpt1_jax.runs import checkpoint, provenance
from gpt1_jax.training.loop import TrainState

DAMAGED = '.damaged'  # appended to a damaged step's name: it is no step any more, and its number is free again


def resume(directory: storage.Path, abstract: TrainState, fallback: bool = False) -> TrainState | None:
    """The TrainState of the newest step of a checkpoints directory, or None where there is no step.

    abstract: TrainState of ShapeDtypeStructs with shardings. fallback: pass over damaged steps, print which and why,
    and once a sound one is found rename them (30 -> 30.damaged), so that the run can save their numbers again; nothing
    is deleted. Prints a line where the run was saved with other versions, flags or devices than it continues with.
    CheckpointError where no step is sound (without fallback: where the newest is not), or where the machine rather than
    the files is at fault.
    """
    passed = []
    for step in reversed(checkpoint.steps(directory)):
        try:
            state = checkpoint.restore(directory, step, abstract)
        except checkpoint.DamagedError as error:
            if not fallback:
                hint = ': --fallback resumes from the newest sound one' if error.others else ''
                raise checkpoint.CheckpointError(f'{error}{hint}') from error
            passed.append(error)
            continue
        for damaged in passed:
            name = _set_aside(directory, damaged.step)
            print(f'passed over step {damaged.step:,}, kept as {name}: {damaged.cause}', flush=True)
        before = checkpoint.read_meta(directory, step).get('environment')
        differing = provenance.departures(before, provenance.environment(abstract.params)) if before else []
        if differing:
            print(f'resumed on a different setup; results match up to rounding: {", ".join(differing)}', flush=True)
        return state
    if passed:
        raise checkpoint.CheckpointError(f'{directory}: none of its steps is sound: '
                                         + '; '.join(f'{error.step}: {error.cause}' for error in passed))
    return None


def _set_aside(directory, step):
    """Rename a step; returns its new name. Process 0 does it, the others wait."""
    names = (f'{step}{DAMAGED}{n}' for n in itertools.chain([''], itertools.count(2)))
    name = next(name for name in names if not (directory / name).exists())
    if processes.primary():
        (directory / str(step)).rename(directory / name)
    processes.barrier(f'set aside {step}')
    return name
