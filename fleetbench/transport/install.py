"""How a command becomes root, and how a file gets to its place: shared by all real transports."""

from __future__ import annotations

from collections.abc import Sequence

# Same directory first, then rename: a reader sees the old file or the new one, never half of it.
# On SELinux hosts a file that was made below /tmp keeps that label until restorecon runs.
INSTALL_FILE = r"""
set -eu
source=$1 path=$2 mode=$3 owner=$4
temporary=$(mktemp -- "$path.XXXXXX")
trap 'rm -f -- "$temporary"' EXIT
chmod 0600 -- "$temporary"
cat -- "$source" > "$temporary"
chown -- "$owner" "$temporary"
chmod -- "$mode" "$temporary"
sync -- "$temporary" 2>/dev/null || true
mv -fT -- "$temporary" "$path"
trap - EXIT
if [ -e /sys/fs/selinux/enforce ]; then restorecon -F -- "$path"; fi
"""


# Largest file that is fetched: the detailed result of 100,000 requests has about 300 MB.
MOST_FILE = 512 * 2**20
# The file may be a service user's: a pipe would never end, a link to /dev/zero neither.
READ_FILE = r"""
set -eu -o pipefail
size=$(stat -Lc %s -- "$1")
[ -f "$1" ] || { echo "no regular file" >&2; exit 66; }
[ "$size" -le "$2" ] || { echo "larger than $2 bytes" >&2; exit 66; }
head -c "$2" -- "$1" | base64 -w0
"""


def become(argv: Sequence[str], *, login_is_root: bool, as_user: str = "") -> tuple[str, ...]:
    """Given a command and the login's rights, return the command that runs as root or as `as_user`.

    Only `sudo -n`: a password prompt would hang, and three wrong tries trip faillock.
    `runuser` (util-linux) changes user without PAM's password checks when we are root already.
    """
    if as_user:
        inner = ("runuser", "-u", as_user, "--", *argv)
        return inner if login_is_root else ("sudo", "-n", "--", *inner)
    return tuple(argv) if login_is_root else ("sudo", "-n", "--", *argv)
