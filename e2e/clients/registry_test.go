package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pythonProgram is programs/<name>/client.py, run by a Python that has the clients of programs/requirements.txt.
func pythonProgram(name string) func(*workshop) ([]string, error) {
	return func(w *workshop) ([]string, error) {
		if err := w.install("venv"); err != nil {
			return nil, err
		}
		return []string{filepath.Join(w.kept, "venv", "bin", "python"), filepath.Join(w.programs, name, "client.py")}, nil
	}
}

// nodeProgram is programs/<name>/client.js, run by a Node that has the packages of programs/kafkajs/package-lock.json.
func nodeProgram(name string) func(*workshop) ([]string, error) {
	return func(w *workshop) ([]string, error) {
		if err := w.install("node_modules"); err != nil {
			return nil, err
		}
		modules := "NODE_PATH=" + filepath.Join(w.kept, "node_modules")
		return []string{"env", modules, "node", filepath.Join(w.programs, name, "client.js")}, nil
	}
}

// install has scripts/clients.sh fetch what is not there yet, once a run, and returns an unavailableError when folder, one of
// those that it makes below build/clients, is not there after it.
func (w *workshop) install(folder string) error {
	w.registryOnce.Do(func() {
		if out, err := w.run(tree(), nil, "scripts/clients.sh"); err != nil {
			w.registryErr = fmt.Errorf("install clients: %w\n%s", err, out)
		}
	})
	if w.registryErr != nil {
		return w.registryErr
	}
	if _, err := os.Stat(filepath.Join(w.kept, folder)); err == nil {
		return nil
	}
	why, err := os.ReadFile(filepath.Join(w.kept, folder+".why"))
	if err != nil {
		return fmt.Errorf("scripts/clients.sh made neither %s nor a reason: %w", folder, err)
	}
	return unavailableError{"its packages cannot be had: " + strings.TrimSpace(string(why))}
}
