#!/usr/bin/env bash
# Run the published comparison on one GPU, part by part. An interrupted part resumes when you call it again.
#
#   bash benchmarks/comparison.sh FOLDER PART...
#
# Parts:
#   gearbox-cal, gearbox-supcon, motor-cal, motor-supcon   ten trials of every method, and the studies
#   gearbox-tuned, motor-tuned                             tuned settings; run both other parts of the machine first
#   core                                                   the trainings of the ablation other than CAL
#   efficiency                                             time and memory, one job at a time
#   real                                                   real machines; DATA names the folder of recordings
#   readings                                               readings of what the paper leaves open, in a folder of their own
#   fair                                                   the same views for every objective, in FOLDER/fair
#
# The parts of one machine share source models, so keep them in one FOLDER. Set CGSA to the command that starts cgsa if it is
# not on the path. The comparison trains an eleventh model, which is not compared: the search for settings uses it.
set -u
runs=$1
shift
cgsa=${CGSA:-cgsa}
how=(--device cuda --tf32 --workers "${WORKERS:-14}")
# Reuse the published candidates: the search then needs no optuna.
mkdir -p "$runs"
for file in "$(dirname "$0")"/results/plans/*-tuning.toml; do [ -e "$runs/${file##*/}" ] || cp "$file" "$runs"; done
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
        efficiency) bench efficiency --workers 1 ;; # parallel jobs would slow each other down
        real)
            bench real --data "$DATA"
            bench real-core --data "$DATA"
            ;;
        readings) $cgsa bench readings "$runs" "${how[@]}" ;;
        fair)
            for plan in fair fair-core; do $cgsa bench $plan "$runs/fair" "${how[@]}" --rows-only; done
            ;;
        *) echo "unknown part $part" ;;
    esac
done
echo "$(date +%T) done"
