#!/usr/bin/env bash
# Renders the chart for each variant, for a machine that has no Helm.
#   bench/gpu/render.sh FOLDER [OPTION OF raypd render ...]     e.g. -f bench/gpu/cpu.yaml
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$1
shift
mkdir -p "$folder"
for variant in bench/gpu/variants/*.yaml; do
  python3 scripts/bootstrap.py raypd render -f bench/gpu/values.yaml -f "$variant" "$@" \
    > "$folder/$(basename "$variant")"
done
