"""The reader of collectives in compiled text, on text by hand."""

import re

import pytest

from experiments.compile import hlo

pytestmark = pytest.mark.full


def with_parameters(text):
    """A module's text with the instructions that the headers of its computations imply: from `%f
    (a: f32[8]{0}) -> ...` follows that `%a` is parameter 0."""

    def declared(header):
        parameters = re.findall(r'([\w.]+): (.+?)(?=, [\w.]+: |\) ->)', header[0])
        lines = [
            f'  %{name} = {shape} parameter({number})'
            for number, (name, shape) in enumerate(parameters)
        ]
        return '\n'.join([header[0], *lines])

    return re.sub(r'^(ENTRY )?%.+ \{$', declared, text, flags=re.MULTILINE)


# The forms that the compilers for CPU, GPU and TPU use. The loop `twelve` says how often it runs,
# `seven` has it in its condition, `lost` nowhere.
MODULE = with_parameters("""\
HloModule jit_step, is_scheduled=true, num_partitions=8
%all-reduce-scatter.1 (input: bf16[64,32]{1,0}) -> bf16[16,32] {
  %all-reduce.9 = bf16[64,32]{1,0:T(8,128)(2,1)} all-reduce(%input), channel_id=9, replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  ROOT %dynamic-slice = bf16[16,32]{1,0} dynamic-slice(%all-reduce.9, %zero), dynamic_slice_sizes={16,32}
}
%fused_start (p: bf16[8,24]{1,0}) -> bf16[32,24] {
  ROOT %all-gather.3 = bf16[32,24]{1,0} all-gather(%p), channel_id=5, replica_groups=[2,4]<=[8], dimensions={0}
}
%body.12 (arg: (s32[]{:T(128)}, bf16[8,24]{1,0:T(8,128)(2,1)S(1)})) -> (s32[], bf16[8,24]) {
  %one = bf16[8,24]{1,0} get-tuple-element(%arg), index=1
  %start = bf16[32,24]{1,0} fusion(%one), kind=kCustom, calls=%fused_start
  %inner = (s32[], bf16[8,24]{1,0}) while(%arg), condition=%cond.7, body=%body.7
  ROOT %out = (s32[], bf16[8,24]{1,0}) tuple(%count, %one)
}
%cond.12 (arg.1: (s32[], bf16[8,24]{1,0})) -> pred[] {
  ROOT %lt = pred[] custom-call(%arg.1), custom_call_target="unknowable"
}
%body.7 (arg.2: (s32[], bf16[8,24]{1,0})) -> (s32[], bf16[8,24]) {
  %collective-permute-start = (bf16[8,24]{1,0}, bf16[8,24]{1,0}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%y), channel_id=2, source_target_pairs={{0,1},{1,0}}
  %collective-permute-done = bf16[8,24]{1,0} collective-permute-done(%collective-permute-start)
  ROOT %out.1 = (s32[], bf16[8,24]{1,0}) tuple(%count, %collective-permute-done)
}
%cond.7 (arg.3: (s32[], bf16[8,24]{1,0})) -> pred[] {
  %bound = s32[]{:T(128)} constant(7)
  %i = s32[] get-tuple-element(%arg.3), index=0
  ROOT %lt.1 = pred[] compare(%i, %bound), direction=LT
}
ENTRY %main.1_spmd (p0: f32[101,8]{1,0}, p1: bf16[101,8]{1,0}) -> f32[] {
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
""")  # noqa: E501


def test_collectives_are_read_with_their_arrays_devices_and_number_and_added_up():
    found = hlo.collectives(MODULE, 8)
    of = {
        kind: [(one.arrays, one.devices, one.times, one.known) for one in found if one.kind == kind]
        for kind in hlo.KINDS
    }
    assert of == dict.fromkeys(hlo.KINDS, []) | {
        'all-gather': [((('bf16', (101, 32)),), 4, 1, True), ((('bf16', (32, 24)),), 4, 12, True)],
        # with what it takes
        'all-reduce': [
            ((('f32', (6,)),), 8, 1, True),
            ((('f32', (2, 3)), ('bf16', (4,))), 4, 1, True),
        ],
        # whole, in each of its forms
        'reduce-scatter': [
            ((('bf16', (4, 8, 12)), ('bf16', (4, 8))), 4, 1, True),
            ((('f32', (2, 5)),), 2, 1, True),
            ((('bf16', (64, 32)),), 4, 1, True),
        ],
        # a loop within a loop multiplies, one of unknown length counts once and says so
        'collective-permute': [
            ((('bf16', (8, 24)),), 2, 84, True),
            ((('bf16', (8, 24)),), 2, 1, False),
        ],
        'all-to-all': [((('s32', (1, 7)), ('s32', (1, 7))), 2, 1, True)],
    }
    # By hand, in bytes: gathers 101 x 32 x 2 and 12 times 32 x 24 x 2, of which three quarters are
    # sent.
    table = 6464
    layers = 12 * 1536
    assert hlo.summary(found) == {
        'all-gather': {'count': 13, 'bytes': table + layers, 'sent': (table + layers) * 3 // 4},
        'all-reduce': {'count': 2, 'bytes': 24 + 32, 'sent': 2 * 24 * 7 // 8 + 2 * 32 * 3 // 4},
        'reduce-scatter': {'count': 3, 'bytes': 832 + 40 + 4096, 'sent': 624 + 20 + 3072},
        'all-to-all': {'count': 1, 'bytes': 56, 'sent': 28},
        'collective-permute': {'count': 85, 'bytes': 85 * 384, 'sent': 85 * 384},
    }


# The compiler for TPUs spreads an asynchronous gather over three fusions, which have its channel.
# The gathers of two layers have the same channel: only the name of the first fusion tells that
# another gather begins.
POD = with_parameters(
    ''.join(
        f"""\
%{name} (p: f32[75]{{0}}) -> f32[300] {{
  ROOT %gather.{name} = f32[100]{{0}} all-gather(%p), channel_id=5, replica_groups=[1,4]<=[4], dimensions={{0}}
}}
"""
        for name in ('fused_start', 'fused_between', 'fused_end')
    )
    + """\
ENTRY %main (a: f32[8]{0}) -> f32[8] {
  %async-collective-start = f32[8]{0} fusion(%a), kind=kCustom, calls=%fused_start
  %between = f32[8]{0} fusion(%async-collective-start), kind=kCustom, calls=%fused_between
  %async-collective-done = f32[8]{0} fusion(%between), kind=kCustom, calls=%fused_end
  %async-collective-start.1 = f32[8]{0} fusion(%a), kind=kCustom, calls=%fused_start
  %async-collective-done.1 = f32[8]{0} fusion(%async-collective-start.1), kind=kCustom, calls=%fused_end
  ROOT %out = f32[8]{0} add(%async-collective-done, %async-collective-done.1)
}
"""
)


def test_a_collective_that_several_fusions_share_counts_once_a_layer():
    assert [one.arrays[0][1] for one in hlo.collectives(POD, 4) if one.kind == 'all-gather'] == [
        (100,)
    ] * 2
