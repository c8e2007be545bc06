#!/bin/sh
# curl and nothing else: prints the status of an unknown model, then the raw bytes of a stream.
set -eu
ask() {
  curl --silent --show-error --no-buffer --max-time 60 --noproxy '*' \
    -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" "$@" "$URL/chat/completions"
}
body() {
  printf '{"model": "%s", "messages": [{"role": "user", "content": "Tell me a story."}],
    "max_tokens": 12, "temperature": 0, "stream": %s}' "$1" "$2"
}
ask -o /dev/null -w '%{http_code}\n' -d "$(body no-such-model false)"
ask -d "$(body "$MODEL" true)"
