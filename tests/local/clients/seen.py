"""What the Python clients here print, one and all."""

import json


def tell(
    whole: str, pieces: list[str], tokens: int, streamed_tokens: int, error: int | None
) -> None:
    """Prints the whole answer, the streamed one, both counts, and the status for an unknown model."""
    print(
        json.dumps(
            {
                "whole": whole,
                "streamed": "".join(pieces),
                "pieces": len([piece for piece in pieces if piece]),
                "tokens": tokens,
                "streamed_tokens": streamed_tokens,
                "error": error,
            }
        )
    )
