package broker_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// aclHosts has a line for each host: the host in JSON, then what Kafka 4.4.0 said of it. With BROKERLAB_TEST_KAFKA it is asked again.
const aclHosts = "testdata/acl-hosts.txt"

// creation is a rule that lets User:h read the topic h.
func creation(change func(*kmsg.CreateACLsRequestCreation)) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, "h", kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:h", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	change(&c)
	return c
}

// create asks for rules and returns a line for each: "0" or an error code and its text.
func (r *raw) create(creations ...kmsg.CreateACLsRequestCreation) []string {
	r.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version, req.Creations = 3, creations
	var said []string
	for _, result := range ask[*kmsg.CreateACLsResponse](r, req).Results {
		text, err := json.Marshal(result.ErrorMessage)
		if err != nil {
			r.t.Fatal(err)
		}
		said = append(said, fmt.Sprint(result.ErrorCode, " ", string(text)))
	}
	return said
}

// stricter are the hosts that Kafka takes and brokerlab does not: digits that are not ASCII.
func stricter(host string) bool {
	return strings.ContainsFunc(host, func(r rune) bool { return r >= '٠' && r <= '٩' })
}

func TestHostsAreJudgedAsByKafka(t *testing.T) {
	t.Parallel()
	_, recording := os.LookupEnv(kafkaAddress)
	var hosts, want []string
	var creations []kmsg.CreateACLsRequestCreation
	for line := range lines(t, aclHosts) {
		quoted, verdict, _ := strings.Cut(line, " => ")
		var host string
		if err := json.Unmarshal([]byte(quoted), &host); err != nil {
			t.Fatal(line, err)
		}
		hosts, want = append(hosts, quoted), append(want, verdict)
		creations = append(creations, creation(func(c *kmsg.CreateACLsRequestCreation) { c.Host = host }))
	}
	addr := testAddr(t)
	got := login(t, addr, "root").create(creations...)
	if len(got) != len(want) {
		t.Fatalf("%d results for %d hosts", len(got), len(want))
	}
	if recording {
		record := []string{"# Hosts of rules as Kafka 4.4.0 judges them: the host, the error code and the text of CreateAcls."}
		for i := range hosts {
			record = append(record, hosts[i]+" => "+got[i])
		}
		if err := os.WriteFile(aclHosts, []byte(strings.Join(record, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for i := range hosts {
		if strings.HasPrefix(want[i], "0 ") && stricter(creations[i].Host) {
			if !strings.HasPrefix(got[i], "42 ") {
				t.Errorf("host %s: %s, want it refused", hosts[i], got[i])
			}
			continue
		}
		if got[i] != want[i] {
			t.Errorf("host %s: %s, want %s", hosts[i], got[i], want[i])
		}
	}
}
