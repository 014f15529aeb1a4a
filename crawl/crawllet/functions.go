package crawllet

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/crypto/blake2b"

	"peerd/crawl/crawllet/record"
)

// own is the module of the functions that crawllets may import besides those of WASI: what takes
// them many times as long as the host. Its number changes with what a function does; a host without
// a function refuses the modules that import it, as BadImport.
const (
	own        = "peerd_crawllet_1"
	digestName = "blake2b_256"
)

// Results of the functions of own, as of those of WASI preview 1.
const (
	errnoSuccess = 0
	errnoFault   = 21 // outside the memory of the module
	errnoInvalid = 28
)

// instantiateOwn provides the functions of own:
//
//	blake2b_256(data, size, sum i32) i32
//
// writes the BLAKE2b digest with 256 bits (RFC 7693) of size bytes at data, at most record.MaxBody,
// to sum. So one call takes a bounded time, which counts as that of the crawllet.
func instantiateOwn(ctx context.Context, rt wazero.Runtime) error {
	const i32 = api.ValueTypeI32
	_, err := rt.NewHostModuleBuilder(own).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, args []uint64) {
			args[0] = digest(m.Memory(), uint32(args[0]), uint32(args[1]), uint32(args[2]))
		}), []api.ValueType{i32, i32, i32}, []api.ValueType{i32}).
		Export(digestName).Instantiate(ctx)
	return err
}

// digest is blake2b_256.
func digest(m api.Memory, data, size, sum uint32) uint64 {
	if size > record.MaxBody {
		return errnoInvalid
	}
	b, ok := m.Read(data, size)
	if !ok {
		return errnoFault
	}
	if d := blake2b.Sum256(b); !m.Write(sum, d[:]) {
		return errnoFault
	}
	return errnoSuccess
}
