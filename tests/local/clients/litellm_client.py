"""LiteLLM, which many gateways are made of."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one when it is imported

import litellm
from seen import tell

asked = {
    "api_base": os.environ["URL"],
    "api_key": os.environ["KEY"],
    "messages": [{"role": "user", "content": "Tell me a story."}],
    "max_tokens": 12,
    "temperature": 0,
    "num_retries": 0,
}
model = f"openai/{os.environ['MODEL']}"

whole = litellm.completion(model=model, **asked)
pieces, usage = [], None
for chunk in litellm.completion(
    model=model, stream=True, stream_options={"include_usage": True}, **asked
):
    pieces += [choice.delta.content or "" for choice in chunk.choices]
    usage = getattr(chunk, "usage", None) or usage
try:
    litellm.completion(model="openai/no-such-model", **asked)
    error = None
except litellm.NotFoundError as refused:
    error = refused.status_code

tell(
    whole.choices[0].message.content,
    pieces,
    whole.usage.completion_tokens,
    usage.completion_tokens,
    error,
)
