package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

const keyAPIVersions = 18

// apiVersions tells what the broker can do, and keeps what the client says it is. It is the one API
// whose unsupported versions are answered: in the shape of v0, with the single range that is
// supported.
//
// Versions: 0-5.
// Needs: nothing, not even authentication.
// Differs from Kafka: it names brokerlab's own APIs too (brokerlab.apis.enable).
func apiVersions(q *call, req *kmsg.ApiVersionsRequest) {
	resp := kmsg.NewPtrApiVersionsResponse()
	switch {
	case req.Version >= 3 && (!softwareName(req.ClientSoftwareName) || !softwareName(req.ClientSoftwareVersion)):
		resp.ErrorCode = kerr.InvalidRequest.Code
	case req.Version >= 5 && (req.ClusterID == nil) != (req.NodeID == -1):
		resp.ErrorCode = kerr.InvalidRequest.Code
	case q.authenticated() && req.Version >= 5 && req.ClusterID != nil &&
		(*req.ClusterID != q.server.o.ClusterID || req.NodeID != q.server.o.NodeID):
		resp.ErrorCode = kerr.RebootstrapRequired.Code
	default:
		q.noteSoftware(req)
		resp.ApiKeys = q.server.offer.Load().ranges
		q.server.features(req.Version, resp)
	}
	if q.session.sasl != nil {
		q.session.sasl.APIVersions(resp.ErrorCode)
	}
	q.answer(resp)
}

// authenticated tells whether requests of this connection are served already.
func (q *call) authenticated() bool {
	return q.session.sasl == nil || q.session.sasl.Authenticated()
}

// unsupportedAPIVersions is the answer to a version that nobody here knows.
func (q *call) unsupportedAPIVersions() {
	if q.session.sasl != nil {
		q.session.sasl.APIVersions(kerr.UnsupportedVersion.Code)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: keyAPIVersions, MinVersion: q.row.min, MaxVersion: q.row.max}}
	q.header.Version = 0
	q.answer(resp)
}

// noteSoftware keeps the client's name of itself, which older versions do not have.
func (q *call) noteSoftware(req *kmsg.ApiVersionsRequest) {
	id := q.conn.Identity()
	if req.Version < 3 || id == nil {
		return
	}
	next := *id
	next.Software, next.SoftwareVersion = intern(req.ClientSoftwareName), intern(req.ClientSoftwareVersion)
	if next != *id {
		q.conn.SetIdentity(&next)
	}
}

// features fills what the broker supports and what the cluster has finalized. Versions before 4
// cannot carry a lowest level of 0, so such features are left out there.
func (s *Server) features(version int16, resp *kmsg.ApiVersionsResponse) {
	if version < 3 {
		return
	}
	for _, f := range s.supported() {
		if version < 4 && f.Min == 0 {
			continue
		}
		sf := kmsg.NewApiVersionsResponseSupportedFeature()
		sf.Name, sf.MinVersion, sf.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, sf)
	}
	image := s.o.Metadata.Image()
	resp.FinalizedFeaturesEpoch = image.FeatureEpoch()
	for name, level := range sortedFeatures(image) {
		ff := kmsg.NewApiVersionsResponseFinalizedFeature()
		ff.Name, ff.MinVersionLevel, ff.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, ff)
	}
}

func sortedFeatures(image *metadata.Image) func(func(string, int16) bool) {
	levels := image.Features()
	names := make([]string, 0, len(levels))
	for name := range levels {
		names = append(names, name)
	}
	slices.Sort(names)
	return func(yield func(string, int16) bool) {
		for _, name := range names {
			if !yield(name, levels[name]) {
				return
			}
		}
	}
}

// rangesOf is the ApiVersions answer's list, in order of key. Produce is said to begin at 0, as Kafka
// says: librdkafka does not compress otherwise. A request below what is served closes its connection.
func rangesOf(rows map[int16]*row) []kmsg.ApiVersionsResponseApiKey {
	ranges := make([]kmsg.ApiVersionsResponseApiKey, 0, len(rows))
	for _, r := range rows {
		if r.hidden {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = r.key, r.min, r.max
		if r.key == keyProduce {
			k.MinVersion = 0
		}
		ranges = append(ranges, k)
	}
	slices.SortFunc(ranges, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) })
	return ranges
}

// softwareName tells whether KIP-511 allows a software name or version: letters and digits, between
// them also dots and dashes.
func softwareName(s string) bool {
	alphanumeric := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	for i := range len(s) {
		if !alphanumeric(s[i]) && (s[i] != '.' && s[i] != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}
