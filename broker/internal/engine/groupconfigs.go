package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const groupConfigsFile = "engine.group_configs.json"

// groupConfigs keeps the configs of groups on disk from the moment they are acknowledged: kfake saves them at a clean
// stop only. The zero value keeps nothing; safe for concurrent use.
type groupConfigs struct {
	path string // of the file; empty in memory

	mu     sync.Mutex
	values map[string]map[string]string // config values by group and name
}

// load reads the file, if there is one.
func (g *groupConfigs) load(dir string) error {
	g.path = filepath.Join(dir, groupConfigsFile)
	raw, err := os.ReadFile(g.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read group configs: %w", err)
	}
	if err := json.Unmarshal(raw, &g.values); err != nil {
		return fmt.Errorf("read group configs from %s: %w", g.path, err)
	}
	return nil
}

// alter follows the changes of groups that were answered without an error, and writes the file when there were any.
func (g *groupConfigs) alter(req *kmsg.IncrementalAlterConfigsRequest, resp *kmsg.IncrementalAlterConfigsResponse) error {
	if g.path == "" || req.ValidateOnly {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for i := range min(len(req.Resources), len(resp.Resources)) {
		r := &req.Resources[i]
		if r.ResourceType != kmsg.ConfigResourceTypeGroupConfig || resp.Resources[i].ErrorCode != 0 {
			continue
		}
		changed = true
		g.apply(r)
	}
	if !changed {
		return nil
	}
	raw, err := json.Marshal(g.values)
	if err != nil {
		return err
	}
	if err := os.WriteFile(g.path+".tmp", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(g.path+".tmp", g.path)
}

func (g *groupConfigs) apply(r *kmsg.IncrementalAlterConfigsRequestResource) {
	if g.values == nil {
		g.values = map[string]map[string]string{}
	}
	values := g.values[r.ResourceName]
	if values == nil {
		values = map[string]string{}
		g.values[r.ResourceName] = values
	}
	for _, c := range r.Configs {
		if c.Op == kmsg.IncrementalAlterConfigOpSet && c.Value != nil {
			values[c.Name] = *c.Value
		} else {
			delete(values, c.Name)
		}
	}
	if len(values) == 0 {
		delete(g.values, r.ResourceName)
	}
}

// restoreGroupConfigs tells the data plane what was kept.
func (e *Engine) restoreGroupConfigs(ctx context.Context) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	for _, group := range slices.Sorted(maps.Keys(e.groups.values)) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		for name, value := range e.groups.values[group] {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpSet, &value
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	if len(req.Resources) == 0 {
		return nil
	}
	resp, err := e.ask(ctx, req)
	if err != nil {
		return err
	}
	answer, _ := resp.(*kmsg.IncrementalAlterConfigsResponse)
	for i := range answer.Resources {
		if err := kerr.ErrorForCode(answer.Resources[i].ErrorCode); err != nil {
			return fmt.Errorf("group %q: %w", answer.Resources[i].ResourceName, err)
		}
	}
	return nil
}
