"""Prepares TFDS data in a test with TFDS's builders. They parse the rows, and only the download is
skipped."""

import importlib


def prepare(data_dir, name, splits, config=None, builder='Builder'):
    """Prepare a set as `tfds build` does.

    splits: {TFDS split: the argument of the builder's _generate_examples}.
    """
    module = (
        f'tensorflow_datasets.text.{name}'
        if name in ('glue', 'definite_pronoun_resolution')
        else (f'tensorflow_datasets.datasets.{name}.{name}_dataset_builder')
    )
    real = getattr(importlib.import_module(module), builder)

    def generators(self, dl_manager):
        return {split: self._generate_examples(**arguments) for split, arguments in splits.items()}

    local = type(
        builder,
        (real,),
        {'_split_generators': generators, 'name': name, '__module__': module},
        skip_registration=True,
    )
    made = local(config=config, data_dir=data_dir, file_format='array_record')
    made.download_and_prepare()
    return made.data_path


def glue(data_dir, config, splits, **more):
    """splits: {TFDS split: (file, 'train', 'dev' or 'test')}. more: arguments of every split."""
    arguments = {
        split: {'data_file': file, 'split': kind} | more for split, (file, kind) in splits.items()
    }
    return prepare(data_dir, 'glue', arguments, config, builder='Glue')
