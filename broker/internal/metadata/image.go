package metadata

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
type Image struct{}

// Offset is the log's offset up to which the image has applied everything.
func (i *Image) Offset() int64 { return 0 }

// Scram returns the credential of user for mechanism.
func (i *Image) Scram(user, mechanism string) (ScramCredential, bool) {
	return ScramCredential{}, false
}

// Users returns the names of all users that have a SCRAM credential, sorted.
func (i *Image) Users() []string { return nil }

// UserScram returns the credentials of user, at most one a mechanism, in the order of the mechanisms' names.
func (i *Image) UserScram(user string) []ScramCredential { return nil }

// Configs returns the dynamic configs of one resource by name; nil when it has none.
func (i *Image) Configs(r Resource) map[string]string { return nil }

// Resources returns every resource of type t that has dynamic configs, sorted by name.
func (i *Image) Resources(t ResourceType) []Resource { return nil }

// Quota returns the quotas of exactly this entity by name; nil when it has none.
func (i *Image) Quota(e Entity) map[string]float64 { return nil }

// Quotas returns all entities that have quotas, in a stable order.
func (i *Image) Quotas() []Quota { return nil }

// Feature returns the finalized level of a feature; 0 when it has none.
func (i *Image) Feature(name string) int16 { return 0 }

// Features returns the finalized features and their levels.
func (i *Image) Features() map[string]int16 { return nil }

// FeatureEpoch grows with every change of a feature, as the finalized features' epoch in ApiVersions has to.
func (i *Image) FeatureEpoch() int64 { return 0 }
