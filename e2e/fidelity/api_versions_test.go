package fidelity

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersions(version int16, name, software string) *kmsg.ApiVersionsRequest {
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, name, software
	return r
}

// apis is a view of an answer to ApiVersions with its APIs by key and name, its features by name and of its epoch that there is one.
func (p *peer) apis(resp *kmsg.ApiVersionsResponse) any {
	v, _ := p.view(resp).(map[string]any)
	table := map[string]any{}
	for _, k := range resp.ApiKeys {
		table[fmt.Sprintf("%d %s", k.ApiKey, kmsg.NameForKey(k.ApiKey))] = map[string]any{"min": k.MinVersion, "max": k.MaxVersion}
	}
	v["ApiKeys"] = table
	v["SupportedFeatures"], v["FinalizedFeatures"] = byName(v["SupportedFeatures"]), byName(v["FinalizedFeatures"])
	v["FinalizedFeaturesEpoch"] = resp.FinalizedFeaturesEpoch > 0
	return v
}

// answered is what came of a request: the view of its answer, or how the connection ended.
func (c *conn) answered(req kmsg.Request, leave ...string) any {
	resp, end := c.exchange(req, patience)
	if end != "" {
		return end
	}
	if a, ok := resp.(*kmsg.ApiVersionsResponse); ok {
		return c.peer.apis(a)
	}
	return c.peer.view(resp, leave...)
}

// brief is answered without the table of APIs and features.
func (c *conn) brief(req kmsg.Request) any {
	seen := c.answered(req)
	if v, ok := seen.(map[string]any); ok && v["ApiKeys"] != nil {
		apis, _ := v["ApiKeys"].(map[string]any)
		brief := map[string]any{"ErrorCode": v["ErrorCode"], "ThrottleMillis": v["ThrottleMillis"], "APIs": len(apis) > 1}
		if len(apis) == 1 {
			brief["APIs"] = apis
		}
		return brief
	}
	return seen
}

// shaped sends ApiVersions of a version with a body of another's shape, and reads the answer in the shape of v0, which is what
// one of a version that is not known gets.
func (c *conn) shaped(version int16, body []byte) any {
	c.correlation++
	name := "f"
	if end := c.frame(append(header(18, version, c.correlation, &name, version >= 3), body...)); end != "" {
		return "the end"
	}
	resp, end := c.receive(apiVersions(0, "", ""), patience)
	if end != "" {
		return "the end"
	}
	a, _ := resp.(*kmsg.ApiVersionsResponse)
	return c.peer.apis(a)
}

func eachProtocol() []string { return []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} }

func TestApiVersionsIsAnsweredAlike(t *testing.T) {
	b := shared(t)
	for _, listener := range eachProtocol() {
		for _, moment := range []string{"at first", "after authentication"} {
			as := how{noSASL: moment == "at first"}
			if !as.noSASL && !strings.HasPrefix(listener, "SASL") {
				continue
			}
			area := "api versions/" + listener + "/" + moment + "/"
			for version := range int16(6) {
				b.compare(t, fmt.Sprintf("%sv%d", area, version), func(t *testing.T, p *peer) any {
					return p.dial(t, listener, as).answered(apiVersions(version, "fidelity", "1.0"))
				})
			}
			for _, version := range []int16{-32768, -1, 6, 7, 100, 32767} {
				b.compare(t, fmt.Sprintf("%sunknown v%d", area, version), func(t *testing.T, p *peer) any {
					c := p.dial(t, listener, as)
					seen := []any{c.shaped(version, nil)}
					if seen[0] == "the end" {
						return seen
					}
					// And the connection is as it was: a version that is known is answered.
					return append(seen, c.shaped(version, []byte{2, 'a', 2, 'b', 0}), c.brief(apiVersions(3, "fidelity", "1.0")))
				})
			}
			for _, version := range []int16{3, 4, 5} {
				b.compare(t, fmt.Sprintf("%ssoftware v%d", area, version), func(t *testing.T, p *peer) any {
					seen := map[string]any{}
					for _, name := range softwareNames() {
						for _, software := range []string{"1.0", "", "-", "1.0 beta"} {
							c := p.dial(t, listener, as)
							seen[fmt.Sprintf("%q %q", name, software)] = []any{c.brief(apiVersions(version, name, software)), c.brief(apiVersions(version, "good", "1"))}
							c.close()
						}
						if listener != "PLAINTEXT" && len(seen) > 8 {
							break // the rules are the same; what differs is what the connection does after
						}
					}
					return seen
				})
			}
			b.compare(t, area+"cluster and node of v5", func(t *testing.T, p *peer) any {
				seen := map[string]any{}
				for name, change := range clusterAndNode() {
					req := apiVersions(5, "fidelity", "1")
					change(req)
					c := p.dial(t, listener, as)
					seen[name] = []any{c.brief(req), c.brief(apiVersions(5, "fidelity", "1"))}
					c.close()
				}
				return seen
			})
		}
	}
}

func softwareNames() []string {
	return []string{
		"good", "", "a.b-c", ".a", "a.", "-a", "a-", "a b", "a_b", "é", "a\x00b", "a/b", "A9", strings.Repeat("x", 300), "a\n", "..", "1",
	}
}

func clusterAndNode() map[string]func(*kmsg.ApiVersionsRequest) {
	set := func(cluster string, node int32) func(*kmsg.ApiVersionsRequest) {
		return func(r *kmsg.ApiVersionsRequest) {
			if cluster != "null" {
				r.ClusterID = &cluster
			}
			r.NodeID = node
		}
	}
	table := map[string]func(*kmsg.ApiVersionsRequest){
		"neither": set("null", -1), "both right": set(clusterID, 1), "wrong cluster": set("nosuch", 1), "wrong node": set(clusterID, 2),
		"both wrong": set("nosuch", 7), "cluster alone": set(clusterID, -1), "node alone": set("null", 1), "empty cluster": set("", 1),
		"empty cluster alone": set("", -1), "node below": set(clusterID, -2), "node 0": set("null", 0),
	}
	return maps.Clone(table)
}
