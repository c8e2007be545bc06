"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

from unit.conformance.wrong import fail, misbehaviour, refusing

_NONE = "no-such-type"


MISBEHAVIOURS = [
    misbehaviour(
        "forms mean nothing",
        "structured/json-schema structured/json-schema-streamed structured/json-object "
        "structured/client-parses unicode/whole-answer unicode/streamed-answer",
        form=lambda o, body: None,
    ),
    misbehaviour(
        "forms mean nothing in streams",
        "structured/json-schema-streamed unicode/streamed-answer",
        form=lambda o, body: None if body.get("stream") else o(body),
    ),
    misbehaviour(
        "values are not of the schema",
        "structured/json-schema structured/json-schema-streamed structured/client-parses",
        instance=lambda o, schema: "perhaps" if schema.get("type") == "boolean" else o(schema),
    ),
    misbehaviour(
        "forms are refused without a word",
        "structured/json-schema structured/json-schema-streamed structured/json-object "
        "structured/client-parses unicode/whole-answer unicode/streamed-answer",
        validate=refusing(lambda b: b.get("response_format"), 400, "No."),
    ),
    misbehaviour(
        "forms fell the server",
        "structured/json-schema structured/json-schema-streamed structured/json-object "
        "structured/client-parses unicode/whole-answer unicode/streamed-answer",
        validate=refusing(lambda b: b.get("response_format"), 500, "This is not supported."),
    ),
    misbehaviour(
        "a schema that is none is taken",
        "structured/broken-schema",
        validate_form=lambda o, body: None,
        form=lambda o, body: None if _NONE in str(body) else o(body),
    ),
    misbehaviour(
        "a schema that is none fells the server",
        "structured/broken-schema",
        validate_form=lambda o, body: _NONE in str(body) and fail(500),
    ),
    misbehaviour(
        "a list for an object",
        "structured/json-object",
        form=lambda o, body: [1] if "json_object" in str(body) else o(body),
    ),
]
