package record

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/routing"
	"golang.org/x/sync/semaphore"
)

// script is a DHT that answers one put and one get after the other.
type script struct {
	puts []answer
	gets []answer
}

type answer struct {
	acks, rejects int
	val           string
	err           error
}

func (s *script) Put(context.Context, string, []byte) (int, int, error) {
	a := s.puts[0]
	s.puts = s.puts[1:]
	return a.acks, a.rejects, a.err
}

func (s *script) Get(context.Context, string) ([]byte, error) {
	a := s.gets[0]
	s.gets = s.gets[1:]
	return []byte(a.val), a.err
}

var errDead = errors.New("dead")

// Larger values are better; "mine" is ours.
func beats(found []byte) bool { return string(found) > "mine" }

func TestGet(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		want   string
		err    error
	}{
		"value":       {answer{val: "v"}, "v", nil},
		"nil":         {answer{}, "", nil},
		"not found":   {answer{err: fmt.Errorf("lookup: %w", routing.ErrNotFound)}, "", nil},
		"other error": {answer{err: errDead}, "", errDead},
	} {
		got, err := Get(t.Context(), &script{gets: []answer{c.answer}}, "/k/x")
		if string(got) != c.want || !errors.Is(err, c.err) || got != nil && c.want == "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

type outcome struct {
	script script
	rival  string
	err    error
}

func check(t *testing.T, cases map[string]outcome, call func(Values) ([]byte, error)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			rival, err := call(&c.script)
			if string(rival) != c.rival || !errors.Is(err, c.err) {
				t.Errorf("got %q, %v, want %q, %v", rival, err, c.rival, c.err)
			}
			if n := len(c.script.puts) + len(c.script.gets); n != 0 {
				t.Errorf("%d expected calls were not made", n)
			}
		})
	}
}

func TestPublish(t *testing.T) {
	check(t, map[string]outcome{
		"all took it": {script{[]answer{{acks: 3}}, nil}, "", nil},
		"no replicas": {script{[]answer{{}}, nil}, "", nil},
		"one refused, ours is best": {script{[]answer{{acks: 2, rejects: 1}},
			[]answer{{val: "mine"}}}, "", nil},
		"one refused, none found": {script{[]answer{{acks: 2, rejects: 1}}, []answer{{}}}, "",
			nil},
		"one refused, no reading": {script{[]answer{{acks: 2, rejects: 1}},
			[]answer{{err: errDead}}}, "", nil},
		"one refused for better": {script{[]answer{{acks: 2, rejects: 1}},
			[]answer{{val: "yours"}}}, "yours", nil},
		"all refused": {script{[]answer{{rejects: 3}}, []answer{{val: "mine"}}}, "",
			ErrContested},
		"all refused, no reading": {script{[]answer{{rejects: 3}}, []answer{{err: errDead}}}, "",
			errDead},
		"failed": {script{[]answer{{err: errDead}}, []answer{{}}}, "", errDead},
		"failed for better": {script{[]answer{{err: errDead}}, []answer{{val: "yours"}}},
			"yours", nil},
	}, func(v Values) ([]byte, error) {
		return publish(t.Context(), v, "/k/x", []byte("mine"), beats)
	})
}

func TestSettle(t *testing.T) {
	took, refused := answer{acks: 3}, answer{acks: 2, rejects: 1}
	mine, yours := answer{val: "mine"}, answer{val: "yours"}
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]outcome{
			"all took it":  {script{[]answer{took}, []answer{mine}}, "", nil},
			"no replicas":  {script{[]answer{{}}, []answer{{}}}, "", nil},
			"better found": {script{[]answer{took}, []answer{yours}}, "yours", nil},
			"no reading": {script{[]answer{took}, []answer{{err: errDead}}}, "",
				errDead},
			"refused for better": {script{[]answer{refused}, []answer{yours}}, "yours", nil},
			"refused once": {script{[]answer{refused, took}, []answer{mine, mine}}, "",
				nil},
			"refused once, then lost": {script{[]answer{refused, took}, []answer{mine, yours}},
				"yours", nil},
			"refused twice": {script{[]answer{refused, refused}, []answer{mine, mine}},
				"", ErrContested},
			"failed": {script{[]answer{{err: errDead}}, []answer{{}}}, "",
				errDead},
			"failed for own better": {script{[]answer{{err: errDead}}, []answer{yours}}, "yours",
				nil},
			"failed in the second try": {script{[]answer{refused, {err: errDead}},
				[]answer{mine, mine}}, "", errDead},
		} {
			puts := len(c.script.puts)
			if errors.Is(c.err, errDead) && c.script.puts[puts-1].err != nil {
				puts-- // there is no wait after a failed write
			}
			if name == "failed for own better" {
				puts = 0
			}
			begin := time.Now()
			rival, err := settle(t.Context(), nil, &c.script, "/k/x", []byte("mine"), time.Second,
				beats)
			if string(rival) != c.rival || !errors.Is(err, c.err) {
				t.Errorf("%s: got %q, %v, want %q, %v", name, rival, err, c.rival, c.err)
			}
			if n := len(c.script.puts) + len(c.script.gets); n != 0 {
				t.Errorf("%s: %d expected calls were not made", name, n)
			}
			if d := time.Since(begin); d != time.Duration(puts)*time.Second {
				t.Errorf("%s: took %v", name, d)
			}
		}
	})
}

// slow is a script with writes that take a time.
type slow struct {
	*script
	writes time.Duration
}

func (v slow) Put(ctx context.Context, key string, val []byte) (acks, rejects int, err error) {
	time.Sleep(v.writes)
	return v.script.Put(ctx, key, val)
}

// Who reads and writes for longer than the wait reads back only after another, who has not met
// the record, has read again.
func TestSettleLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := semaphore.NewWeighted(1)
		for writes, want := range map[time.Duration]time.Duration{
			time.Second:     time.Second,
			3 * time.Second: time.Second + lateWait,
		} {
			turn, err := enterGate(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			v := slow{&script{puts: []answer{{acks: 3}}, gets: []answer{{val: "mine"}}}, writes}
			begin := time.Now()
			_, err = settle(t.Context(), turn, v, "/k/x", []byte("mine"), time.Second, beats)
			if d := time.Since(begin) - writes; err != nil || d != want {
				t.Errorf("a write of %v: read back after %v, %v, want %v", writes, d, err, want)
			}
			turn.Leave()
		}
	})
}

func TestSettleEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		v := &script{puts: []answer{{acks: 1}}}
		_, err := settle(ctx, nil, v, "/k/x", []byte("mine"), time.Minute, beats)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
