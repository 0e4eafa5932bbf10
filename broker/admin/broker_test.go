package admin_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

// startBroker runs a broker until the test ends and returns the address of its PLAINTEXT listener.
func startBroker(t *testing.T) string {
	t.Helper()
	return admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0"}).Addr("PLAINTEXT").String()
}

func dialBroker(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), admin.Versions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// connect opens a connection that says nothing.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Error(err)
		return nil
	}
	return c
}

func TestPagesUnderChurnShowEachConnectionOnce(t *testing.T) {
	addr := startBroker(t)
	cl := admin.New(dialBroker(t, addr))
	const lasting = 150
	stay := map[string]bool{}
	for range lasting {
		c := connect(t, addr)
		if c == nil {
			t.FailNow()
		}
		t.Cleanup(func() { _ = c.Close() })
		stay[c.LocalAddr().String()] = true
	}
	for { // until the broker has admitted them all
		rows, err := cl.ListClientConnections(t.Context(), admin.ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) >= lasting+1 {
			break
		}
	}

	done := make(chan struct{})
	var churn sync.WaitGroup
	for range 4 {
		churn.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if c := connect(t, addr); c != nil {
					_ = c.Close() // as a client that goes away
				}
			}
		})
	}
	defer churn.Wait()
	defer close(done)
	for _, page := range []int32{1, 7, 0} {
		rows, err := cl.DescribeConnections(t.Context(), admin.DescribeFilter{PageSize: page})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		here := 0
		for i := range rows {
			seen[rows[i].ConnectionID]++
			_, remote, _ := strings.Cut(rows[i].ConnectionID, "-")
			remote, _, _ = strings.Cut(remote, "-")
			if stay[remote] {
				here++
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Errorf("pages of %d show %s %d times", page, id, n)
			}
		}
		if here != lasting {
			t.Errorf("pages of %d show %d of %d connections that were there all the time", page, here, lasting)
		}
	}
}

func TestCallsStandBesideKadm(t *testing.T) {
	cl := dialBroker(t, startBroker(t))
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "beside"); err != nil {
		t.Fatal(err)
	}
	user := "User:ANONYMOUS"
	rows, err := admin.New(cl).ListClientConnections(t.Context(), admin.ListFilter{Principal: &user})
	if err != nil || len(rows) == 0 {
		t.Fatalf("ListClientConnections() = %d rows, %v", len(rows), err)
	}
	if r := rows[0]; r.NodeID != 1 || r.SoftwareName != "kgo" || r.ConnectedSince == 0 || r.SecurityProtocol != "PLAINTEXT" {
		t.Errorf("row = %+v", r)
	}
	kernel, err := admin.New(cl).DescribeKernel(t.Context(), admin.KernelFilter{})
	if err != nil || len(kernel) != 1 || kernel[0].NodeID != 1 || kernel[0].Mode != "off" {
		t.Errorf("DescribeKernel() = %+v, %v", kernel, err)
	}
}
