"""A run's metrics on Weights & Biases or Trackio, which have one interface: init, log, finish.

metrics.jsonl stays the source. The services' own variables hold: WANDB_MODE=offline, WANDB_ENTITY, TRACKIO_DIR, ...
"""
import importlib
import secrets
from typing import Any

from gpt1_jax import storage
from gpt1_jax.errors import UserError, one_line

FILE = 'tracker.json'            # in the run directory: {service: the run's id there}


class Tracker:
    """A run on a tracking service, begun or continued.

    service: 'wandb' or 'trackio'. project: its group of runs there. directory: the run's. config: its fields.
    rows: those of metrics.jsonl from which it resumes, logged first where the service does not have the run yet. known:
    later rows that an earlier start logged; made again, they have the same values and are not logged twice.
    UserError where the service refuses the run, as without a login.
    """

    def __init__(self, service: str, project: str, directory: storage.Path, config: dict, rows: list[dict],
                 known: list[dict]) -> None:
        file = directory / FILE
        found: Any = storage.read_json(file) if file.exists() else {}
        first = not isinstance(found.get(service), str)
        name = f'{file.parent.name}-{secrets.token_hex(4)}' if first else found[service]
        self._known = set() if first else {_key(row) for row in known}
        local = storage.cache(directory) if storage.remote(directory) else directory
        how = {'id': name, 'dir': str(local)} if service == 'wandb' else {}  # it writes to DIR/wandb
        try:
            self._run = importlib.import_module(service).init(project=project, name=name, config=config,
                                                              resume='allow', **how)
        except Exception as error:  # of any kind: the services raise their own, and those of the network
            raise UserError(f'{service}: {one_line(str(error), 300)}: log in, work offline (WANDB_MODE=offline), or '
                            "leave config.tracker = ''") from None
        if first:
            storage.write_json(file, found | {service: name})  # only now: a start that was refused logged nothing
            for row in rows:
                self.append(row)

    def append(self, row: dict) -> None:
        """Log the numbers of a row of metrics.jsonl."""
        numbers = {name: value for name, value in row.items()
                   if name != 'step' and isinstance(value, (int, float))}
        if _key(row) not in self._known:
            self._run.log(numbers, step=row['step'])

    def close(self) -> None:
        """Send the rest."""
        self._run.finish()


def _key(row):
    """What tells the rows of a run apart: a step has one of training and one of validation."""
    return row['step'], frozenset(row)
