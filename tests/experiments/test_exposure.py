"""What of the exchange between chips no kernel runs beside, from a compiled step's text."""
import pytest

from experiments.compile import exposure, hlo

pytestmark = pytest.mark.full

# Transfers: of 100, 200, 300 and 400 bytes sent, at a byte a second, beside kernels of 150 seconds each.
POD = """\
%fused_start (p: f32[75]) -> f32[300] {
  %p = f32[75]{0} parameter(0)
  ROOT %gather.1 = f32[100]{0} all-gather(%p), channel_id=5, replica_groups=[1,4]<=[4], dimensions={0}
}

%fused_end (p: f32[75]) -> f32[300] {
  %p.1 = f32[75]{0} parameter(0)
  ROOT %gather.2 = f32[100]{0} all-gather(%p.1), channel_id=5, replica_groups=[1,4]<=[4], dimensions={0}
}

%fused_between (p: f32[75]) -> f32[300] {
  %p.2 = f32[75]{0} parameter(0)
  ROOT %gather.3 = f32[100]{0} all-gather(%p.2), channel_id=5, replica_groups=[1,4]<=[4], dimensions={0}
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %now = f32[50]{0} collective-permute(%a), channel_id=1, source_target_pairs={{0,1},{1,0}}
  %start = (f32[25]{0}, f32[25]{0}) collective-permute-start(%a), channel_id=2, source_target_pairs={{0,1},{1,0}}
  %later = (f32[50]{0}, f32[50]{0}) collective-permute-start(%a), channel_id=3, source_target_pairs={{0,1},{1,0}}
  %work = f32[8]{0} add(%a, %a)
  %done = f32[25]{0} collective-permute-done(%start)
  %end = f32[50]{0} collective-permute-done(%later)
  %async-collective-start = f32[8]{0} fusion(%a), kind=kCustom, calls=%fused_start
  %between = f32[8]{0} fusion(%async-collective-start), kind=kCustom, calls=%fused_between
  %async-collective-done = f32[8]{0} fusion(%between), kind=kCustom, calls=%fused_end
  %async-collective-start.1 = f32[8]{0} fusion(%a), kind=kCustom, calls=%fused_start
  %async-collective-done.1 = f32[8]{0} fusion(%async-collective-start.1), kind=kCustom, calls=%fused_end
  ROOT %out = f32[8]{0} add(%async-collective-done, %async-collective-done.1)
}
"""


def test_what_is_exposed_of_a_transfer_is_what_no_kernel_runs_beside():
    seconds = {'work': 150.0, 'async-collective-start': 150.0, 'between': 60.0, 'async-collective-done': 40.0,
               'async-collective-done.1': 200.0}
    found = exposure.exposed(POD, 4, seconds, lambda sent: sent)
    # 200 at once; 100 and 200 beside 150: 150 left; a gather of 400, of which 300 are sent, beside 250; the same of the
    # next layer, with the same channel, beside 200.
    assert found == {'transfers': 200 + 300 + 2 * 300, 'exposed': 200 + 150 + 50 + 100,
                     'asynchronous': 4, 'synchronous': 1}
    assert [one.arrays[0][1] for one in hlo.collectives(POD, 4) if one.kind == 'all-gather'] == [(100,)] * 2
