package stage

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/netns"
)

func TestAFailedSpecsFolderHasAPlainName(t *testing.T) {
	for text, want := range map[string]string{
		"The list has 10,000 rows": "the-list-has-10-000-rows-spec-1-2",
		"../../etc/passwd":         "etc-passwd-spec-1-2",
		"":                         "-spec-1-2",
		"Größe <script>":           "gr-e-script-spec-1-2",
		"a promise that is far too long to be the name of a folder on anybody's disk": "a-promise-that-is-far-too-long-to-be-the-name-of-a-folder-on-spec-1-2",
	} {
		if got := folderName(text, "spec-1-2"); got != want {
			t.Errorf("folderName(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestACaptureHasThePacketsOfItsNamespaceAndNothingIsLeft(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.NoLeakedFiles(t)
	g := NewWithT(t)
	ns, err := netns.Current()
	g.Expect(err).NotTo(HaveOccurred())
	defer ns.Close()
	c, err := newCapture(ns)
	g.Expect(err).NotTo(HaveOccurred())
	name := c.file.Name()

	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // of a TCP listener
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.Close()).To(Succeed())

	text, err := c.stop()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = os.Stat(name)
	g.Expect(err).To(MatchError(os.ErrNotExist))
	g.Expect(binary.LittleEndian.Uint32(text)).To(BeEquivalentTo(0xa1b23c4d))
	found := 0
	for rest := text[24:]; len(rest) > 0; {
		kept, whole := binary.LittleEndian.Uint32(rest[8:]), binary.LittleEndian.Uint32(rest[12:])
		g.Expect(kept).To(And(BeNumerically("<=", snapLength), BeNumerically("<=", whole)))
		packet := rest[16 : 16+kept]
		const ethernet, ipv4, toPort = 14, 20, 2
		if len(packet) >= ethernet+ipv4+toPort+2 && packet[12] == 8 && packet[13] == 0 && packet[ethernet+9] == 6 &&
			binary.BigEndian.Uint16(packet[ethernet+ipv4+toPort:]) == port {
			found++
		}
		rest = rest[16+kept:]
	}
	g.Expect(found).To(BeNumerically(">=", 3), "SYN, ACK and FIN to port %d", port)
	again, err := c.stop()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(HaveLen(len(text)))
}

func TestOnlyALabThatIsMarkedIsKept(t *testing.T) {
	folder := t.TempDir()
	if isKept(folder) {
		t.Error("isKept = true for a lab without a mark, want false")
	}
	if err := os.WriteFile(filepath.Join(folder, keptMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !isKept(folder) {
		t.Error("isKept = false for a lab with a mark, want true")
	}
}
