package broker_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What Kafka 4.4.0 answered to several changes of the credentials of one user, and to a salt of no bytes.
func TestTheFirstRefusalOfACredentialStands(t *testing.T) {
	t.Parallel()
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	put := func(user string, iterations int32, salt string) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = user, 1, iterations, []byte(salt), []byte("salted")
		return u
	}
	drop := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	drop.Name, drop.Mechanism = "a", 2
	for _, c := range []struct {
		name  string
		puts  []kmsg.AlterUserSCRAMCredentialsRequestUpsertion
		drops []kmsg.AlterUserSCRAMCredentialsRequestDeletion
		want  string
	}{
		{"twice", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{put("a", 4096, "s"), put("a", 8192, "s")}, nil, "92 A user credential cannot be altered twice in the same request"},
		{"bad, then good", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{put("a", 1, "s"), put("a", 4096, "s")}, nil, "93 Too few iterations"},
		{
			"dropped that is not there, and put",
			[]kmsg.AlterUserSCRAMCredentialsRequestUpsertion{put("a", 4096, "s")},
			[]kmsg.AlterUserSCRAMCredentialsRequestDeletion{drop},
			"91 Attempt to delete a user credential that does not exist",
		},
		{"without salt", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{put("a", 4096, "")}, nil, "0 "},
	} {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions, req.Deletions = c.puts, c.drops
		results := ask[*kmsg.AlterUserSCRAMCredentialsResponse](r, req).Results
		if len(results) != 1 {
			t.Errorf("%s: %d results, want 1", c.name, len(results))
			continue
		}
		got := fmt.Sprint(results[0].ErrorCode, " ")
		if results[0].ErrorMessage != nil {
			got += *results[0].ErrorMessage
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	described := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](r, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	if len(described.Results) != 1 || described.Results[0].ErrorMessage == nil || *described.Results[0].ErrorMessage != "" {
		t.Errorf("the user is described as %+v, want one without a problem, told as an empty text", described.Results)
	}
}
