"""Parameters of a layer of RWKV in its versions: what mixes tokens and what mixes channels."""

from shared.metadata.dimensions import Text

_HEAD = 64  # channels of a head
_WIDE = 4096  # from here on the low ranks of version 6 are twice as large


def count_4(text: Text, hidden: int) -> int:
    """Return the parameters of a layer of version 4."""
    attended = text.config.integer("attention_hidden_size") or hidden
    inner = text.config.integer("intermediate_size") or 4 * hidden
    mixed = 2 * attended + 3 * hidden + 3 * hidden * attended + attended * hidden
    return mixed + 2 * hidden + 2 * hidden * inner + hidden * hidden


def count_5(text: Text, hidden: int) -> int:
    """Return the parameters of a layer of version 5: a gate, and a decay for each channel."""
    return 6 * hidden * hidden + 2 * hidden * _inner(text, hidden) + 10 * hidden


def count_6(text: Text, hidden: int) -> int:
    """Return the parameters of a layer of version 6: shifts and decay of low rank, by the tokens."""
    double = 2 if hidden >= _WIDE else 1
    shifts, decays = 2 * 5 * 32 * double * hidden, 2 * _HEAD * double * hidden
    return 6 * hidden * hidden + 2 * hidden * _inner(text, hidden) + shifts + decays + 12 * hidden


def count_7(text: Text, hidden: int) -> int | None:
    """Return the parameters of a layer of version 7, behind the first; None where a low rank is not said."""
    names = ("decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim")
    ranks = [rank for name in names if (rank := text.config.integer(name)) is not None]
    if len(ranks) < len(names):
        return None
    inner = text.config.integer("intermediate_size") or (text.config.integer("hidden_ratio") or 4) * hidden
    return 4 * hidden * hidden + 2 * hidden * inner + 2 * sum(ranks) * hidden + 15 * hidden


def less_of_first(text: Text, hidden: int) -> int:
    """Return what the first layer of version 7 lacks: it has no earlier value to mix in."""
    return 2 * hidden * (text.config.integer("v_low_rank_dim") or 0) + hidden


def _inner(text: Text, hidden: int) -> int:
    return text.config.integer("intermediate_size") or 7 * hidden // 2 // 32 * 32
