# own_place DIRECTORY USER: make a directory that is root's own, below a prefix and a runs/ that are.
# Whoever owns a directory can put a link in the place of what is in it: below one of the service user's, root
# would write to, and give away, whatever the link leads to. Prompts may be confidential: beside root, only the
# service user gets in.
own_place() {
  local place
  for place in "${1%/*/*}" "${1%/*}" "$1"; do
    [ -e "$place" ] || mkdir -m 0755 -- "$place" || return 73
    if [ ! -d "$place" ] || [ ! -O "$place" ]; then
      echo "$place belongs to $(stat -Lc %U -- "$place"), not to root" >&2
      return 73
    fi
  done
  chgrp -- "$(id -g -- "$2")" "$1" && chmod 0750 -- "$1" || return 73
}
