package admin_test

import (
	"context"
	"fmt"
	"os"

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
