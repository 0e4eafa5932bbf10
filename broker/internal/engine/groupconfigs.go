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

// ofDataPlane tells which configs of groups the data plane obeys, and knows.
func ofDataPlane(name string) bool {
	switch name {
	case "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms", "share.auto.offset.reset", "share.delivery.count.limit",
		"share.heartbeat.interval.ms", "share.isolation.level", "share.max.share.sessions", "share.max.size", "share.partition.max.record.locks",
		"share.record.lock.duration.ms", "share.session.timeout.ms":
		return true
	}
	return false
}

// groupConfigs keeps the configs of groups: those that the data plane does not know, and on disk all of them from the moment
// they are acknowledged, as kfake saves its own at a clean stop only. The zero value is one without a file; safe for concurrent use.
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
	if req.ValidateOnly {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for i := range min(len(req.Resources), len(resp.Resources)) {
		r := &req.Resources[i]
		if r.ResourceType == kmsg.ConfigResourceTypeGroupConfig && resp.Resources[i].ErrorCode == 0 {
			changed = true
			g.apply(r)
		}
	}
	return g.write(changed)
}

// write saves what is kept, where there is a file and something has changed. It wants g.mu.
func (g *groupConfigs) write(changed bool) error {
	if !changed || g.path == "" {
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

// describe adds to the description of a group what only g keeps of it.
func (g *groupConfigs) describe(r *kmsg.DescribeConfigsResponseResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.values[r.ResourceName])) {
		if ofDataPlane(name) {
			continue
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.Source = name, new(g.values[r.ResourceName][name]), kmsg.ConfigSourceGroupConfig
		r.Configs = append(r.Configs, c)
	}
}

// list are the groups that have configs.
func (g *groupConfigs) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.values))
}

// admitListConfigResources lists of the groups those that have configs; the data plane also those that had some.
func admitListConfigResources(e *Engine, req *kmsg.ListConfigResourcesRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		const kind = int8(kmsg.ConfigResourceTypeGroupConfig)
		r, _ := resp.(*kmsg.ListConfigResourcesResponse)
		asked := req.Version > 0 && (len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, kind))
		r.ConfigResources = slices.DeleteFunc(r.ConfigResources, func(c kmsg.ListConfigResourcesResponseConfigResource) bool { return c.Type == kind })
		if r.ErrorCode != 0 || !asked {
			return r, nil
		}
		for _, group := range e.groups.list() {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = group, kind
			r.ConfigResources = append(r.ConfigResources, c)
		}
		return r, nil
	}}, nil
}

// restoreGroupConfigs tells the data plane what was kept.
func (e *Engine) restoreGroupConfigs(ctx context.Context) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	for _, group := range slices.Sorted(maps.Keys(e.groups.values)) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		for name, value := range e.groups.values[group] {
			if !ofDataPlane(name) {
				continue
			}
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
