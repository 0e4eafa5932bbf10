package metadata

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// ScramCredential is what a broker keeps of a user's password.
type ScramCredential struct {
	Mechanism  string // SCRAM-SHA-256 or SCRAM-SHA-512
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

// Image is the cluster's state after some entry of the log. It never changes: all that its methods return must be left
// as it is. Safe for concurrent use.
type Image struct {
	offset    int64
	clusterID string
	scram     *table[string, userScram]
	configs   *table[Resource, map[string]string]
	quotas    *table[string, Quota] // by Entity.Identity
	features  map[string]int16
	epoch     int64                // changes of features so far
	writers   map[int32]writerMark // the last entry of each node, so that a repeated one is known
	brokers   map[int32]Broker
	rules     digest        // of the ACLs, which are in the store's index
	hash      func() string // digest, remembered
	snapshot  snapshotMark
	size      int64 // bytes of entries since the snapshot
}

// userScram is a user's credentials in the order of scramIndex.
type userScram [2]*ScramCredential

func emptyImage() *Image {
	i := &Image{
		scram:    newTable[string, userScram](),
		configs:  newTable[Resource, map[string]string](),
		quotas:   newTable[string, Quota](),
		features: map[string]int16{},
		writers:  map[int32]writerMark{},
		brokers:  map[int32]Broker{},
	}
	i.hash = sync.OnceValue(i.digest)
	return i
}

// Offset is the offset of the log's next entry: the image has applied all before it.
func (i *Image) Offset() int64 { return i.offset }

// ClusterID is the cluster that the log belongs to.
func (i *Image) ClusterID() string { return i.clusterID }

// Scram returns the credential of user for mechanism.
func (i *Image) Scram(user, mechanism string) (ScramCredential, bool) {
	n := scramIndex(mechanism)
	if n < 0 {
		return ScramCredential{}, false
	}
	u, _ := i.scram.get(user)
	if u[n] == nil {
		return ScramCredential{}, false
	}
	return *u[n], true
}

// Users returns the names of all users that have a SCRAM credential, sorted.
func (i *Image) Users() []string {
	names := make([]string, 0, i.scram.len)
	for name := range i.scram.all() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// UserScram returns the credentials of user, at most one a mechanism, in the order of the mechanisms' names.
func (i *Image) UserScram(user string) []ScramCredential {
	u, _ := i.scram.get(user)
	var all []ScramCredential
	for _, c := range u {
		if c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// Configs returns the dynamic configs of one resource by name; nil when it has none.
func (i *Image) Configs(r Resource) map[string]string {
	c, _ := i.configs.get(r)
	return c
}

// Resources returns every resource of type t that has dynamic configs, sorted by name.
func (i *Image) Resources(t ResourceType) []Resource {
	var all []Resource
	for r := range i.configs.all() {
		if r.Type == t {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Quota returns the quotas of exactly this entity by name; nil when it has none.
func (i *Image) Quota(e Entity) map[string]float64 {
	q, _ := i.quotas.get(e.Identity())
	return q.Values
}

// Quotas returns all entities that have quotas, in a stable order.
func (i *Image) Quotas() []Quota {
	byEntity := maps.Collect(i.quotas.all())
	all := make([]Quota, 0, len(byEntity))
	for _, k := range slices.Sorted(maps.Keys(byEntity)) {
		all = append(all, byEntity[k])
	}
	return all
}

// Feature returns the finalized level of a feature; 0 when it has none.
func (i *Image) Feature(name string) int16 { return i.features[name] }

// Features returns the finalized features and their levels.
func (i *Image) Features() map[string]int16 { return i.features }

// FeatureEpoch grows with every change of a feature, as the finalized features' epoch in ApiVersions has to.
func (i *Image) FeatureEpoch() int64 { return i.epoch }
