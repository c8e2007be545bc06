"""LangChain's chat model for OpenAI-compatible servers."""

import os

from langchain_openai import ChatOpenAI
from openai import NotFoundError
from seen import tell


def model(name: str) -> ChatOpenAI:
    return ChatOpenAI(
        model=name,
        base_url=os.environ["URL"],
        api_key=os.environ["KEY"],
        max_tokens=12,
        temperature=0,
        max_retries=0,
        stream_usage=True,
    )


chat = model(os.environ["MODEL"])
whole = chat.invoke("Tell me a story.")
pieces = list(chat.stream("Tell me a story."))
together = pieces[0]
for piece in pieces[1:]:
    together = together + piece
try:
    model("no-such-model").invoke("Tell me a story.")
    error = None
except NotFoundError as refused:
    error = refused.status_code

tell(
    whole.content,
    [piece.content for piece in pieces],
    whole.usage_metadata["output_tokens"],
    together.usage_metadata["output_tokens"],
    error,
)
