package dynamicconfig

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// Endpoint is one NAME://host:port.
type Endpoint struct {
	Name string // upper case
	Host string // IPv6 without brackets
	Port int    // not bounded
}

// Endpoints reads listeners or advertised.listeners. An entry that cannot be read is the error.
func Endpoints(texts []string) ([]Endpoint, error) {
	form := regexp.MustCompile(`\A(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?\d+)\z`)
	var all []Endpoint
	for _, text := range texts {
		m := form.FindStringSubmatch(text)
		if m == nil {
			return nil, refuse("Unable to parse %s to a broker endpoint", text)
		}
		port, err := strconv.Atoi(m[3])
		if err != nil {
			return nil, refuse("Unable to parse %s to a broker endpoint", text)
		}
		all = append(all, Endpoint{strings.ToUpper(m[1]), m[2], port})
	}
	return all, nil
}

// names lists the listeners of a configuration that was checked.
func (v Values) names(key string) (names []string) {
	for _, text := range kafkaconfig.SplitList(v.Get(key)) {
		name, _, _ := strings.Cut(text, "://")
		names = append(names, strings.ToUpper(name))
	}
	return names
}

func (v Values) controllers() (names []string) {
	for _, name := range kafkaconfig.SplitList(v.Get("controller.listener.names")) {
		names = append(names, strings.ToUpper(name))
	}
	return names
}

// advertised lists the listeners whose addresses clients are told.
func (v Values) advertised() []string {
	if v.Get("advertised.listeners") != "" {
		return v.names("advertised.listeners")
	}
	return slices.DeleteFunc(v.names("listeners"), func(n string) bool { return slices.Contains(v.controllers(), n) })
}

// running lists the listeners of now that are no controller's.
func (c Change) running() []string {
	return slices.DeleteFunc(c.Now.names("listeners"), func(n string) bool { return slices.Contains(c.Now.controllers(), n) })
}

// staying lists those of them that are there afterwards.
func (c Change) staying() []string {
	next := c.Next.names("listeners")
	return slices.DeleteFunc(c.running(), func(n string) bool { return !slices.Contains(next, n) })
}

// protocols reads listener.security.protocol.map; of a listener that is there twice, the last entry counts.
func (v Values) protocols() (map[string]string, error) {
	const name = "listener.security.protocol.map"
	entries, err := csvMap(name, v.Get(name))
	if err != nil {
		return nil, err
	}
	protocols := map[string]string{}
	if _, given := v[name]; !given { // controllers without an entry speak PLAINTEXT by default
		for _, n := range v.controllers() {
			protocols[n] = "PLAINTEXT"
		}
	}
	for _, e := range entries {
		protocol := strings.ToUpper(e[1])
		if !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, protocol) {
			return nil, refuse("Invalid security protocol `%s` defined in %s", e[1], name)
		}
		protocols[strings.ToUpper(e[0])] = protocol
	}
	return protocols, nil
}

// listenersAreReadable is what Kafka checks of a configuration's listeners, whatever they were before.
func (c Change) listenersAreReadable() error {
	if !c.changed("listeners", "listener.security.protocol.map") {
		return nil
	}
	texts := kafkaconfig.SplitList(c.Next.Get("listeners"))
	all := "[" + strings.Join(texts, ", ") + "]"
	wrong := func(format string, args ...any) error {
		return refuse("Error creating broker listeners from '%s': %s", all, fmt.Sprintf(format, args...))
	}
	protocols, err := c.Next.protocols()
	if err != nil {
		return err
	}
	endpoints, err := Endpoints(texts)
	if err != nil {
		return wrong("%s", err)
	}
	for i, e := range endpoints {
		if protocols[e.Name] == "" {
			return wrong("No security protocol defined for listener %s", e.Name)
		}
		if slices.ContainsFunc(endpoints[:i], func(o Endpoint) bool { return o.Name == e.Name }) {
			return wrong("Each listener must have a different name, listeners: %s", all)
		}
	}
	for i, e := range endpoints {
		same := slices.DeleteFunc(slices.Clone(endpoints), func(o Endpoint) bool { return o.Port != e.Port })
		if e.Port != 0 && len(same) > 1 && (len(same) > 2 || family(same[0].Host)*family(same[1].Host) != 4*6) {
			return wrong("If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners: %s, port: %d", all, endpoints[i].Port)
		}
	}
	return c.required()
}

