# What the demos share; each of them sources it. For bash 3.2, which macOS has, and later.

demo=${0##*/}
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
work=
KL=${KL:-}
TERRAFORM=${TERRAFORM:-${KL_IAC_BIN:-}}

# The demos change directories: a path that was given has to stay the same.
case $KL in
  /* | '') ;;
  */*) KL=$PWD/$KL ;;
esac
case $TERRAFORM in
  /* | '') ;;
  */*) TERRAFORM=$PWD/$TERRAFORM ;;
esac

step() { printf '\n== %s\n' "$*"; }
say() { printf '%s\n' "$@"; }
fail() {
  printf '%s: %s\n' "$demo" "$1" >&2
  shift
  for line; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# Shows a command, then runs it.
run() {
  local word
  printf '$ %s' "${1##*/}"
  for word in "${@:2}"; do
    case $word in
      *\'*) printf ' "%s"' "$word" ;;
      *[!A-Za-z0-9_./:=@%+,-]*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n'
  "$@"
}

# kl of this checkout, else of PATH.
find_kl() {
  [ -n "$KL" ] || KL=$root/bin/kl
  [ -x "$KL" ] || KL=$(command -v "${KL##*/}" || true)
  [ -n "$KL" ]
}

need_kl() {
  find_kl || fail "kl is neither $root/bin/kl nor on PATH." "Make it with: make -C $root build"
}

need_terraform() {
  local name
  for name in ${TERRAFORM:-terraform tofu}; do
    TERRAFORM=$(command -v "$name" || true)
    [ -z "$TERRAFORM" ] || return 0
  done
  fail "neither terraform nor tofu is on PATH." "Install one: https://developer.hashicorp.com/terraform/install"
}

need_init() {
  [ -f "$here/${TF_DATA_DIR:-.terraform}/terraform.tfstate" ] || [ -f "${TF_DATA_DIR:-}/terraform.tfstate" ] ||
    fail "terraform init was not run in $here." "Run it: cd $here && terraform init"
}

# Somewhere to work that is gone at the end, whatever the end is.
make_work() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/kilolock-demo.XXXXXX")
  trap 'leave $?' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
}

leave() {
  trap '' INT TERM HUP
  trap - EXIT
  clean_up || true
  rm -rf "$work"
  exit "$1"
}

clean_up() { :; }
