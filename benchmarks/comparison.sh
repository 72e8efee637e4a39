#!/usr/bin/env bash
# The published comparison on one GPU, part by part; a part that is called again goes on with what is left.
#
#   bash benchmarks/comparison.sh FOLDER PART...
#
# Parts: gearbox-cal, gearbox-supcon, gearbox-tuned, motor-cal, motor-supcon, motor-tuned (ten trials of every method and
# the studies; a tuned part wants both others of its machine), core (what the ablation needs beyond CAL),
# efficiency, real (wants the recordings in the folder that DATA names). Parts of a machine share source models, so they
# belong on the same disk. Set CGSA to how cgsa is called, if it is not on the path. Eleven trials of the comparison
# train one model more than is compared: settings are chosen with it.
set -u
runs=$1
shift
cgsa=${CGSA:-cgsa}
how=(--device cuda --tf32 --workers "${WORKERS:-14}")
# Candidates that were drawn before: the search then needs no optuna.
mkdir -p "$runs"
for file in "$(dirname "$0")"/results/candidates/*.toml; do [ -e "$runs/${file##*/}" ] || cp "$file" "$runs"; done
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d 2> /dev/null

bench() { # PLAN OPTION...
    echo "$(date +%T) bench $*"
    $cgsa bench "$1" "$runs" "${how[@]}" --rows-only "${@:2}" || echo "FAILED: bench $*"
}

from_cal() { # MACHINE
    bench paper --only "$1/cal" --trials 11
    bench core --only "$1/cal"
    bench paper-cal --only "$1"
    for study in tau-epsilon tau-queue batch-size; do bench $study --only "$1"; done
    bench core-unseen --only "$1/cal"
}

tuned() { # MACHINE
    echo "$(date +%T) tune $1"
    $cgsa tune paper "$runs" --scenario "$1" "${how[@]}" || echo "FAILED: tune $1"
    bench "$runs/paper-$1-tuned.toml"
}

for part in "$@"; do
    case $part in
        *-cal) from_cal "${part%-cal}" ;;
        *-supcon) bench paper --only "${part%-supcon}/supcon" --trials 11 ;;
        *-tuned) tuned "${part%-tuned}" ;;
        core)
            bench core
            bench core-unseen
            ;;
        efficiency) bench efficiency --workers 1 ;; # jobs beside each other take each other's time
        real)
            bench real --data "$DATA"
            bench real-core --data "$DATA"
            ;;
        *) echo "no part $part" ;;
    esac
done
echo "$(date +%T) done"
