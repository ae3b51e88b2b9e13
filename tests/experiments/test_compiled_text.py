"""The reader of compiled text, on text by hand: collectives with their arrays, devices and number."""

import pytest

from experiments.compile import hlo, hlo_text

pytestmark = pytest.mark.full

V, D, N = 101, 32, 3  # words, width, layers of a tiny step


# The forms that the compilers for CPU, GPU and TPU use. The loop `twelve` says how often it runs, `seven` has it in its
# condition, `lost` nowhere.
MODULE = """\
HloModule jit_step, is_scheduled=true, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%all-reduce-scatter.1 (input: bf16[64,32]) -> bf16[16,32] {
  %input = bf16[64,32]{1,0} parameter(0)
  %all-reduce.9 = bf16[64,32]{1,0:T(8,128)(2,1)} all-reduce(%input), channel_id=9, replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  ROOT %dynamic-slice = bf16[16,32]{1,0} dynamic-slice(%all-reduce.9, %zero), dynamic_slice_sizes={16,32}
}

%fused_start (p: bf16[8,24]) -> bf16[32,24] {
  %p = bf16[8,24]{1,0} parameter(0)
  ROOT %all-gather.3 = bf16[32,24]{1,0} all-gather(%p), channel_id=5, replica_groups=[2,4]<=[8], dimensions={0}
}

%fused_middle (p: bf16[8,24]) -> bf16[32,24] {
  %p.1 = bf16[8,24]{1,0} parameter(0)
  ROOT %all-gather.4 = bf16[32,24]{1,0} all-gather(%p.1), channel_id=5, replica_groups=[2,4]<=[8], dimensions={0}
}

%body.12 (arg: (s32[], bf16[8,24])) -> (s32[], bf16[8,24]) {
  %arg = (s32[]{:T(128)}, bf16[8,24]{1,0:T(8,128)(2,1)S(1)}) parameter(0)
  %one = bf16[8,24]{1,0} get-tuple-element(%arg), index=1
  %start = bf16[32,24]{1,0} fusion(%one), kind=kCustom, calls=%fused_start
  %middle = bf16[32,24]{1,0} fusion(%one), kind=kOutput, calls=%fused_middle
  %inner = (s32[], bf16[8,24]{1,0}) while(%arg), condition=%cond.7, body=%body.7
  ROOT %out = (s32[], bf16[8,24]{1,0}) tuple(%count, %one)
}

%cond.12 (arg.1: (s32[], bf16[8,24])) -> pred[] {
  %arg.1 = (s32[], bf16[8,24]{1,0}) parameter(0)
  ROOT %lt = pred[] custom-call(%arg.1), custom_call_target="unknowable"
}

%body.7 (arg.2: (s32[], bf16[8,24])) -> (s32[], bf16[8,24]) {
  %arg.2 = (s32[], bf16[8,24]{1,0}) parameter(0)
  %collective-permute-start = (bf16[8,24]{1,0}, bf16[8,24]{1,0}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%y), channel_id=2, source_target_pairs={{0,1},{1,0}}
  %collective-permute-done = bf16[8,24]{1,0} collective-permute-done(%collective-permute-start)
  ROOT %out.1 = (s32[], bf16[8,24]{1,0}) tuple(%count, %collective-permute-done)
}

%cond.7 (arg.3: (s32[], bf16[8,24])) -> pred[] {
  %bound = s32[]{:T(128)} constant(7)
  %arg.3 = (s32[], bf16[8,24]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg.3), index=0
  ROOT %lt.1 = pred[] compare(%i, %bound), direction=LT
}

ENTRY %main.1_spmd (p0: f32[101,8], p1: bf16[101,8]) -> f32[] {
  %p0 = f32[101,8]{1,0} parameter(0)
  %all-gather-start = (bf16[101,8]{0,1}, bf16[101,32]{0,1}) all-gather-start(%p1), channel_id=1, replica_groups=mesh['axis_0'=1,'axis_1'=4,'axis_2'=2], device_ids=([2,4]T(1,0)) {'axis_1'}, dimensions={1}, metadata={op_name="jit(step)/embed/gather"}
  %all-gather-done = bf16[101,32]{0,1} all-gather-done(%all-gather-start)
  %all-reduce-start.1 = f32[6]{0} all-reduce-start(%c), channel_id=3, replica_groups={}, to_apply=%add
  %all-reduce-done.1 = f32[6]{0} all-reduce-done(%all-reduce-start.1)
  %all-reduce = (f32[2,3]{1,0}, /*index=1*/bf16[4]{0}) all-reduce(%q, %r), channel_id=4, replica_groups=mesh['x'=2,'y'=4] {'x','y':(1)2}, to_apply=%add
  %reduce-scatter-start = ((bf16[32,12]{1,0}, bf16[32]{0}), (bf16[8,12]{1,0}, bf16[8]{0})) reduce-scatter-start(%s, %t), channel_id=6, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=%add
  %reduce-scatter-done = (bf16[8,12]{1,0}, bf16[8]{0}) reduce-scatter-done(%reduce-scatter-start)
  %reduce-scatter.2 = f32[5]{0} reduce-scatter(%u), channel_id=7, replica_groups=[4,2]<=[2,4]T(1,0), dimensions={0}, to_apply=%add
  %all-to-all = (s32[1,7]{1,0}, s32[1,7]{1,0}) all-to-all(%v, %w), channel_id=8, replica_groups={{0,1},{2,3},{4,5},{6,7}}
  %scattered = bf16[16,32]{1,0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter.1
  %twelve = (s32[], bf16[8,24]{1,0}) while(%tuple), condition=%cond.12, body=%body.12, backend_config={"known_trip_count":{"n":"12"}}
  %lost = (s32[], bf16[8,24]{1,0}) while(%tuple), condition=%cond.12, body=%body.7
  ROOT %result = f32[] constant(0)
}
"""  # noqa: E501

