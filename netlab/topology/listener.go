package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// protocols are Kafka's security protocols.
func protocols() []string { return []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} }

// protocolMap reads listener.security.protocol.map, without judging it: the broker does.
func protocolMap(text string) map[string]string {
	protocols := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if name, protocol, ok := strings.Cut(strings.TrimSpace(pair), ":"); ok {
			protocols[strings.ToUpper(name)] = strings.ToUpper(protocol)
		}
	}
	return protocols
}

// parseListener reads NAME://host:port. The protocol is the map's, or else the name itself.
func parseListener(text string, byName map[string]string) (Listener, error) {
	match := regexp.MustCompile(`^([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.]*\]|[^:/\[\]]*):(\d{1,5})$`).FindStringSubmatch(text)
	if match == nil {
		return Listener{}, fmt.Errorf("%q is no listener such as SASL_SSL://:9095", text)
	}
	port, err := strconv.ParseUint(match[3], 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("%q: %s is not a port", text, match[3])
	}
	l := Listener{Name: strings.ToUpper(match[1]), Host: strings.Trim(match[2], "[]"), Port: uint16(port)}
	l.Protocol = l.Name
	if p, mapped := byName[l.Name]; mapped {
		l.Protocol = p
	}
	if !slices.Contains(protocols(), l.Protocol) {
		return Listener{}, fmt.Errorf("listener %s: %s is no security protocol: name one in listener.security.protocol.map", l.Name, l.Protocol)
	}
	return l, nil
}
