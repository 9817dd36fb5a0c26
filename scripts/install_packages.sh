#!/usr/bin/env bash
# install_packages.sh GROUP...: installs what is missing of these groups of scripts/packages.txt.
# As root, or by sudo; with neither it prints the line to type and exits 3. A package of the group
# `optional` that cannot be had is reported and left out.
set -euo pipefail
cd "$(dirname "$0")/.."

kExitEnvironment=3
apt_options=(-o DPkg::Lock::Timeout=300)
install_options=(-y --no-install-recommends)

packages_of() {  # GROUP
  awk -v group="[$1]" '/^\[/ { inside = ($0 == group); next } inside && NF && !/^#/' scripts/packages.txt
}

is_installed() {  # PACKAGE
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# Root, or a sudo that works without a question, or one that can ask at a terminal.
can_be_root() {
  [[ $(id -u) == 0 ]] && return
  command -v sudo >/dev/null || return
  sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }
}

# Of today, and read after the last change of where packages come from.
lists_are_fresh() {
  local list
  list=$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' -mtime -1 -print -quit 2>/dev/null)
  [[ -n $list && -z $(find /etc/apt/sources.list /etc/apt/sources.list.d -newer "$list" -print -quit 2>/dev/null) ]]
}

update_lists() { as_root apt-get "${apt_options[@]}" update -q; }

install() {  # PACKAGE...
  as_root apt-get "${apt_options[@]}" install -q "${install_options[@]}" "$@" </dev/null
}

refuse() {  # REASON PACKAGE...
  printf '%s\nType this, then start again:\n' "$1" >&2
  shift
  printf '  sudo apt-get update && sudo apt-get install %s %s\n' "${install_options[*]}" "$*" >&2
  exit "$kExitEnvironment"
}

main() {
  local required=() optional=() group package
  for group in "$@"; do
    for package in $(packages_of "$group"); do
      is_installed "$package" && continue
      if [[ $group == optional ]]; then optional+=("$package"); else required+=("$package"); fi
    done
  done
  (( ${#required[@]} + ${#optional[@]} )) || return 0
  printf 'setup: missing packages: %s\n' "${required[*]} ${optional[*]}"

  if ! command -v apt-get >/dev/null; then
    refuse "This machine has no apt-get; on another system install what corresponds." "${required[@]}"
  elif ! can_be_root; then
    (( ${#required[@]} )) && refuse "Installing needs root or sudo." "${required[@]}"
    return 0
  fi
  lists_are_fresh || update_lists
  if (( ${#required[@]} )) && ! install "${required[@]}"; then
    update_lists
    install "${required[@]}" || refuse "apt-get could not install all packages." "${required[@]}"
  fi
  for package in "${optional[@]}"; do
    install "$package" || printf 'setup: %s cannot be had; what needs it is skipped\n' "$package"
  done
}

main "$@"
