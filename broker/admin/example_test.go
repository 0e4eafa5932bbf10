package admin_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// Who is connected as alice, to which broker, since when?
func Example() {
	cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), admin.Versions())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer cl.Close()
	alice := "User:alice"
	rows, err := admin.New(cl).ListClientConnections(context.Background(), admin.ListFilter{Principal: &alice})
	for i := range rows { // what came back is valid beside an error
		r := &rows[i]
		fmt.Println(r.NodeID, r.ClientAddress, r.ConnectedSince)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Which limits are full, and what does the next client of such a listener meet?
func ExampleClient_DescribeLimits() {
	cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), admin.Versions())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer cl.Close()
	answers, err := admin.New(cl).DescribeLimits(context.Background(), admin.LimitsFilter{})
	for _, a := range answers { // what came back is valid beside an error
		for i := range a.Limits {
			if l := &a.Limits[i]; l.InUse >= float64(l.Value) {
				fmt.Printf("broker %d: %s %s of %d, set by %s (%s)\n", a.NodeID, l.ListenerName, l.Name, l.Value, l.SetBy, l.Source)
			}
		}
		for i := range a.Listeners {
			fmt.Println(a.NodeID, a.Listeners[i].ListenerName, a.Listeners[i].Next.Outcome)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Free ten slots of a listener: what would be closed is shown before it is.
func ExampleClient_CloseConnections() {
	cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), admin.Versions())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer cl.Close()
	adm, listener := admin.New(cl), "SSL"
	for _, dry := range []bool{true, false} {
		answers, err := adm.CloseConnections(context.Background(), admin.CloseFilter{Listener: &listener, Most: 10, DryRun: dry})
		for _, a := range answers {
			for i := range a.Connections {
				fmt.Println(dry, a.NodeID, a.Connections[i].ConnectionID, a.Connections[i].Principal)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

// Why did the client at 10.0.0.7 have to wait?
func ExampleClient_DescribeConnectionTimeline() {
	cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), admin.Versions())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer cl.Close()
	address := "10.0.0.7"
	answers, err := admin.New(cl).DescribeConnectionTimeline(context.Background(), admin.TimelineFilter{Address: &address})
	for _, a := range answers {
		for i := range a.Connections {
			for _, e := range a.Connections[i].Events {
				fmt.Println(a.NodeID, time.UnixMicro(e.At), e.Name, time.Duration(e.Micros)*time.Microsecond, e.Limit, e.CountedBy)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
