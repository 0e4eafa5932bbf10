package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// Upgrade types of UpdateFeatures.
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// updateFeatures changes finalized levels, all of them or none.
//
// Versions: 0-2.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: only metadata.version means something to brokerlab; the levels of the others
// are kept and told, and what the data plane does stays the same. Live brokers are asked what they support; Kafka asks those
// that are fenced too. One that comes back and does not support the level is not let in.
func updateFeatures(ctx context.Context, q *call, req *kmsg.UpdateFeaturesRequest) (*kmsg.UpdateFeaturesResponse, error) {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	admit := func(image *metadata.Image) ([]metadata.Record, error) {
		var records []metadata.Record
		for _, u := range inOrder(req.FeatureUpdates) {
			kind := u.UpgradeType
			if req.Version == 0 {
				kind = upgrade
			}
			if err := q.server.admitFeature(image, u.Feature, u.MaxVersionLevel, kind); err != nil {
				return nil, err
			}
			if image.Feature(u.Feature) != u.MaxVersionLevel {
				records = append(records, metadata.SetFeature{Name: u.Feature, Level: u.MaxVersionLevel})
			}
		}
		return records, nil
	}
	var err error
	if req.ValidateOnly {
		_, err = admit(q.server.o.Metadata.Image())
	} else {
		err = q.server.o.Metadata.Update(ctx, admit)
	}
	var refused *featureError
	switch {
	case errors.As(err, &refused):
		resp.ErrorCode = kerr.InvalidUpdateVersion.Code
		resp.ErrorMessage = nonEmpty("The update failed for all features since the following feature had an error: " + refused.Error())
		return resp, nil
	case err != nil:
		return nil, err
	}
	for _, u := range inOrder(req.FeatureUpdates) {
		resp.Results = append(resp.Results, updated(req, u.Feature)...)
		if !req.ValidateOnly {
			q.server.o.Log.Info("updated feature", slog.String("feature", u.Feature), slog.Int("level", int(u.MaxVersionLevel)), slog.String("principal", principal(q.conn.Identity())))
		}
	}
	return resp, nil
}

// updated is what is answered of a feature: as often as the request has it.
func updated(req *kmsg.UpdateFeaturesRequest, name string) (results []kmsg.UpdateFeaturesResponseResult) {
	for i := range req.FeatureUpdates {
		if req.FeatureUpdates[i].Feature == name {
			r := kmsg.NewUpdateFeaturesResponseResult()
			r.Feature, r.ErrorMessage = name, nonEmpty("NONE")
			results = append(results, r)
		}
	}
	return results
}

// inOrder are the updates in the order in which Kafka's controller, which has them in a hash table, goes through them; of a feature
// that comes twice the last.
func inOrder(updates []kmsg.UpdateFeaturesRequestFeatureUpdate) []kmsg.UpdateFeaturesRequestFeatureUpdate {
	const capacity = 16
	last := make(map[string]kmsg.UpdateFeaturesRequestFeatureUpdate, len(updates))
	var names []string
	for _, u := range updates {
		if _, again := last[u.Feature]; !again {
			names = append(names, u.Feature)
		}
		last[u.Feature] = u
	}
	out := make([]kmsg.UpdateFeaturesRequestFeatureUpdate, 0, len(names))
	for _, name := range dynamicconfig.JavaOrder(names, capacity) {
		out = append(out, last[name])
	}
	return out
}

// featureError is a refused change of a feature, in Kafka's words.
type featureError struct {
	feature string
	level   int16
	why     string
	whole   string
}

func (e *featureError) Error() string {
	if e.whole != "" {
		return e.whole
	}
	return fmt.Sprintf("Invalid update version %d for feature %s. %s", e.level, e.feature, e.why)
}

// unsupported says which of the live brokers does not support a level of a feature; "" where all do. They differ in
// metadata.version alone.
func unsupported(image *metadata.Image, name string, level int16) string {
	if name != feature.MetadataVersion {
		return ""
	}
	registered := image.Brokers()
	for i := range registered {
		if b := &registered[i]; !b.Fenced && (level < b.MinLevel || level > b.MaxLevel) {
			return fmt.Sprintf("Broker %d only supports versions %d-%d", b.ID, b.MinLevel, b.MaxLevel)
		}
	}
	return ""
}

// admitFeature checks one change in Kafka's order.
func (s *Server) admitFeature(image *metadata.Image, name string, level int16, kind int8) error {
	refuse := func(format string, args ...any) error {
		return &featureError{feature: name, level: level, why: fmt.Sprintf(format, args...)}
	}
	now := image.Feature(name)
	supported := s.supported()
	at := slices.IndexFunc(supported, func(f feature.Feature) bool { return f.Name == name })
	var known feature.Feature
	if at >= 0 {
		known = supported[at]
	}
	switch ok := at >= 0; {
	case kind != upgrade && kind != safeDowngrade && kind != unsafeDowngrade:
		return refuse("The controller does not support the given upgrade type.")
	case level < 0:
		return refuse("A feature version cannot be less than 0.")
	case !ok && level == 0:
		return refuse("Feature %s not found.", name)
	case !ok:
		return refuse("Local controller %d does not support this feature.", s.o.NodeID)
	case level != 0 && level < known.Min || level > known.Max || level == 0 && name == feature.MetadataVersion:
		return refuse("Local controller %d only supports versions %d-%d", s.o.NodeID, known.Min, known.Max)
	}
	if why := unsupported(image, name, level); why != "" {
		return refuse("%s", why)
	}
	switch {
	case level < now && kind == upgrade:
		return refuse("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > now && kind != upgrade:
		return refuse("Can't downgrade to a newer version.")
	case name != feature.MetadataVersion || level >= now:
		return nil
	}
	if feature.Lossy(now, level) {
		why := "Refusing to perform the requested downgrade because it might delete metadata information."
		if kind == unsafeDowngrade {
			why = "Unsafe metadata downgrade is not supported in this version."
		}
		return &featureError{whole: fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. %s", now, level, why)}
	}
	return nil
}
