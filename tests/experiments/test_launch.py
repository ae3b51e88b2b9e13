"""The recipes of experiments/launch parse, name existing files and flags, and work as their page
says, without a cloud."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
import yaml

from experiments.launch import local
from gpt1_jax.cli import config_file, config_help
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import results
from tiny import ROOT, corpus

LAUNCH = ROOT / 'experiments' / 'launch'
JOBSETS = ('jobset_gpu.yaml', 'jobset_tpu.yaml')


def read(name):
    return (LAUNCH / name).read_text(encoding='utf-8')


def job(name):
    """(the JobSet, its only Job's spec, the Job's only container)."""
    jobset = yaml.safe_load(read(name))
    (replicated,) = jobset['spec']['replicatedJobs']
    spec = replicated['template']['spec']
    (container,) = spec['template']['spec']['containers']
    return jobset, spec, container


def test_the_processes_of_the_gpu_jobset_find_each_other():
    jobset, spec, container = job('jobset_gpu.yaml')
    environment = {one['name']: one.get('value') for one in container['env']}
    host, port = environment['JAX_COORDINATOR_ADDRESS'].split(':')
    name = jobset['metadata']['name']
    replicated = jobset['spec']['replicatedJobs'][0]['name']
    # The pod's name as JobSet forms it, and its subdomain
    assert host == f'{name}-{replicated}-0-0.{name}'
    assert int(port) in [one['containerPort'] for one in container['ports']]
    assert environment['JAX_NUM_PROCESSES'] == str(spec['completions'])
    (index,) = [one['valueFrom'] for one in container['env'] if one['name'] == 'JAX_PROCESS_ID']
    assert (
        index['fieldRef']['fieldPath']
        == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    )


@pytest.mark.parametrize('name', [*JOBSETS, 'skypilot.yaml', 'tpu_pod.sh', 'slurm.sh'])
def test_the_fields_that_a_recipe_sets_are_there(name):
    known = {field for field, *_ in config_help.fields(config_file.load('pretrain'))}
    named = re.findall(r'--config\.([\w.]+)=', read(name))
    assert named and set(named) <= known


def test_the_sky_task_names_its_variables_and_its_scripts_parse():
    task = yaml.safe_load(read('skypilot.yaml'))
    used = set(re.findall(r'\$(\w+)', task['run']))
    assert used == {'SKYPILOT_NODE_IPS', 'SKYPILOT_NUM_NODES', 'SKYPILOT_NODE_RANK', *task['envs']}
    for script in (task['setup'], task['run']):
        assert (
            subprocess.run(['bash', '-n'], input=script, text=True, capture_output=True).stderr
            == ''
        )


def test_the_image_copies_what_there_is_and_starts_gpt1():
    lines = re.sub(r'\\\n', ' ', read('Dockerfile')).splitlines()
    words = [line.split() for line in lines if line and not line.startswith('#')]
    copied = [name for line in words if line[0] == 'COPY' for name in line[1:-1]]
    assert {'gpt1_jax', 'configs', 'constraints.txt', 'setup.cfg'} <= set(copied)
    assert not [name for name in copied if not (ROOT / name).exists()]
    (entry,) = [line[1] for line in words if line[0] == 'ENTRYPOINT']
    assert json.loads(entry) == ['gpt1']  # not through a shell, which would keep SIGTERM to itself


@pytest.mark.full
def test_the_gpu_jobset_s_command_runs_in_real_processes(tmp_path):
    """The container's command and variables, as the kubelet would set them, with this machine in
    place of the pods."""
    _, spec, container = job('jobset_gpu.yaml')
    prepare(
        tmp_path / 'tokens',
        corpus=str(corpus(tmp_path / 'text')),
        valid='0.2',
        merges=60,
        processes=1,
    )
    small = (
        'model.n_layer=1 model.n_embd=16 model.n_head=2 model.n_inner=16 model.n_ctx=16 '
        'model.dtype=float32 batch.size=8 train.steps=3 log_every=1 optimizer.warmup_steps=1'
    )
    line = [sys.executable, '-m', 'gpt1_jax', *container['args']]
    places = {'gs://BUCKET/runs/gpt1': tmp_path / 'run', 'gs://BUCKET/tokens': tmp_path / 'tokens'}
    for name, place in places.items():
        line = [word.replace(name, str(place)) for word in line]
    line += [f'--config.{field}' for field in small.split()]
    address = f'localhost:{local.free_port()}'
    pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT, 'text': True}
    started = []
    for index in range(spec['completions']):
        environment = {one['name']: one.get('value') or str(index) for one in container['env']}
        environment |= {'JAX_COORDINATOR_ADDRESS': address, 'JOB_COMPLETION_INDEX': str(index)}
        environment = os.environ | environment
        started.append(subprocess.Popen(line, cwd=ROOT, env=environment, **pipes))
    said = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), said
    assert 'processes: 0 on ' in said[0] and 'step 3/3' in said[0] and 'step' not in said[1]
    assert [
        row['step'] for row in results.read(tmp_path / 'run' / 'metrics.jsonl') if 'loss' in row
    ] == [1, 2, 3]


def test_a_closed_terminal_reaches_all_processes():
    child = (
        'import signal, sys, time; signal.signal(signal.SIGHUP, lambda *_: sys.exit()); print(1, '
        'flush=True); time.sleep(60)'
    )
    program = (
        'import sys; from experiments.launch import local; sys.exit(local.run([sys.executable, '
        '"-c", sys.argv[1]], 2))'
    )
    parent = subprocess.Popen(
        [sys.executable, '-c', program, child], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert [parent.stdout.readline() for _ in range(2)] == ['1\n'] * 2
    parent.send_signal(signal.SIGHUP)
    assert parent.wait(30) == 0
