package protocol

import (
	"bytes"
	"slices"
	"testing"
)

func TestRowsThatAreStreamedAreThoseOfTheWholeResponse(t *testing.T) {
	t.Parallel()
	whole := ListClientConnectionsResponse{Connections: []ListClientConnectionsResponseConnection{
		{ConnectionID: "a", Principal: "User:alice", PrincipalType: "User", ClientPort: 7, ConnectedSince: 8}, {ConnectionID: "b"}, {},
	}}
	var rows []*ListClientConnectionsResponseConnection
	for i := range whole.Connections {
		rows = append(rows, &whole.Connections[i])
	}
	var streamed ListClientConnectionsResponse
	if got, want := streamed.AppendRows([]byte{1}, len(rows), slices.Values(rows)), whole.AppendTo([]byte{1}); !bytes.Equal(got, want) {
		t.Errorf("AppendRows = %x, want %x", got, want)
	}
}
