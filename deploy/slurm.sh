#!/bin/bash
# One campaign on all nodes of a Slurm allocation: sbatch deploy/slurm.sh [FOLDER [OPTIONS OF anchor search]]
# The nodes must be ours alone (--exclusive): `ray symmetric-run` ends with `ray stop`, which ends every Ray of
# this user on a node. The same command goes on with a campaign that was cut off.
#SBATCH --job-name=anchor
#SBATCH --nodes=4 --ntasks-per-node=1 --exclusive
#SBATCH --time=24:00:00 --signal=B:TERM@300
set -euo pipefail

run=${1:-runs/cluster}
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=${RAY_AUTH_TOKEN_PATH:-$HOME/.anchor-ray-token}
export OMP_NUM_THREADS=1 RAY_USAGE_STATS_ENABLED=0
if [ ! -s "$RAY_AUTH_TOKEN_PATH" ]; then
    (umask 077 && python3 -c 'import secrets; print(secrets.token_hex(32))' > "$RAY_AUTH_TOKEN_PATH")
fi

if [ -e "$run/ledger.db" ]; then
    command=(anchor resume "$run" --address auto)
else
    command=(anchor search --preset learn --out "$run" --address auto --set search.staleness=4 "${@:2}")
fi

# Slurm's signal before the end of the time is for the campaign alone, which runs on this node: it finishes its
# step. Sent to all, it would end Ray first.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST") # all of them: a closed pipe would end us
campaign=$(mktemp)
trap 'kill -TERM "$(cat "$campaign")"' TERM
srun --ntasks="$SLURM_JOB_NUM_NODES" ray symmetric-run --address "${nodes[0]}:6379" --min-nodes "$SLURM_JOB_NUM_NODES" \
    -- bash -c 'echo $$ > "$0"; exec "$@"' "$campaign" "${command[@]}" &
until wait $!; do
    kill -0 $! 2> /dev/null || exit 1 # not the signal: srun has ended
done
