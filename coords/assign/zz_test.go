package assign_test
import ("testing";"math/rand/v2";"fmt";"time";"peerd/coords/coordstest";"peerd/coords/assign")
type raw struct{}
func (raw) Name() string {return "raw"}
func (raw) Next(e assign.Evidence) (assign.Step, error) {
  if len(e.Samples) < len(e.Candidates) && len(e.Samples)<8 { return assign.Step{Probe:e.Candidates[len(e.Samples)].ID}, nil }
  b, bt := "", time.Hour
  for _, s := range e.Samples { if x := s.FirstByte+s.Body; x < bt { b, bt = s.Peer, x } }
  return assign.Step{Choice:b}, nil
}
func TestZZ(t *testing.T){
 for _,c:=range []struct{n,rounds int; jit float64}{{8,10,.05},{8,1,.05},{8,10,.5},{20,30,.05},{64,60,.05}} {
  for _, st := range []assign.Strategy{newProxy(t), raw{}} {
  var res result
  for seed := range uint64(20) {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := coordstest.Globe(c.n+24, rng)
	w.Jitter=c.jit
	tr := newTrial(t, w, c.n, c.rounds, min(4,c.n-1), rng)
	for i := range 24 { tr.assign(t, st, coordstest.NewServer(c.n+i, rng), i, &res) }
  }
  res.log(t, fmt.Sprint(st.Name(), c))
 }}
}
