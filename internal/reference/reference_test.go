package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

func TestTheReferenceHasEveryFileOfTheTableAndEveryFieldOfOurOwnMessages(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	if err := write(&page, "../.."); err != nil {
		t.Fatal(err)
	}
	for key, name := range protocol.DefaultKeys().Names() {
		if want := fmt.Sprintf("### %s, key %d\n", name, key); !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, want := range []string{
		"| 0 | Produce | 3-13 |", "| 18 | ApiVersions |",
		"| &emsp;`TLS` | struct or absent |", "| &emsp;&emsp;`CipherSuite` | string | by its IANA name |", // nested twice
		"| `Group` | struct | all ports together", "| &emsp;`ServedMax` | int64 |", // a struct inside
		"| `Cursor` | bytes or null |", "INVALID_REQUEST for an address filter",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestKafkasNamesOfErrorsAreMadeOfGos(t *testing.T) {
	t.Parallel()
	for camel, want := range map[string]string{"InvalidRequest": "INVALID_REQUEST", "UnknownServerError": "UNKNOWN_SERVER_ERROR"} {
		if got := kafkaName(camel); got != want {
			t.Errorf("kafkaName(%q) = %q, want %q", camel, got, want)
		}
	}
}
