package crawllet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"peerd/crawl/robots"
)

// processName is the name, instead of a path, with which the process of a crawllet is started.
const processName = "crawllet-process"

// compileCPU is the processor time for compiling a module, s.
const compileCPU = 30

// maxJob is the maximum size of a job in bytes.
const maxJob = 1 << 20

// job is what a process is started for. It comes on standard input, before the input of the
// module.
type job struct {
	Dir    string   `cbor:"1,keyasint"` // of the module and its compiled form
	Run    bool     `cbor:"2,keyasint"` // else it is only compiled
	Root   string   `cbor:"3,keyasint"` // "": the module has no files
	Prefix string   `cbor:"4,keyasint"`
	Agent  string   `cbor:"5,keyasint"`
	Types  []string `cbor:"6,keyasint"`
	Robots []byte   `cbor:"7,keyasint"`
	Limits Limits   `cbor:"8,keyasint"`
	Args   []string `cbor:"9,keyasint"`
}

// report is what a process says at its end, on file descriptor 3.
type report struct {
	Reason Reason `cbor:"1,keyasint"` // "" after success
	Detail string `cbor:"2,keyasint"`
	Pages  uint32 `cbor:"3,keyasint"`
	Memory uint64 `cbor:"4,keyasint"`
}

// Main runs a crawllet and exits, if the program was started by a Handler or a Plugin for that.
// Otherwise it returns at once. Programs with either call it first in main.
func Main() {
	if len(os.Args) != 1 || os.Args[0] != processName {
		return
	}
	out := os.NewFile(3, "report")
	rep := work(os.Stdin, os.Stdout, os.Stderr)
	rep.Detail = rep.Detail[:min(len(rep.Detail), maxDetail)]
	b, err := encMode.Marshal(rep)
	if err == nil {
		_, err = out.Write(b)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// work does the job that it reads.
func work(stdin io.Reader, stdout, stderr io.Writer) report {
	in := bufio.NewReaderSize(stdin, 64<<10)
	j, err := readJob(in)
	if err != nil {
		return reportOf(err)
	}
	p := process{job: j, in: in, out: stdout, errors: stderr, memory: memory{
		limit: uint64(j.Limits.Memory) << 20,
	}}
	rep := reportOf(p.do(context.Background()))
	rep.Pages, rep.Memory = p.pages(), p.memory.peak
	return rep
}

// reportOf returns the report of a process that ended with err. An error that is no Failure is
// Internal.
func reportOf(err error) report {
	var f *Failure
	switch {
	case err == nil:
		return report{}
	case errors.As(err, &f):
		return report{Reason: f.Reason, Detail: f.Detail}
	}
	return report{Reason: Internal, Detail: err.Error()}
}

// appendJob appends a job as readJob reads it.
func appendJob(b []byte, j job) ([]byte, error) {
	body, err := encMode.Marshal(j)
	if err != nil {
		return nil, err
	}
	if len(body) > maxJob {
		return nil, errors.New("crawllet: the job is too large")
	}
	return append(binary.AppendUvarint(b, uint64(len(body))), body...), nil
}

func readJob(in *bufio.Reader) (job, error) {
	var j job
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return j, fmt.Errorf("read job: %w", err)
	}
	if n > maxJob {
		return j, fmt.Errorf("read job: %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(in, body); err != nil {
		return j, fmt.Errorf("read job: %w", err)
	}
	return j, decMode.Unmarshal(body, &j)
}

// process is the process of one crawllet.
type process struct {
	job         job
	in          io.Reader
	out, errors io.Writer
	site        *siteFS
	memory      memory
}

func (p *process) pages() uint32 {
	if p.site == nil {
		return 0
	}
	return p.site.read.Load()
}

// do compiles the module and runs it.
func (p *process) do(ctx context.Context) error {
	if err := limitStart(p.job.Limits); err != nil {
		return err
	}
	code, err := os.ReadFile(modulePath(p.job.Dir))
	if err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(p.job.Dir)
	if err != nil {
		return err
	}
	rt := wazero.NewRuntimeWithConfig(ctx,
		wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache))
	m, err := rt.CompileModule(ctx, code)
	if err != nil {
		return fail(BadModule, err.Error())
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, rt); err != nil {
		return err
	}
	if err := instantiateOwn(ctx, rt); err != nil {
		return err
	}
	if err := checkImports(m, rt); err != nil || !p.job.Run {
		return err
	}
	if err := p.openSite(); err != nil {
		return err
	}
	if err := limitRun(p.job.Limits); err != nil {
		return err
	}
	return p.verdict(p.start(ctx, rt, m))
}

// wasi is the module that crawllets may import from, beside own, and sockets are the functions of
// it that they may not.
const wasi = wasi_snapshot_preview1.ModuleName

var sockets = []string{"sock_accept", "sock_recv", "sock_send", "sock_shutdown"}

// checkImports refuses modules that need more than the functions of the host.
func checkImports(m wazero.CompiledModule, rt wazero.Runtime) error {
	host := map[string]map[string]api.FunctionDefinition{
		wasi: rt.Module(wasi).ExportedFunctionDefinitions(),
		own:  rt.Module(own).ExportedFunctionDefinitions(),
	}
	for _, f := range m.ImportedFunctions() {
		module, name, _ := f.Import()
		d := host[module][name]
		if d == nil || slices.Contains(sockets, name) ||
			!slices.Equal(f.ParamTypes(), d.ParamTypes()) ||
			!slices.Equal(f.ResultTypes(), d.ResultTypes()) {
			return fail(BadImport, fmt.Sprintf("%.40s.%.40s", module, name))
		}
	}
	if len(m.ImportedMemories()) > 0 {
		return fail(BadImport, "a memory")
	}
	return nil
}

func (p *process) openSite() error {
	if p.job.Root == "" {
		return nil
	}
	root, err := os.OpenRoot(p.job.Root)
	if err != nil {
		return err
	}
	rules := new(robots.Rules)
	if len(p.job.Robots) > 0 {
		rules = robots.Result{Status: 200, Body: p.job.Robots}.Compile()
	}
	p.site = &siteFS{
		root: root, prefix: p.job.Prefix, agent: p.job.Agent, types: p.job.Types,
		rules: rules, limit: p.job.Limits.Pages,
	}
	return nil
}

// start runs the module to its end.
func (p *process) start(
	ctx context.Context, rt wazero.Runtime, m wazero.CompiledModule,
) (err error) {
	var clock clock
	minute := time.Now().Truncate(time.Minute).Unix()
	config := wazero.NewModuleConfig().
		WithName("").
		WithArgs(append([]string{"crawllet"}, p.job.Args...)...).
		// Only the methods, so that the host does not treat them as files.
		WithStdin(struct{ io.Reader }{p.in}).
		WithStdout(struct{ io.Writer }{p.out}).
		WithStderr(struct{ io.Writer }{p.errors}).
		WithWalltime(func() (int64, int32) { return minute, 0 }, wallStep).
		WithNanotime(clock.now, clockStep).
		WithNanosleep(clock.sleep)
	if p.site != nil {
		config = config.WithFSConfig(wazero.NewFSConfig().WithFSMount(p.site, "/"))
	}
	defer func() {
		// If not even the initial memory is allowed, the library panics.
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	_, err = rt.InstantiateModule(experimental.WithMemoryAllocator(ctx, &p.memory), m, config)
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

// verdict names the reason of a run's end.
func (p *process) verdict(err error) error {
	switch {
	case p.site != nil && p.site.exceeded.Load():
		return fail(PageLimit, fmt.Sprintf("%d pages", p.job.Limits.Pages))
	case err == nil:
		return nil
	case p.memory.exceeded:
		return fail(MemoryLimit, fmt.Sprintf("%d MiB", p.job.Limits.Memory))
	}
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return fail(Crashed, string(line))
}

// clockStep is by how much the clock of a crawllet advances when it is read, ns; wallStep is the
// precision that the time of day states, ns, the largest that is possible.
const (
	clockStep = 1000
	wallStep  = 500_000_000
)

// clock is the monotonic clock of a crawllet. It does not tell how long anything takes, and it is
// set forward instead of sleeping.
type clock struct{ ns int64 }

func (c *clock) now() int64 {
	c.ns += clockStep
	return c.ns
}

func (c *clock) sleep(ns int64) { c.ns += max(ns, 0) }

// memory is the linear memory of a crawllet. It never moves: it is reserved in full, and the system
// provides what is used. It implements experimental.MemoryAllocator and LinearMemory.
type memory struct {
	limit    uint64 // bytes
	buf      []byte
	peak     uint64
	exceeded bool
}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	if m.buf != nil {
		return &memory{} // a second memory gets nothing
	}
	m.buf = make([]byte, 0, min(most, m.limit))
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(cap(m.buf)) {
		m.exceeded = true
		return nil
	}
	m.peak = max(m.peak, size)
	m.buf = m.buf[:size]
	return m.buf
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {}
