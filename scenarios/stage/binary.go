package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
)

// BinaryVariable is the environment variable that names the binary which runs brokers and owns labs.
const BinaryVariable = "BROKERLAB_BINARY"

// binaryPackage is what brokerlab is built from.
const binaryPackage = "github.com/brokerlab/brokerlab/cmd/brokerlab"

// built is the binary of a test process, which is not that binary itself. It is built once.
var built struct { //nolint:gochecknoglobals // one build a test process
	once sync.Once
	path string
	err  error
}

// Binary is the path of brokerlab's binary: this process's own, or the one of BROKERLAB_BINARY, or, under
// go test, one that is built for the run.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this binary: %w", err)
	}
	if !strings.HasSuffix(self, ".test") {
		return self, nil
	}
	built.once.Do(func() { built.path, built.err = build(ctx) })
	return built.path, built.err
}

func build(ctx context.Context) (string, error) {
	folder, err := binaryFolder()
	if err != nil {
		return "", fmt.Errorf("build brokerlab: %w", err)
	}
	fresh := filepath.Join(folder, fmt.Sprintf("new-%d", os.Getpid()))
	// By its import path: a test of another module builds the version that it requires.
	cmd := exec.CommandContext(ctx, "go", "build", "-o", fresh, binaryPackage) //nolint:gosec // a path of our own making
	cmd.Stdout, cmd.Stderr = ginkgo.GinkgoWriter, ginkgo.GinkgoWriter
	if err = cmd.Run(); err != nil {
		return "", fmt.Errorf("build brokerlab: %w", err)
	}
	// Named by what it is, so that test processes that run at the same time share it and none replaces another's.
	text, err := os.ReadFile(fresh)
	if err != nil {
		return "", fmt.Errorf("build brokerlab: %w", err)
	}
	path := filepath.Join(folder, fmt.Sprintf("brokerlab-%x", sha256.Sum256(text)))
	if err := os.Rename(fresh, path); err != nil { //nolint:gosec // paths of our own making
		return "", fmt.Errorf("build brokerlab: %w", err)
	}
	return path, nil
}

// binaryFolder is where test binaries' brokerlab is kept: a folder of the user's own, since what is in it runs as root. Builds of
// other days are removed.
func binaryFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "brokerlab-scenarios")
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return folder, os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if info, gone := e.Info(); gone == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(filepath.Join(folder, e.Name())) // another test process may have been faster
		}
	}
	return folder, nil
}
