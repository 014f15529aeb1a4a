package runner

import (
	"fmt"
	"strings"
	"time"
)

// A place is the directory of an experiment on a machine.
type place struct {
	dir, id string
	digest  string // of the program
}

// claim is the first script on a machine: it creates the directory, or fails if it is that of
// something else.
func (p place) claim() string {
	return fmt.Sprintf(`cd && mkdir -p %[1]s && cd %[1]s || exit 1
if [ -e experiment ]; then
	[ "$(cat experiment)" = %[2]s ] || {
		echo "$PWD is that of another experiment: remove it, or set dir" >&2; exit 1; }
elif [ -n "$(ls -A)" ]; then
	echo "$PWD is not empty: remove it, or set dir" >&2; exit 1
else
	echo %[2]s >experiment
fi
`, quote(p.dir), quote(p.id))
}

// enter begins all other scripts. runs tells whether start $2 of process $1 runs, and sets p.
func (p place) enter() string {
	return fmt.Sprintf(`cd && cd %s && [ "$(cat experiment)" = %s ] || {
	echo "the directory of the experiment is missing" >&2; exit 1; }
sum() { { sha256sum "$1" 2>/dev/null || shasum -a 256 "$1"; } | cut -d ' ' -f 1; }
nap() { sleep 0.1 2>/dev/null || sleep 1; }
runs() {
	[ -s "$1/start.$2/pid" ] && p=$(cat "$1/start.$2/pid") || return 1
	for try in 1 2 3; do # a process that becomes another program has no arguments for a moment
		kill -0 "$p" 2>/dev/null && ! grep -qs '^State:.*Z' "/proc/$p/status" || return 1
		{ cat "/proc/$p/cmdline" 2>/dev/null || ps -o args= -p "$p"; } | grep -qF "$PWD/$1/" &&
			return 0
		nap
	done
	return 1
}
ended() { # waits up to $3 tenths of a second until start $2 of process $1 does not run
	i=0
	while runs "$1" "$2"; do
		i=$((i + 1)); [ $i -gt "$3" ] && return 1; nap
	done
}
quit() { # stops start $2 of process $1, in the end by force
	if runs "$1" "$2"; then kill "$p"; ended "$1" "$2" 200 || kill -9 "$p"; fi
	ended "$1" "$2" 50 && printf '%%s\tstopped\n' "$1"
}
`, quote(p.dir), quote(p.id))
}

// has exits with 0 if the program is there.
func (p place) has() string {
	return `[ "$(sum peerd)" = ` + p.digest + " ] 2>/dev/null"
}

// put stores the program, which is the input.
func (p place) put() string {
	return p.enter() + `cat >peerd.part && chmod +x peerd.part || exit 1
[ "$(sum peerd.part)" = ` + p.digest + ` ] || { echo "the program arrived damaged" >&2; exit 1; }
mv peerd.part peerd && ./peerd version >/dev/null
`
}

// give has this machine give the program to another one, by the command for that.
func (p place) give(command []string, to place) string {
	return p.enter() + fmt.Sprintf(`f=give.$$; mkfifo $f.in $f.out || exit 1
trap 'rm -f $f.in $f.out' EXIT
%s sh <$f.in >$f.out & exec 3>$f.in 4<$f.out
printf '%%s' %s >&3
while read -r line <&4; do [ "$line" = '%s' ] && break; done
cat peerd >&3; exec 3>&-; cat <&4 >/dev/null; wait $!
`, words(command), quote(wrap(to.put())), ready)
}

// home creates the home of a peer, and prints the peer's ID.
func home(name, settings, command string) string {
	return fmt.Sprintf(`mkdir -p %[1]s && rm -rf %[1]s/home %[1]s/start.* || exit 1
printf '%%s' %[2]s >%[1]s/run
id=$(./peerd init --home %[1]s/home) || exit 1
id=${id#created peer }; printf '%[1]s\tid\t%%s\n' "${id%%%% *}"
printf '%%s' %[3]s >%[1]s/home/config.toml
`, name, quote(command), quote(settings))
}

// rules gives a home the rules of the network.
func rules(name string, profile []byte) string {
	return fmt.Sprintf("printf '%%s' %s >%s/home/profile.toml || exit 1\n", quote(string(profile)),
		name)
}

