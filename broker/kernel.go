package broker

import (
	"context"
	"net/netip"
	"time"
)

// KernelSource counts the broker's sockets from outside the broker: in the kernel, where
// nothing that this process believes about its own connections can hide a mistake.
// A broker asks; whoever runs it decides how it is answered ([WithKernel]).
//
// All methods are safe for concurrent use, and none is called after Close.
type KernelSource interface {
	// Watch adds ports of the broker, in the network namespace of the calling process. It is
	// called for each socket after it is bound and before its listen(2), so that no connection
	// can be established uncounted; the ports of all calls form one group.
	Watch(ports []uint16) error
	// Report returns what the kernel counted for the watched ports.
	Report(ctx context.Context) (KernelReport, error)
	// Sockets lists the established server sockets of one watched port.
	Sockets(ctx context.Context, port uint16) ([]KernelSocket, error)
	// Close stops the counting and frees what it took.
	Close() error
}

// Kernel counting modes, as [KernelReport.Mode] names them.
const (
	KernelModeFull     = "full"      // BPF programs see every state change and the first bytes of each connection
	KernelModeSockDiag = "sock_diag" // a poll of the kernel's socket table: short connections between two polls are missed
	KernelModeOff      = "off"       // nobody counts
)

// How far a kernel number may be trusted, as [KernelReport.Exactness] names it. No number is
// shown without it.
const (
	KernelExact       = "exact"
	KernelLowerBound  = "lower bound"
	KernelUnavailable = "unavailable"
)

// KernelReport is the kernel's own count of a broker's connections at one moment.
type KernelReport struct {
	Mode      string            `json:"mode"`      // full, sock_diag or off
	Exactness string            `json:"exactness"` // exact, lower bound or unavailable
	Why       string            `json:"why"`       // what keeps the numbers from being exact; "" when nothing does
	Ports     []KernelPort      `json:"ports"`     // in the order of the port numbers
	Group     KernelGauge       `json:"group"`     // all ports together
	Lost      map[string]uint64 `json:"lost"`      // events that were not counted, by cause; empty when none were lost
}

// KernelPort is what the kernel counted on one listening port. Counters count from Watch.
type KernelPort struct {
	Port     uint16 `json:"port"`
	Listener string `json:"listener"` // the broker's name of the port; "" for a port of another program

	// Established server sockets now, and what their first payload bytes showed them to be.
	Established int64 `json:"established"`
	TLS         int64 `json:"tls"`
	Plaintext   int64 `json:"plaintext"`
	Undecided   int64 `json:"undecided"` // no payload yet
	Unknown     int64 `json:"unknown"`   // seeded, or first bytes that were not seen

	Opened uint64 `json:"opened"`
	Closed uint64 `json:"closed"`
	Seeded uint64 `json:"seeded"` // were there before counting began; not part of Opened

	BytesIn  uint64 `json:"bytesIn"`
	BytesOut uint64 `json:"bytesOut"`

	// Sockets that have sent payload to their client and have not begun to close, and the
	// most there ever were at one instant.
	Served       int64  `json:"served"`
	ServedMax    int64  `json:"servedMax"`
	ServedTLS    int64  `json:"servedTls"`
	ServedTLSMax int64  `json:"servedTlsMax"`
	ServedTotal  uint64 `json:"servedTotal"`

	AcceptQueue int64 `json:"acceptQueue"` // established, not yet accepted by the program
	Closing     int64 `json:"closing"`     // of Established: the program has closed it, and TCP has not ended yet
	Backlog     int64 `json:"backlog"`     // the limit of the accept queue
	Overflows   int64 `json:"overflows"`   // connections dropped because the accept queue was full

	Sources []KernelSourceCount `json:"sources"`
}

// KernelGauge is what the kernel counted over several ports together. High-water marks of a
// group are its own: they cannot be computed from those of its ports.
type KernelGauge struct {
	Established  int64  `json:"established"`
	TLS          int64  `json:"tls"`
	Plaintext    int64  `json:"plaintext"`
	Undecided    int64  `json:"undecided"`
	Unknown      int64  `json:"unknown"`
	Opened       uint64 `json:"opened"`
	Closed       uint64 `json:"closed"`
	Served       int64  `json:"served"`
	ServedMax    int64  `json:"servedMax"`
	ServedTLS    int64  `json:"servedTls"`
	ServedTLSMax int64  `json:"servedTlsMax"`
	ServedTotal  uint64 `json:"servedTotal"`
}

// KernelSourceCount is how many established connections one client address holds.
type KernelSourceCount struct {
	Addr  netip.Addr `json:"addr"`
	Count int64      `json:"count"`
}

// KernelSocket is one server socket as the kernel sees it. Cookie is the kernel's own name of
// the socket (SO_COOKIE) and joins it to the broker's connection.
type KernelSocket struct {
	Cookie    uint64         `json:"cookie"`
	Remote    netip.AddrPort `json:"remote"`
	BytesIn   uint64         `json:"bytesIn"`
	BytesOut  uint64         `json:"bytesOut"`
	RTTMicros uint32         `json:"rttMicros"`      // smoothed round-trip time; 0 when not measured
	State     string         `json:"state"`          // as ss(8) prints it: ESTAB, CLOSE-WAIT …
	Protocol  string         `json:"protocol"`       // by the first bytes: tls, plaintext, undecided or unknown
	Since     time.Time      `json:"since,omitzero"` // when it became established; the zero time where nobody saw it
}
