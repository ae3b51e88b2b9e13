"""Pushes exports to the Hugging Face Hub: a run as a model repository, and every kept step as a branch of it.

Each is one commit, which adds or replaces an export's files and leaves others alone; unchanged files are not uploaded
again.
"""
import pathlib
import tempfile

from gpt1_jax import storage
from gpt1_jax.data import hub, words
from gpt1_jax.errors import UserError
from gpt1_jax.runs import workdir
from gpt1_jax.weights.export_hugging_face import check, export

MAIN = 'main'


def push(path: storage.Path, name: str, step: int | None = None, license: str = 'other', private: bool = False,
         every_step: bool = False, dtype: str = 'float32') -> None:
    """Export the run in `path` and push it to the repository USER/NAME, which is created if it does not exist.

    step (it goes to `main`), license, dtype: as in `export`. every_step: also push every saved step to a branch of its
    own. UserError for a run that cannot be exported, a wrong name and a token without the right to write, before
    anything is exported.
    """
    repository, revision = hub.split(name)
    if revision or '/' not in repository:
        raise UserError(f'{name}: must be USER/NAME')
    run = workdir.load(path)
    check(run)
    steps = {branch(each, run.config): each for each in run.steps()} if every_step else {}
    steps[MAIN] = run.step(step)
    api = hub.client(name).HfApi()
    with hub.one_line_errors(name):
        api.create_repo(repository, private=private or None, exist_ok=True)
    for revision, each in steps.items():
        with tempfile.TemporaryDirectory() as directory:
            names = export(path, pathlib.Path(directory), each, license, dtype)
            with hub.one_line_errors(name):
                if revision != MAIN:
                    api.create_branch(repository, branch=revision, exist_ok=True)
                commit = api.upload_folder(repo_id=repository, folder_path=directory, revision=revision,
                                           commit_message=f'Step {each:,} of a run of gpt1_jax')
        print(f'{commit.commit_url}: step {each:,}, {", ".join(names)}')


def branch(step: int, config: dict) -> str:
    """'step-1000', or 'chck_1M' where the run's config kept the step for its million words."""
    read = config.get('checkpoint', {}).get('words_at', {}).get(str(step))
    return f'step-{step}' if read is None else f'chck_{words.label(read)}'