// start starts processes, each at most once for a number, and prints which run.
func start(names []string, numbers []int) string {
	var b strings.Builder
	b.WriteString(`detach=$(command -v setsid || echo nohup)
begin() {
	[ -d "$1/start.$2" ] ||
	$detach sh "$PWD/$1/run" "$1/start.$2" </dev/null >>"$1/log" 2>&1 &
}
look() {
	i=0
	while ! runs "$1" "$2"; do
		i=$((i + 1)); [ $i -gt 30 ] && break; nap
	done
	if runs "$1" "$2"; then printf '%s\trunning\n' "$1"; else gone "$1"; fi
}
` + goneFunc)
	for _, f := range []string{"begin", "look"} {
		for i, n := range names {
			fmt.Fprintf(&b, "%s %s %d\n", f, n, numbers[i])
		}
	}
	return b.String()
}

const goneFunc = `gone() { printf '%s\tgone\t%s\n' "$1" "$(tail -n 1 "$1/log" 2>/dev/null)"; }
`

// runFile is what start runs. It creates the directory of the start, which only one can, leaves its
// process ID there, and becomes the process.
func runFile(command string) string {
	return `mkdir "$1" 2>/dev/null || exit 0
echo $$ >"$1/part" && mv "$1/part" "$1/pid" || exit 1
exec "$PWD/peerd" ` + command + "\n"
}

// look prints the status of processes.
func look(names []string, numbers []int) string {
	b := strings.Builder{}
	b.WriteString(goneFunc)
	for i, n := range names {
		fmt.Fprintf(&b, "if runs %[1]s %[2]d; then printf '%[1]s\\trunning\\t'; "+
			"./peerd status --json --home %[1]s/home 2>/dev/null || echo; else gone %[1]s; fi\n",
			n, numbers[i])
	}
	return b.String()
}

// act does the same to several peers at once. It prints a line for each.
func act(s Step, patience time.Duration, names []string, numbers []int) string {
	var do string
	told := `if said=$(%s 2>&1); then printf '%%s\tok\n' "$1"; else
	printf '%%s\tfailed\t%%s\n' "$1" "$said"; fi`
	switch s.Do {
	case "kill":
		do = `if runs "$1" "$2"; then kill -9 "$p"; fi
ended "$1" "$2" 100 && printf '%s\tstopped\n' "$1"`
	case "stop":
		do = fmt.Sprintf(`./peerd stop --drain-timeout %s --home "$1/home" >>"$1/log" 2>&1; `+
			`quit "$1" "$2"`, patience)
	case "restart", "quit": // a restart goes on with a start
		do = `quit "$1" "$2"`
	case "pause":
		do = fmt.Sprintf(told, fmt.Sprintf(`./peerd pause --for %s --home "$1/home"`, s.For))
	case "slow":
		do = fmt.Sprintf(told, fmt.Sprintf(`./peerd config set --home "$1/home" `+
			`traffic.bandwidth %d && ./peerd reload --home "$1/home"`, int64(s.Rate)))
	}
	b := strings.Builder{}
	fmt.Fprintf(&b, "act() {\n%s\n}\n", do)
	for i, n := range names {
		fmt.Fprintf(&b, "act %s %d &\n", n, numbers[i])
	}
	b.WriteString("wait\n")
	return b.String()
}

// file prints a file, compressed, if it exists and is not empty.
func file(name string) string { return fmt.Sprintf("[ ! -s %[1]s ] || gzip -c %[1]s\n", name) }

// clean removes the directory, and its mark last, so that it can be repeated, also while that of a
// runner that was killed still runs.
func (p place) clean() string {
	return fmt.Sprintf(`cd && [ -d %[1]s ] && ! rmdir %[1]s 2>/dev/null || exit 0
gone() { s=$?; cd && ! rmdir %[1]s 2>/dev/null && [ -d %[1]s ] || exit 0; exit $s; }
trap gone 0
`, quote(p.dir)) + p.enter() + fmt.Sprintf(`for s in */start.*; do
	[ -d "$s" ] && runs "${s%%%%/*}" "${s##*.}" && kill -9 "$p"
done
for f in *; do [ "$f" = experiment ] || rm -rf "$f" || exit 1; done
rm -f experiment && cd || exit 1
case %[1]s in
/*) rmdir %[1]s ;;
*) rmdir -p %[1]s 2>/dev/null; [ ! -d %[1]s ] ;; # with the directories above, if they are empty
esac
`, quote(p.dir))
}
