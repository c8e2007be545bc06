#!/usr/bin/env bash
# Serves what render.sh rendered, on this machine, and measures it: P/D variants one after the other,
# each beside the aggregated baseline if that is among the variants.
#   bench/gpu/serve.sh OUT VARIANT...
# Needs a `python3` that by itself, without variables, finds the engines and what raypd imports (env.sh
# of unpack.sh gives one); no network, no Helm.
# By environment:
#   RENDERED   folder of render.sh's files (.rendered)
#   TIME       seconds for everything (570): what does not fit any more is left out
#   LIMIT      seconds of load for each variant (150)
#   REPEATS    rounds that count, as far as LIMIT lets them (5)
#   QUESTIONS  options of `raypd bench serve`
#   MODEL      KEY=NUMBER words that change the model's shape (see model.py)
#
# Writes into OUT: serve-VARIANT.json, again after each measurement; engines.tgz with what the engines
# wrote and start-VARIANT.json; failures.txt with the last words of what did not come up.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
work=/tmp/raypd-bench # as in values.yaml
time=${TIME:-570}
kept=$work/kept-$$
mkdir -p "$kept"
export RAYPD_CACHE=$work/raypd PYTHONUNBUFFERED=1
read -ra shape <<<"${MODEL:-}"
read -ra questions <<<"${QUESTIONS:---prompts 1024,4096,8192 --mix 4096@2,4 --streams 8 --seconds 6 --load 128:128@8}"

export RAYPD_RUNTIME_PYTHON=${RAYPD_RUNTIME_PYTHON:-$(command -v python3)}
raypd() { PYTHONPATH=scripts python3 -m raypd "$@"; }
left() { echo $((time - SECONDS)); }

# What engines have written so far, and the endpoint, which says of each request where its time went.
keep() {
  for log in /tmp/raypd-*/ray/*/session_2*/logs/{worker-*,serve/replica_*}; do
    [ -s "$log" ] && cp -p --parents "$log" "$kept"
  done
  tar -czf "$out/engines.tgz" -C "$kept" .
}

up() {
  local begin=$SECONDS
  if raypd local up --manifest "${RENDERED:-.rendered}/$1.yaml" --name "$1" --wait "$(left)" \
    >"$kept/$1.up" 2>&1; then
    echo "$1 serves after $((SECONDS - begin)) s"
    raypd bench start "$1" --json "$kept/start-$1.json"
    keep
    return 0
  fi
  keep
  {
    echo "== $1 does not serve"
    tail -n 30 "$kept/$1.up"
    find "$kept" -name 'worker-*' -size +1k -newer "$kept/begin" -exec tail -n 25 {} +
  } | tee -a "$out/failures.txt"
  return 1
}

down() {
  keep
  raypd local down --name "$1"
}

[ -d "$work/models/8b" ] || python3 bench/gpu/model.py "$work/models/8b" "${shape[@]}"
touch "$kept/begin"
baseline=()
for variant in "$@"; do
  [ "$variant" = aggregated ] && up aggregated && baseline=(aggregated)
done
for variant in "$@"; do
  [ "$variant" = aggregated ] && continue
  if [ "$(left)" -lt 90 ]; then
    echo "$variant: left out, $(left) s are left" | tee -a "$out/failures.txt"
    continue
  fi
  touch "$kept/begin"
  up "$variant" || continue
  limit=$(($(left) - 20))
  raypd bench serve "$variant" "${baseline[@]}" "${questions[@]}" --repeats "${REPEATS:-5}" \
    --time-limit $((limit < ${LIMIT:-150} ? limit : ${LIMIT:-150})) --json "$out/serve-$variant.json"
  down "$variant"
done
[ ${#baseline[@]} = 0 ] || down aggregated
