"""How well a language model predicts a text, from its losses."""
import math


def perplexity(loss: float) -> float:
    """e^loss, of a mean loss in nats a token or a word; without an overflow."""
    return math.exp(min(loss, 700))


def bits_per_byte(loss: float, bytes_per_token: float) -> float:
    """Of a mean loss in nats a token."""
    return loss / math.log(2) / bytes_per_token
