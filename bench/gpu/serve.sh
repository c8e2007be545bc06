#!/usr/bin/env bash
# Serves what render.sh rendered, on this machine, and measures it: P/D variants against the aggregated
# baseline, which stays up beside each of them.
#   bench/gpu/serve.sh OUT VARIANT...
# Needs a `python3` that has the engines and raypd's own requirements; no network, no Helm, no root.
# By environment: RENDERED (folder of render.sh's files; .rendered), REPEATS (rounds that count; 5),
# LIMIT (seconds of load for each variant; 150), QUESTIONS (options of `raypd bench serve`), MODEL
# (KEY=NUMBER words that change the model's shape; see model.py), WAIT (seconds for a start; 240).
#
# Writes into OUT: serve-VARIANT.json, again after each measurement; start-VARIANT.json; failures.txt;
# logs.tgz with what the engines wrote. What is there already is kept, with failures appended.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
work=/tmp/raypd-bench # as in values.yaml
mkdir -p "$work/logs"
export RAYPD_CACHE=$work/raypd PYTHONUNBUFFERED=1
read -ra shape <<< "${MODEL:-}"
read -ra questions <<< "${QUESTIONS:---prompts 1024,4096,8192 --mix 4096@2,4,6 --streams 8 --seconds 8 --load 128:128@8}"

# A Python that finds everything without variables: engines get none of the caller's.
if [ -z "${RAYPD_RUNTIME_PYTHON:-}" ]; then
  export RAYPD_RUNTIME_PYTHON=$work/engines/bin/python
  if [ ! -x "$RAYPD_RUNTIME_PYTHON" ]; then
    python3 -m venv --without-pip "$work/engines"
    python3 -c 'import sys; print(*filter(None, sys.path), sep="\n")' \
      > "$(echo "$work"/engines/lib/python*/site-packages)/engines.pth"
  fi
fi
raypd() { PYTHONPATH=scripts${PYTHONPATH:+:$PYTHONPATH} python3 -m raypd "$@"; }

# Starts a variant; what it said, and the ends of its engines' logs, go to failures.txt if it does not serve.
up() {
  local begin=$SECONDS
  if raypd local up --manifest "${RENDERED:-.rendered}/$1.yaml" --name "$1" --wait "${WAIT:-240}" > "$work/$1.up" 2>&1; then
    echo "$1 serves after $((SECONDS - begin)) s"
    raypd bench start "$1" --json "$out/start-$1.json"
    return 0
  fi
  echo "$1 does not serve; see failures.txt"
  {
    echo "== $1"
    tail -n 30 "$work/$1.up"
    for log in /tmp/raypd-*/ray/*/session_2*/logs/worker-*.{err,out}; do
      [ -s "$log" ] && echo "-- $log" && tail -n 25 "$log"
    done
  } >> "$out/failures.txt"
  return 1
}

# Keeps the logs of a variant's engines, and ends it.
down() {
  for log in /tmp/raypd-*/ray/*/session_2*/logs/worker-*; do
    [ -s "$log" ] && cp --parents "$log" "$work/logs"
  done
  tar -czf "$out/logs.tgz" -C "$work/logs" .
  raypd local down --name "$1"
}

[ -d "$work/models/8b" ] || python3 bench/gpu/model.py "$work/models/8b" "${shape[@]}"
baseline=()
for variant in "$@"; do
  [ "$variant" = aggregated ] && up aggregated && baseline=(aggregated)
done
for variant in "$@"; do
  [ "$variant" = aggregated ] && continue
  up "$variant" || continue
  raypd bench serve "$variant" "${baseline[@]}" "${questions[@]}" --repeats "${REPEATS:-5}" \
    --limit "${LIMIT:-150}" --json "$out/serve-$variant.json"
  down "$variant"
done
[ ${#baseline[@]} = 0 ] || down aggregated
