#!/bin/sh
# The ClientApp's process in a sandbox of bubblewrap: Python, the folders named here, and nothing else. It has no
# network, no other process to look at, an empty home and an empty /tmp, and no variables of the node's environment.
#
#   fedkd node run --sandbox "/etc/fedkd/sandbox.sh STATE-DIR READABLE... --" OPTIONS
#
# STATE-DIR may be written to. READABLE are the folders of the private and the public files, and of the Python
# environment (and, if that is not under /usr, of the Python it was made with).
set -eu
state=$1
shift
readable=
while [ "$1" != "--" ]; do
    readable="$readable --ro-bind $1 $1"
    shift
done
shift
(umask 077 && mkdir -p "$state")

# shellcheck disable=SC2086  # the folders' names have no spaces: they are listed in one option
exec bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --ro-bind-try /etc/localtime /etc/localtime \
    --proc /proc --dev /dev --tmpfs /tmp --dir /tmp/home --setenv HOME /tmp/home --setenv LANG C.UTF-8 --chdir /tmp \
    $readable --bind "$state" "$state" -- "$@"
