"""OpenAI's own client for Python. Prints what it sees as JSON."""

import os

from openai import NotFoundError, OpenAI
from seen import tell

model = os.environ["MODEL"]
client = OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"], max_retries=0)
asked = {
    "model": model,
    "messages": [{"role": "user", "content": "Tell me a story."}],
    "max_tokens": 12,
    "temperature": 0,
}

whole = client.chat.completions.create(**asked)
pieces, usage = [], None
for chunk in client.chat.completions.create(
    **asked, stream=True, stream_options={"include_usage": True}
):
    pieces += [choice.delta.content or "" for choice in chunk.choices]
    usage = chunk.usage or usage
try:
    client.chat.completions.create(**{**asked, "model": "no-such-model"})
    error = None
except NotFoundError as refused:
    error = refused.status_code

tell(
    whole.choices[0].message.content,
    pieces,
    whole.usage.completion_tokens,
    usage.completion_tokens,
    error,
)
