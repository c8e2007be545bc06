"""`helm test`: the endpoint lists the model and answers a chat request.

Arguments: base URL up to /v1, model id, seconds to wait for the endpoint. Where it asks for a key,
API_KEYS is a folder with some. Standard library only, so that it runs in any image with Python. A
right answer alone does not prove that prefill and decode are apart; `raypd verify` does that by the
engines' counters.
"""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request

base, model, patience = sys.argv[1], sys.argv[2], float(sys.argv[3])
headers = {"Content-Type": "application/json"}
if folder := os.environ.get("API_KEYS"):
    key = min(pathlib.Path(folder).glob("[!.]*"))
    headers["Authorization"] = f"Bearer {key.read_text().strip()}"
deadline = time.monotonic() + patience


def call(path, body=None):
    request = urllib.request.Request(
        base + path,
        data=json.dumps(body).encode() if body else None,
        headers=headers,
    )
    with urllib.request.urlopen(request, timeout=max(1, deadline - time.monotonic())) as response:
        return json.load(response)


while True:
    try:
        served = [entry["id"] for entry in call("/models")["data"]]
        break
    except (OSError, ValueError) as error:
        if time.monotonic() > deadline - 5:
            sys.exit(
                f"{base}/models did not answer: {error}. Is the RayService's application RUNNING?"
            )
        time.sleep(5)
print("models:", ", ".join(served))
if model not in served:
    sys.exit(f"{model} is not among them")

try:
    answer = call(
        "/chat/completions",
        {
            "model": model,
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": 16,
        },
    )
except urllib.error.HTTPError as error:
    sys.exit(f"chat request failed: {error}: {error.read().decode(errors='replace')[:500]}")
choice, usage = answer["choices"][0], answer["usage"]
print("answer:", json.dumps(choice["message"], ensure_ascii=False))
print("usage:", json.dumps(usage))
if choice["finish_reason"] not in ("stop", "length"):
    sys.exit(f"finish_reason is {choice['finish_reason']!r}, expected stop or length")
if not (usage["prompt_tokens"] > 0 and 0 < usage["completion_tokens"] <= 16):
    sys.exit("usage does not count the prompt and at most 16 tokens of answer")
