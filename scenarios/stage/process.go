package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
	"github.com/brokerlab/brokerlab/netlab"
)

// pid is the broker's process.
func (s *Stage) pid(ctx context.Context) int {
	GinkgoHelper()
	pid, err := s.running(ctx)
	Expect(err).NotTo(HaveOccurred(), "the broker does not run")
	return pid
}

// Freeze stops the broker's process in the middle of what it does (SIGSTOP), so that nothing is accepted or answered,
// until thaw is called or the spec ends.
func (s *Stage) Freeze(ctx context.Context) (thaw func()) {
	GinkgoHelper()
	pid := s.pid(ctx)
	s.frozen.Store(true)
	Expect(unix.Kill(pid, unix.SIGSTOP)).To(Succeed())
	Eventually(func() []string { return busy(pid) }).WithContext(ctx).Should(BeEmpty(), "each thread stops when it next can")
	thaw = sync.OnceFunc(func() {
		Expect(unix.Kill(pid, unix.SIGCONT)).To(Succeed())
		s.frozen.Store(false)
	})
	DeferCleanup(thaw)
	return thaw
}

// busy are the states of those threads of a process that are not stopped.
func busy(pid int) []string {
	GinkgoHelper()
	var states []string
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	Expect(err).NotTo(HaveOccurred())
	for _, t := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, t.Name()))
		if os.IsNotExist(err) {
			continue // it has ended meanwhile
		}
		Expect(err).NotTo(HaveOccurred())
		_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
		if !strings.HasPrefix(rest, "T") {
			states = append(states, rest[:1])
		}
	}
	return states
}

// BrokerFiles is how many file descriptors the broker's process has open; of a target whose log files come and go by themselves, how
// many sockets.
func (s *Stage) BrokerFiles(ctx context.Context) int {
	GinkgoHelper()
	if s.outside != nil {
		sockets, err := filesOf(s.pid(ctx))
		Expect(err).NotTo(HaveOccurred())
		return len(sockets)
	}
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid(ctx)))
	Expect(err).NotTo(HaveOccurred())
	return len(names)
}

// Queue is a listening socket as the socket table has it, which answers also while the broker does not.
type Queue struct {
	Queue, Backlog, Drops int64
}

// Listener is the accept queue of one of the broker's listeners.
func (s *Stage) Listener(_ context.Context, name string) Queue {
	GinkgoHelper()
	port := s.listener(name).Port
	sockets, err := s.sockets(port, sockdiag.Set(sockdiag.Listen))
	Expect(err).NotTo(HaveOccurred())
	Expect(sockets).NotTo(BeEmpty(), "nothing listens on port %d", port)
	return Queue{int64(sockets[0].Queue), int64(sockets[0].Backlog), int64(sockets[0].Drops)}
}

// CloseWait is how many sockets of the broker's listeners their clients have closed and the broker has not.
func (s *Stage) CloseWait(context.Context) int {
	GinkgoHelper()
	n := 0
	for _, l := range s.node.Listeners {
		sockets, err := s.sockets(l.Port, sockdiag.Set(sockdiag.CloseWait))
		Expect(err).NotTo(HaveOccurred())
		n += len(sockets)
	}
	return n
}

// sockets reads the socket table of the broker's namespace.
func (s *Stage) sockets(port uint16, states sockdiag.States) ([]sockdiag.Socket, error) {
	ns, err := s.node.Netns()
	if err != nil {
		return nil, err
	}
	var sockets []sockdiag.Socket
	err = ns.Do(func() error {
		table, openErr := sockdiag.Open()
		if openErr != nil {
			return openErr
		}
		sockets, openErr = table.Dump(port, states)
		return errors.Join(openErr, table.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("read the broker's socket table: %w", err)
	}
	return sockets, nil
}

// Command runs brokerlab with these arguments in the stage's own subnet, as a person would who knows the broker by the name "broker", and
// returns what it printed. It has to succeed.
func (s *Stage) Command(ctx context.Context, args ...string) string {
	GinkgoHelper()
	binary, err := Binary(ctx)
	Expect(err).NotTo(HaveOccurred())
	var out, problems bytes.Buffer
	err = s.lab.Exec(ctx, opsName, netlab.Command{Args: append([]string{binary}, args...), Stdout: &out, Stderr: &problems})
	Expect(err).NotTo(HaveOccurred(), "brokerlab %s\n%s%s", strings.Join(args, " "), out.String(), problems.String())
	return out.String()
}
