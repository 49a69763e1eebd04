"""What a step needs, what there was, and so what would fit, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

#: What is kept of a layer's output for its gradient, and the gradient itself.
_KEPT = 2


@dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes, 0 where they are not known. ``a_record`` is the estimate of all layers' outputs for one record; ``free``
    what was left at the fault; ``pieces`` that the batch was trained in already."""

    asked: int = 0
    weights: int = 0
    optimiser: int = 0
    a_record: int = 0
    batch_size: int = 0
    pieces: int = 1
    free: int = 0

    @property
    def fits(self) -> int:
        """Records whose activations fit into what was free."""
        return self.free // (_KEPT * self.a_record) if self.a_record else 0

    @property
    def sentence(self) -> str:
        """What would fit, plainly."""
        at_once = -(-self.batch_size // max(self.pieces, 1))
        if not (self.a_record and self.batch_size and self.free):
            asked = amount(self.asked) if self.asked else "an amount that is not known"
            free = f"{amount(self.free)} were free" if self.free else "how much was free is not known"
            return f"{asked} was asked for, and {free}: fewer records at once, or a smaller model, ask for less."
        if self.fits < 1:
            return (
                f"Not even one record fits: its activations need about {amount(_KEPT * self.a_record)}, and "
                f"{amount(self.free)} were free: only a smaller model or smaller inputs help."
            )
        if self.fits >= at_once:
            return (
                f"By this estimate {at_once} records fit at once (about {amount(_KEPT * self.a_record * at_once)} of "
                f"the {amount(self.free)} that were free): what failed is not the model's own, or memory was in pieces "
                "or taken by others."
            )
        pieces = -(-self.batch_size // self.fits)
        return (
            f"About {self.fits} of the batch's {self.batch_size} records would fit at once into the "
            f"{amount(self.free)} that were free: {pieces} micro-batches, or batch_size={self.fits}."
        )


def amount(size: float) -> str:
    """Bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} TB"
