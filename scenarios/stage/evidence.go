package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Environment variables that say what is kept of a spec that fails. The runner sets them.
const (
	// ReportVariable is the report's folder; what is saved of a failed spec gets a folder below it.
	ReportVariable = "BROKERLAB_REPORT_DIR"
	// KeepVariable, if not empty, leaves the lab of a failed spec standing.
	KeepVariable = "BROKERLAB_KEEP"
	// CaptureVariable, if not empty, records the broker's packets and saves those of failed specs.
	CaptureVariable = "BROKERLAB_PCAP"
)

// failedFolder is the folder of failed specs below the report's.
const failedFolder = "failed"

// evidenceTime bounds how long a broker is asked for what it knows.
const evidenceTime = 10 * time.Second

// Files that are saved of a failed spec.
const (
	specFile        = "spec.txt"
	logFile         = "broker.log"
	propertiesFile  = "server.properties"
	connectionsFile = "connections.json" // DescribeConnections, or what is known from outside; the stage's own included
	kernelFile      = "kernel.json"      // DescribeKernel
	socketsFile     = "sockets.txt"      // the socket table of the broker's namespace, which answers also while the broker does not
	clientsFile     = "clients.json"     // the fleets' records
	packetsFile     = "broker.pcap"
	missingFile     = "missing.txt" // what could not be had
)

// evidence saves, once, what is known at the end of a spec that failed: it is called before the first fleet is closed.
func (s *Stage) evidence() {
	if !CurrentSpecReport().Failed() || os.Getenv(ReportVariable) == "" {
		return
	}
	s.saved.Do(func() {
		below := filepath.Join(failedFolder, folderName(CurrentSpecReport().FullText(), s.lab.Name()))
		problems := s.save(filepath.Join(os.Getenv(ReportVariable), below))
		if problems != nil {
			GinkgoWriter.Printf("save what is known: %v\n", problems)
		}
		s.folder = below
	})
}

// folderName makes a file name of a spec's text and its lab's name, which tells repetitions apart.
func folderName(text, lab string) string {
	const most = 60
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > most {
		name = strings.TrimRight(name[:most], "-")
	}
	return name + "-" + lab
}

// save writes all that can be had into folder. What cannot be had is written down there, and returned if that is impossible.
func (s *Stage) save(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a report is for everyone to read
		return fmt.Errorf("make a failed spec's folder: %w", err)
	}
	var missing []error
	write := func(name string, text []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o644) //nolint:gosec // a report is for everyone to read
		}
		if err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", name, err))
		}
	}
	asJSON := func(name string, v any, err error) {
		if err != nil {
			write(name, nil, err)
			return
		}
		text, err := json.MarshalIndent(v, "", "  ")
		write(name, append(text, '\n'), err)
	}
	spec := CurrentSpecReport()
	write(specFile, []byte(report.Clean(fmt.Sprintf("%s\n%s\n\n%s\n", spec.FullText(), spec.Failure.Location, spec.Failure.Message))), nil)
	s.mu.Lock()
	var clients []fleet.Record
	for _, f := range s.fleets {
		clients = append(clients, f.Records()...)
	}
	s.mu.Unlock()
	asJSON(clientsFile, clients, nil)
	for _, b := range s.brokers {
		b.saveBroker(write, asJSON)
	}
	for _, n := range s.lab.Nodes() { // the engine of a cluster, or what is behind it
		if n.Kind == topology.Engine || s.lab.Topology().Behind(&n.Node) {
			text, err := os.ReadFile(n.LogPath())
			write(n.Name+".log", text, err)
		}
	}
	if s.capture != nil {
		text, err := s.capture.stop()
		write(packetsFile, text, err)
	}
	if len(missing) > 0 {
		write(missingFile, []byte(report.Clean(errors.Join(missing...).Error()+"\n")), nil)
	}
	return errors.Join(missing...)
}

// saveBroker writes what is known of one broker. In a cluster its name comes first in the files' names.
func (s *Stage) saveBroker(write func(name string, text []byte, err error), asJSON func(name string, v any, err error)) {
	name := func(file string) string { return file }
	if len(s.brokers) > 1 {
		name = func(file string) string { return s.node.Name + "-" + file }
	}
	text, err := s.socketTable()
	write(name(socketsFile), text, err)
	if s.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), evidenceTime)
		if s.outside != nil {
			rows, unlisted := s.taken(ctx)
			asJSON(name(connectionsFile), rows, unlisted)
		} else {
			rows, unlisted := s.admin.DescribeConnections(ctx, admin.DescribeFilter{Nodes: s.nodes()})
			asJSON(name(connectionsFile), rows, unlisted)
		}
		kernel, uncounted := s.tryKernel(ctx, admin.KernelFilter{Sources: true})
		asJSON(name(kernelFile), kernel, uncounted)
		cancel()
	}
	text, err = os.ReadFile(s.node.LogPath())
	write(name(logFile), text, err)
	text, err = os.ReadFile(filepath.Join(filepath.Dir(s.node.LogPath()), propertiesFile))
	write(name(propertiesFile), text, err)
}

// socketTable is all TCP sockets of the broker's listeners, one a line.
func (s *Stage) socketTable() ([]byte, error) {
	states := sockdiag.Connected() | sockdiag.Set(sockdiag.Listen, sockdiag.SynRecv, sockdiag.TimeWait)
	var b strings.Builder
	var errs []error
	fmt.Fprintln(&b, "LISTENER STATE LOCAL REMOTE QUEUE BACKLOG DROPS IN OUT")
	for _, l := range s.node.Listeners {
		sockets, err := s.sockets(l.Port, states)
		errs = append(errs, err)
		for i := range sockets {
			k := &sockets[i]
			fmt.Fprintln(&b, l.Name, k.State, k.Local, k.Remote, k.Queue, k.Backlog, k.Drops, k.BytesIn, k.BytesOut)
		}
	}
	return []byte(b.String()), errors.Join(errs...)
}

// keep leaves the lab of a failed spec standing, if that was asked for, and marks it so that [Sweep] does not take it.
func (s *Stage) keep() bool {
	if !CurrentSpecReport().Failed() || os.Getenv(KeepVariable) == "" {
		return false
	}
	if err := os.WriteFile(filepath.Join(s.lab.Folder(), keptMark), nil, 0o600); err != nil {
		GinkgoWriter.Printf("keep the lab: %v\n", err)
		return false
	}
	if err := s.lab.Close(); err != nil {
		GinkgoWriter.Printf("let go of the lab: %v\n", err)
	}
	s.kept = true
	return true
}

// keptMark is a file in the folder of a lab that was left standing on purpose.
const keptMark = "kept"

// isKept tells whether the lab in folder was left standing on purpose.
func isKept(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, keptMark))
	return !errors.Is(err, fs.ErrNotExist)
}

// Without ends the spec as skipped, since this machine has no client of a kind.
func Without(client string, why error) {
	GinkgoHelper()
	skip(report.LackClient, fmt.Sprintf("without clients of %s: %v", client, why))
}

// skip ends the spec as skipped, and notes what kind of thing the machine lacks.
func skip(lack report.Lack, why string) {
	GinkgoHelper()
	report.Attach(lack)
	Skip(why)
}