// required are the listeners that a broker cannot do without.
func (c Change) required() error {
	names, controllers := c.Next.names("listeners"), c.Next.controllers()
	isController := slices.Contains(kafkaconfig.SplitList(c.Next.Get("process.roles")), "controller")
	if isController && !slices.ContainsFunc(controllers, func(n string) bool { return slices.Contains(names, n) }) {
		return refuse("requirement failed: controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role")
	}
	advertised := c.Next.advertised()
	if slices.ContainsFunc(advertised, func(n string) bool { return !slices.Contains(names, n) }) {
		return refuse("requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "+
			"Found %s. The valid options based on the current configuration are %s", strings.Join(advertised, ","), strings.Join(names, ","))
	}
	if c.InterBroker != "" && !slices.Contains(advertised, c.InterBroker) {
		return refuse("requirement failed: inter.broker.listener.name must be a listener name defined in advertised.listeners. "+
			"The valid options based on currently configured listeners are %s", strings.Join(advertised, ","))
	}
	if c.Next.Get("advertised.listeners") == "" {
		endpoints, _ := Endpoints(kafkaconfig.SplitList(c.Next.Get("listeners"))) // read before
		for _, e := range endpoints {
			if e.Host == "0.0.0.0" && !slices.Contains(controllers, e.Name) {
				return refuse("requirement failed: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.")
			}
		}
	}
	return nil
}

// family is 4 or 6, or 0 for what is no address.
func family(host string) int {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return 0
	case addr.Is4():
		return 4
	}
	return 6
}

// listenersStay holds listeners that run to what they are.
func (c Change) listenersStay() error {
	if !c.touchesListeners() {
		return nil
	}
	names := c.Next.names("listeners")
	if advertised := c.Now.advertised(); slices.ContainsFunc(advertised, func(n string) bool { return !slices.Contains(names, n) }) {
		return inapplicable("Advertised listeners '%s' must be a subset of listeners '%s'", scalaSet(advertised), scalaSet(names))
	}
	before, _ := c.Now.protocols() // the start has judged it
	after, err := c.Next.protocols()
	if err != nil {
		return err
	}
	for _, n := range c.staying() {
		if !maps.Equal(immutable(c.Now, n), immutable(c.Next, n)) {
			return inapplicable("Configs cannot be updated dynamically for existing listener ListenerName(%s), restart broker or create a new listener for update", n)
		}
		if before[n] != after[n] {
			return inapplicable("Security protocol cannot be updated for existing listener ListenerName(%s)", n)
		}
	}
	return nil
}

// touchesListeners tells whether a config that Kafka's listeners look at has changed. Those with a listener's prefix
// are none of them.
func (c Change) touchesListeners() bool {
	for known := range kafkaconfig.All() {
		looked := known.Mode == kafkaconfig.PerBroker && known.Name != "cordoned.log.dirs" || onAllBrokers(known.Name)
		if looked && c.changed(known.Name) {
			return true
		}
	}
	return false
}

// immutable are the configs of one listener that it keeps for its life.
func immutable(v Values, listener string) map[string]string {
	own := map[string]string{}
	for name, value := range v {
		rest, ok := strings.CutPrefix(name, Prefix(listener))
		if c, known := kafkaconfig.Lookup(rest); ok && (!known || !c.Security) && !onAllBrokers(rest) {
			own[rest] = value
		}
	}
	return own
}

// scalaSet prints listeners as Scala prints a set of them; larger ones than four in no order.
func scalaSet(names []string) string {
	const ordered = 4
	all := make([]string, 0, len(names))
	for _, n := range names {
		all = append(all, "ListenerName("+n+")")
	}
	kind := "Set"
	if len(names) > ordered {
		kind = "HashSet"
		slices.Sort(all)
	}
	return kind + "(" + strings.Join(all, ", ") + ")"
}
