#!/bin/sh
# The ClientApp's process in a container without a network (see Containerfile):
#   fedkd node run --sandbox "/etc/fedkd/container.sh STATE-DIR DATA-DIR" -- OPTIONS
# Both folders have the same names inside. `$1` after them is the node's own Python, which the image replaces.
set -eu
state=$1 data=$2
shift 3
exec docker run --interactive --rm --init --network none --read-only --tmpfs /tmp --cap-drop ALL \
    --security-opt no-new-privileges --user "$(id -u):$(id -g)" --env HOME=/tmp --memory 8g --pids-limit 256 \
    --volume "$state:$state" --volume "$data:$data:ro" --entrypoint python fedkd:0.2.0 "$@"
