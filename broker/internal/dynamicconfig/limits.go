package dynamicconfig

import (
	"regexp"
	"strconv"
	"strings"
)

// The keys of connection limits.
const (
	MaxConnections = "max.connections"
	ConnectionRate = "max.connection.creation.rate"
	MaxPerIP       = "max.connections.per.ip"
	PerIPOverrides = "max.connections.per.ip.overrides"
	MaxSSL         = "max.ssl.connections" // KIP-1015; no listener has its own
)

// Override is one entry of max.connections.per.ip.overrides.
type Override struct {
	Host  string // an address or a name, as written; "" is the loopback
	Count int    // below 0 is as good as 0
}

// PerIP reads max.connections.per.ip.overrides and tells whether max.connections.per.ip may be what it is beside it. The
// last entry of an address holds. Names are not looked up. The error is a [*RefusedError].
func (v Values) PerIP() ([]Override, error) {
	entries, err := csvMap(PerIPOverrides, v.Get(PerIPOverrides))
	if err != nil {
		return nil, err
	}
	overrides := make([]Override, 0, len(entries))
	var strange []string
	for _, entry := range entries {
		count, err := strconv.ParseInt(entry[1], 10, 32)
		if err != nil {
			return nil, refuse("For input string: %q", entry[1])
		}
		if !regexp.MustCompile(`\A[0-9a-zA-Z\-%._:]*\z`).MatchString(entry[0]) {
			strange = append(strange, entry[0])
		}
		overrides = append(overrides, Override{entry[0], int(count)})
	}
	if v.Int(MaxPerIP) == 0 && len(overrides) == 0 {
		return nil, refuse("requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.")
	}
	if len(strange) > 0 {
		return nil, refuse("%s contains invalid addresses : %s", PerIPOverrides, strings.Join(strange, ","))
	}
	return overrides, nil
}

// addresses are max.connections.per.ip and its overrides.
func (c Change) addresses() error {
	if !c.changed(MaxPerIP, PerIPOverrides) {
		return nil
	}
	_, err := c.Next.PerIP()
	return err
}

// csvMap reads key:value entries between commas, the last colon of each counts. As in Kafka, nothing after the last commas is no
// entry, and nothing before the first one is a wrong one.
func csvMap(name, text string) (entries [][2]string, err error) {
	parts := regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(text), -1)
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	for _, entry := range parts {
		at := strings.LastIndexByte(entry, ':')
		if at < 0 {
			return nil, refuse("Error parsing configuration property '%s': begin 0, end -1, length %d", name, len(entry))
		}
		entries = append(entries, [2]string{strings.TrimSpace(entry[:at]), strings.TrimSpace(entry[at+1:])})
	}
	return entries, nil
}

// limits refuses a limit that admits nobody, for each listener that would get it. Kafka looks at both limits of a
// listener when one has changed.
func (c Change) limits() error {
	for _, listener := range c.staying() {
		own := func(v Values, name string) int64 { return v.IntOf(listener, name) }
		if own(c.Now, MaxConnections) == own(c.Next, MaxConnections) && own(c.Now, ConnectionRate) == own(c.Next, ConnectionRate) {
			continue
		}
		for _, name := range []string{MaxConnections, ConnectionRate} {
			if is := own(c.Next, name); is <= 0 {
				return inapplicable("Invalid %s %d", name, is)
			}
		}
	}
	if is := c.Next.Int(MaxSSL); c.changed(MaxSSL) && is <= 0 {
		return inapplicable("Invalid %s %d", MaxSSL, is)
	}
	return nil
}
