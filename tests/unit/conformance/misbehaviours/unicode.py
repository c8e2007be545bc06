"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import fail, misbehaviour


def _unescaped(original, content):
    """Escapes of characters beyond ASCII stand for themselves."""
    return original(content.replace(b"\\u", b"\\\\u") if b"\\ud83d\\ude42" in content else content)


def _lossy(original, schema):
    found = original(schema)
    return found if not isinstance(found, str) or found.isascii() else "?"


MISBEHAVIOURS = [
    misbehaviour(
        "escapes are read as they stand",
        "unicode/prompts unicode/whole-answer unicode/streamed-answer",
        parsed=_unescaped,
    ),
    misbehaviour(
        "raw characters fell the server",
        "unicode/prompts",
        answer=lambda o, method, path, key, content: (
            o(method, path, key, content) if content.isascii() else o(method, path, key, b"{")
        ),
    ),
    misbehaviour(
        "half of a pair fells the server",
        "unicode/half-a-pair",
        prompt=lambda o, messages: (
            fail(500) if "half \ud83d of" in str(messages[0].get("content")) else o(messages)
        ),
    ),
    misbehaviour(
        "characters are lost", "unicode/whole-answer unicode/streamed-answer", instance=_lossy
    ),
    misbehaviour(
        "pieces have halves of characters",
        "unicode/streamed-answer",
        pieces=lambda o, choice: (
            [(token.decode(errors="replace"), [token]) for token in choice.tokens]
            if b"\xc3" in choice.tokens
            else o(choice)
        ),
    ),
]
