"""Exports to the Hugging Face Hub: a run as a model repository, and every kept step as a revision of it.

The default step goes to `main`; with `every_step`, step 1000 goes to the branch `step-1000`, too, or to `chck_1M` if it
was kept for its million words (config.checkpoint.keep_words). Each is one commit, which adds
or replaces an export's files and leaves others alone. What is there already is not sent again.
"""
import pathlib
import tempfile
from collections.abc import Callable

from gpt1_jax.data import hub, words
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir
from gpt1_jax.weights.export_hugging_face import check, export

MAIN = 'main'


def push(path: str | pathlib.Path, name: str, step: int | None = None, license: str = 'other', private: bool = False,
         every_step: bool = False, dtype: str = 'float32', report: Callable[[str], None] = print) -> None:
    """Export the run in `path` and push it to the repository `name`, which is made if it does not exist.

    name: 'USER/NAME'. step, license, dtype: as in `export`; step goes to the branch main. every_step: push every saved
    step to a branch of its own, as well. report: called with a line for each commit.
    UserError for what cannot be exported, and where the Hub refuses: before anything is exported, if it is the name or
    the token.
    """
    repository, revision = hub.split(name)
    if revision or '/' not in repository:
        raise UserError(f'{name}: must be USER/NAME')
    run = workdir.load(path)
    check(run)
    best = run.step(step)
    library = hub.client(name)
    api = library.HfApi()
    with hub.one_line_errors(name):
        api.create_repo(repository, private=private or None, exist_ok=True)
    branches = {branch(each, run.config): each for each in run.steps()} if every_step else {}
    for place, each in (branches | {MAIN: best}).items():
        with tempfile.TemporaryDirectory() as directory:
            names = export(path, directory, each, license, dtype)
            root = pathlib.Path(directory)
            added = [library.CommitOperationAdd(file.relative_to(root).as_posix(), file)
                     for file in sorted(root.rglob('*')) if file.is_file()]
            with hub.one_line_errors(name):
                if place != MAIN:
                    api.create_branch(repository, branch=place, exist_ok=True)
                message = f'Step {each:,} of a run of gpt1_jax'
                url = api.create_commit(repository, added, commit_message=message, revision=place).commit_url
        report(f'{url}: step {each:,}, {", ".join(names)}')


def branch(step: int, config: dict) -> str:
    """The name of a step's branch. config: the run's."""
    read = (config.get('checkpoint') or {}).get('words_at', {}).get(str(step))
    return f'step-{step}' if read is None else f'chck_{words.label(read)}'
