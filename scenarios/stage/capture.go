package stage

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
)

const (
	// snapLength is how much of each packet is recorded: all headers, and the beginning of what a client says.
	snapLength = 256
	// captureLimit bounds a recording; what comes after is left out.
	captureLimit = 64 << 20
	// captureBuffer is what the kernel holds while nobody reads.
	captureBuffer = 16 << 20
)

// capture records the packets of one network namespace as a pcap file, which is removed when it ends unless it is asked for.
type capture struct {
	packets, file *os.File
	reading       sync.WaitGroup
	once          sync.Once
	text          []byte
	err           error
}

// record begins to record the broker's packets, if that was asked for, until the spec ends.
func (s *Stage) record() {
	GinkgoHelper()
	if os.Getenv(CaptureVariable) == "" {
		return
	}
	ns, err := s.node.Netns()
	Expect(err).NotTo(HaveOccurred())
	s.capture, err = newCapture(ns)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error {
		_, err := s.capture.stop()
		return err
	})
}

// newCapture begins to record all interfaces of ns.
func newCapture(ns *netns.Handle) (*capture, error) {
	c := &capture{}
	err := ns.Do(func() error {
		const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, everything)
		if err != nil {
			return err
		}
		c.packets = os.NewFile(uintptr(fd), "packets")
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer)
	})
	if err == nil {
		c.file, err = os.CreateTemp("", "brokerlab-*.pcap")
	}
	if err != nil {
		if c.packets != nil {
			err = errors.Join(err, c.packets.Close())
		}
		return nil, fmt.Errorf("record packets: %w", err)
	}
	c.reading.Go(func() { c.err = c.read() })
	return c, nil
}

// read writes packets to the file until the socket is given a deadline.
func (c *capture) read() error {
	out := bufio.NewWriter(c.file)
	const magic, ethernet = 0xa1b23c4d, 1 // nanoseconds
	head := binary.LittleEndian.AppendUint32(nil, magic)
	head = binary.LittleEndian.AppendUint16(head, 2) // version 2.4
	head = binary.LittleEndian.AppendUint16(head, 4)
	head = append(head, make([]byte, 8)...)
	head = binary.LittleEndian.AppendUint32(head, snapLength)
	head = binary.LittleEndian.AppendUint32(head, ethernet)
	if _, err := out.Write(head); err != nil {
		return err
	}
	written := len(head)
	keep := func(packet []byte) error {
		now, kept := time.Now(), min(len(packet), snapLength)
		if written += 16 + kept; written > captureLimit {
			return nil
		}
		head = binary.LittleEndian.AppendUint32(head[:0], uint32(now.Unix()))
		for _, v := range []int{now.Nanosecond(), kept, len(packet)} {
			head = binary.LittleEndian.AppendUint32(head, uint32(v))
		}
		_, err := out.Write(append(head, packet[:kept]...))
		return err
	}
	buffer := make([]byte, 64<<10+snapLength)
	for {
		n, err := c.packets.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.Join(c.drain(buffer, keep), out.Flush())
		}
		if err == nil {
			err = keep(buffer[:n])
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
}

// drain keeps the packets that the kernel holds already: a deadline ends a read though there is something to read.
func (c *capture) drain(buffer []byte, keep func([]byte) error) error {
	raw, err := c.packets.SyscallConn()
	if err != nil {
		return err
	}
	var kept error
	err = raw.Control(func(fd uintptr) {
		for held := 0; held < captureBuffer && kept == nil; {
			n, unread := unix.Read(int(fd), buffer)
			if unread != nil {
				return // nothing is left
			}
			held += n
			kept = keep(buffer[:n])
		}
	})
	return errors.Join(err, kept)
}

// stop ends the recording and returns it. It can be called again.
func (c *capture) stop() ([]byte, error) {
	c.once.Do(func() {
		deadline := c.packets.SetReadDeadline(time.Unix(1, 0))
		c.reading.Wait()
		text, err := os.ReadFile(c.file.Name())
		c.text = text
		c.err = errors.Join(c.err, deadline, err, c.packets.Close(), c.file.Close(), os.Remove(c.file.Name()))
	})
	return c.text, c.err
}
