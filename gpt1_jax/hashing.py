"""The integer hash behind dropout masks and checkpoint digests."""
import jax.numpy as jnp


def mix(x):
    """A bijection of uint32 in which every input bit flips every output bit about half of the time ("lowbias32")."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
