package broker

import (
	"log/slog"
	"os"
	"time"
)

// storeFile is what tells one state of a file from another.
type storeFile struct {
	size     int64
	modified time.Time
}

// watchStores looks at the files of key and trust stores every [Config].StoreWatch and loads anew what has changed,
// until the broker stops. It polls, because stores are often links that something else points elsewhere.
//
// seen are the files that were loaded, see [Broker.seenStores].
func (b *Broker) watchStores(seen map[string]map[string]storeFile) {
	ticker := time.NewTicker(b.cfg.StoreWatch)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
		}
		for _, l := range *b.listeners.Load() {
			b.lookAtStores(l, seen)
		}
	}
}

// seenStores are the files of stores by listener, to be taken before a client may see one change.
func (b *Broker) seenStores() map[string]map[string]storeFile {
	seen := map[string]map[string]storeFile{}
	for _, l := range *b.listeners.Load() {
		seen[l.Name] = b.storeFiles(l)
	}
	return seen
}

// lookAtStores loads a listener's stores anew if they are others than those seen.
func (b *Broker) lookAtStores(l *boundListener, seen map[string]map[string]storeFile) {
	now, before := b.storeFiles(l), seen[l.Name]
	seen[l.Name] = now
	changed := ""
	for path, file := range now {
		if was, known := before[path]; known && was != file {
			changed = path
		}
	}
	if changed == "" {
		return
	}
	if err := b.api.ReloadStores(l.Name); err != nil {
		b.log.Error("a changed store cannot be used; the one before is", slog.String("listener", l.Name), slog.String("path", changed), slog.Any("error", err))
	}
}

// storeFiles are a listener's stores as they are on disk. One that is missing has its zero value.
func (b *Broker) storeFiles(l *boundListener) map[string]storeFile {
	files := map[string]storeFile{}
	if !l.Protocol.TLS() {
		return files
	}
	for _, name := range []string{"ssl.keystore.location", "ssl.truststore.location"} {
		path := b.api.Config(l.Name, name)
		if path == "" {
			continue
		}
		files[path] = storeFile{}
		if info, err := os.Stat(path); err == nil {
			files[path] = storeFile{info.Size(), info.ModTime()}
		}
	}
	return files
}
