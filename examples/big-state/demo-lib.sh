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
  show_command "$@"
  "$@"
}

show_command() {
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

# Whatever a demo has begun; those that begin something else than kl apply say so themselves.
clean_up() {
  if [ -n "$pids" ]; then
    say "" "Interrupted: both end what terraform has begun, and free what they reserved."
    stop_all
  fi
}

# What every demo on the state of this directory begins with: the programs, the state with these addresses, and $work.
begin() {
  need_kl
  need_terraform
  need_init
  cd "$here"
  make_work
  need_state "$@"
}

# The only value of a query's only row.
ask() {
  local sql=$1
  shift
  "$KL" query "$sql" --format csv "$@" | tail -n +2
}

# The name of this directory's state, which has to hold these addresses.
need_state() {
  local address
  "$KL" list >/dev/null 2>"$work/error" ||
    fail "no kld answers: $(cat "$work/error")" "Start one: make -C $root run" "Then apply this example: terraform apply -var=size=100"
  name=$("$KL" status --format json 2>/dev/null | sed -n '1s/^\[{"name": "\([^"\\]*\)",.*/\1/p') || true
  for address; do
    [ -n "$name" ] &&
      [ "$(ask "SELECT count(*) FROM current_resources WHERE state_name = (\$1)[1] AND address = (\$1)[2]" --arg "$name" --arg "$address")" = 1 ] ||
      fail "the state of this directory has no $address yet." "Apply the example first: cd $here && terraform apply -var=size=100"
  done
}

# For the demos of kl apply: replaces time_sleep.slow_a or slow_b, by a version that nobody had before.
# With "exec" before it the shell becomes that kl, so that its process can be told to stop.
replace() {
  local how=$1 file=$2
  set -- "$KL" apply -f "$file.tf" --orchestrated --no-refresh --yes --var "${file}_version=$(date +%Y%m%d-%H%M%S)-$$-$3"
  show_command "$@"
  if [ "$how" = exec ]; then exec "$@"; fi
  "$@"
}

# The same in the background, each line marked with who says it.
pids=
replace_as() {
  replace exec "$2" "$1" > >(mark "$1") 2>&1 &
  pids="$pids $!"
}

mark() {
  local line
  trap '' INT
  while IFS= read -r line; do printf '%-8s | %s\n' "$1" "$line"; done
}

# Returns when somebody has reserved an address for writing.
until_reserved() {
  until [ "$(ask "SELECT count(*) > 0 FROM current_reservations
    WHERE state_name = (\$1)[1] AND address = (\$1)[2] AND mode = 'write'" --arg "$name" --arg "$1")" = true ]; do
    kill -0 ${pids##* } 2>/dev/null || fail "kl apply ended before it reserved $1; see above."
    sleep 0.2
  done
}

# Waits for all that runs in the background; fails if one of them did.
all_ended() {
  local pid status=0
  for pid in $pids; do
    wait "$pid" || status=$?
  done
  pids=
  return "$status"
}

# The same as Ctrl-C for each: terraform ends what it has begun, kl commits that and frees what it reserved.
stop_all() {
  local pid
  for pid in $pids; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in $pids; do wait "$pid" 2>/dev/null || true; done
  pids=
}