WHOLE_TABLE = (('bf16', (101, 32)),)


def found():
    return hlo.collectives(MODULE, 8)


def of(kind):
    return [(one.arrays, one.devices, one.times, one.known) for one in found() if one.kind == kind]


# The text

@pytest.mark.parametrize('kind, expected', [
    # counted once a loop, however many fusions it is spread over
    ('all-gather', [(WHOLE_TABLE, 4, 1, True), ((('bf16', (32, 24)),), 4, 12, True)]),
    # with what it takes
    ('all-reduce', [((('f32', (6,)),), 8, 1, True), ((('f32', (2, 3)), ('bf16', (4,))), 4, 1, True)]),
    # whole, in each of its forms
    ('reduce-scatter', [((('bf16', (4, 8, 12)), ('bf16', (4, 8))), 4, 1, True), ((('f32', (2, 5)),), 2, 1, True),
                        ((('bf16', (64, 32)),), 4, 1, True)]),
    # a loop within a loop multiplies, one of unknown length counts once and says so
    ('collective-permute', [((('bf16', (8, 24)),), 2, 84, True), ((('bf16', (8, 24)),), 2, 1, False)]),
    ('all-to-all', [((('s32', (1, 7)), ('s32', (1, 7))), 2, 1, True)])])
def test_collectives_are_read_with_their_arrays_devices_and_number(kind, expected):
    assert of(kind) == expected
    assert found()[0].name == 'jit(step)/embed/gather'


def test_the_summary_adds_up_bytes_of_arrays_and_bytes_sent():
    # By hand, in bytes: gathers 101 x 32 x 2 and 12 times 32 x 24 x 2, of which three quarters are sent.
    table, layers = 6464, 12 * 1536
    assert hlo.summary(found()) == {
        'all-gather': {'count': 13, 'bytes': table + layers, 'sent': (table + layers) * 3 // 4},
        'all-reduce': {'count': 2, 'bytes': 24 + 32, 'sent': 2 * 24 * 7 // 8 + 2 * 32 * 3 // 4},
        'reduce-scatter': {'count': 3, 'bytes': 832 + 40 + 4096, 'sent': 624 + 20 + 3072},
        'all-to-all': {'count': 1, 'bytes': 56, 'sent': 28},
        'collective-permute': {'count': 85, 'bytes': 85 * 384, 'sent': 85 * 384}}


@pytest.mark.parametrize('groups, size', [
    ('{{0,1,2},{3,4,5}}', 3), ('{}', 8), ('[2,4]<=[8]', 4), ('[4,2]<=[2,4]T(1,0)', 2), ('{{0}}', 1),
    ("mesh['a'=2,'b'=4] {'b'}", 4), ("mesh['a'=2,'b'=4] {'a','b'}", 8), ("mesh['a'=2,'b'=4] {'a':(1)2}", 2),
    ("mesh['a'=1,'b'=8,'c'=64], device_ids=([64,8]T(1,0)) {'c'}", 64)])
def test_the_size_of_a_group_is_read_in_every_form(groups, size):
    text = ('ENTRY %e (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n'
            f'  ROOT %a = f32[8]{{0}} all-reduce(%p), channel_id=1, replica_groups={groups}, to_apply=%add\n}}\n')
    assert hlo.collectives(text, 8)[0].devices == size


@pytest.mark.parametrize('dtype, size', [('f32', 48), ('bf16', 24), ('pred', 12), ('s8', 12), ('f8e4m3fn', 12),
                                         ('u64', 96), ('s4', 6)])
def test_bytes_of_an_array_by_its_type(dtype, size):
    assert hlo_text.nbytes(dtype, (3, 4)) == size


def gather(*dims, kind='all-gather', dtype='bf16', times=1):
    return hlo.Collective(kind, ((dtype, dims),), 4, times)


def test_gathers_of_the_token_table_are_told_from_others_by_shape_and_counted_by_type():
    several = [gather(101, 32), gather(32, 101, dtype='f32'), gather(1, 101, 32), gather(101, 31), gather(32, 24),
               gather(101, 32, kind='all-reduce'), gather(101, 32, dtype='f32', times=12)]
    assert hlo.table_gathers(several, 101, 32) == {'bf16': 2, 'f32': 13}


@pytest.mark.parametrize('moved, logits', [
    (gather(8, 20, 101), True), (gather(40, 101, dtype='f32'), True), (gather(101, 40), True),
    (gather(8, 101, kind='all-reduce'), True), (gather(16, 20, 101, kind='all-to-all'), True),
    (gather(101, 32), False), (gather(32, 101), False), (gather(101, 8, kind='all-reduce'), False),
    (gather(101), False), (gather(20, 32), False)])
def test_a_transfer_of_logits_is_told_from_one_of_the_table_its_gradient_or_their_parts(moved, logits):
    assert hlo.logit_transfers([moved], 101, 32) == (
        {f'{moved.kind} {moved.arrays[0][0]}': 1} if logits else {})
