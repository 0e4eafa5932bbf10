package broker

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dataDir is a log directory that this process alone uses. A nil one is memory.
type dataDir struct {
	path    string
	lock    *os.File
	cluster string
}

// metaFile is where Kafka keeps whose directory it is, too.
const metaFile = "meta.properties"

// openDataDir locks a directory and makes sure that it belongs to the cluster and the broker. cluster
// may be empty: then it is what the directory says, or a new one.
func openDataDir(path, cluster string, node int32) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	if err := onlyOurs(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock log directory: %w", err)
	}
	d := &dataDir{path: path, lock: lock, cluster: cluster}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = fmt.Errorf("log directory %s is in use by another process: %w", path, err)
		return nil, errors.Join(err, lock.Close())
	}
	if err := d.claim(node); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// onlyOurs refuses a directory that holds anything which no broker of ours has made, above all the one of a real Kafka:
// its meta.properties looks like ours.
func onlyOurs(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read log directory: %w", err)
	}
	for _, e := range entries {
		switch e.Name() {
		case metaFile, ".lock", "data", "metadata", policyDir, "lost+found":
		default:
			return fmt.Errorf("log directory %s holds %s, which is not brokerlab's (is it a Kafka's?): give log.dirs a directory of its own",
				path, strconv.Quote(e.Name()))
		}
	}
	return nil
}

// claim reads meta.properties, or writes it into a directory that has none.
func (d *dataDir) claim(node int32) error {
	file := filepath.Join(d.path, metaFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if d.cluster == "" {
			d.cluster = randomUUID()
		}
		return writeFile(file, fmt.Sprintf("#\nversion=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", d.cluster, node, randomUUID()))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", metaFile, err)
	}
	stored := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			stored[key] = value
		}
	}
	if id := stored["cluster.id"]; d.cluster != "" && d.cluster != id {
		return fmt.Errorf("invalid cluster.id in %s: expected %s, but read %s", file, d.cluster, id)
	}
	if id := stored["node.id"]; id != strconv.Itoa(int(node)) {
		return fmt.Errorf("stored node id %s doesn't match node id %d in %s", id, node, file)
	}
	if stored["cluster.id"] == "" {
		return fmt.Errorf("%s has no cluster.id", file)
	}
	d.cluster = stored["cluster.id"]
	return nil
}

// writeFile makes a file durable, whole or not at all.
func writeFile(path, text string) error {
	next := path + ".tmp"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// sub is a folder of the directory; "" in memory.
func (d *dataDir) sub(name string) string {
	if d == nil {
		return ""
	}
	return filepath.Join(d.path, name)
}

// release lets another process have the directory.
func (d *dataDir) release() error {
	if d == nil {
		return nil
	}
	// Unlocked by name: a child of this process may hold a copy of the file between fork and exec.
	return errors.Join(unix.Flock(int(d.lock.Fd()), unix.LOCK_UN), d.lock.Close())
}

// randomUUID is a random UUID as Kafka prints them: 22 characters that do not begin with a dash.
func randomUUID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		b[6] = b[6]&0x0f | 0x40
		b[8] = b[8]&0x3f | 0x80
		if s := base64.RawURLEncoding.EncodeToString(b[:]); !strings.HasPrefix(s, "-") {
			return s
		}
	}
}
