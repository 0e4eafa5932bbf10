package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	// clerkPrincipal is whom the clerk's rules are for; its users, and the topics of its rules, are called clerkPrefix and a number.
	clerkPrincipal, clerkPrefix = "User:clerk", "clerk-"
	// clerkPace is the time between two that it asks for, and clerkPatience what it waits for an answer before it asks for the next.
	clerkPace, clerkPatience = 100 * time.Millisecond, 5 * time.Second
)

// clerk creates rules and users throughout a spec, each at another broker, in turn. What is acknowledged has to be there.
type clerk struct {
	s       *stage.Stage
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex // guards what follows
	rules, users map[string]bool
	refused      map[string]int
}

func beginClerk(ctx context.Context, s *stage.Stage) *clerk {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &clerk{s: s, stop: stop, rules: map[string]bool{}, users: map[string]bool{}, refused: map[string]int{}}
	c.running.Go(func() { c.work(working) })
	return c
}

func (c *clerk) work(ctx context.Context) {
	tick := time.NewTicker(clerkPace)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at := c.s.All()[n/2%len(c.s.All())] // a rule and a user at each
		name, kind := clerkPrefix+strconv.Itoa(n), c.rules
		do := createRule
		if n%2 == 1 {
			do, kind = createUser, c.users
		}
		bounded, cancel := context.WithTimeout(ctx, clerkPatience)
		err := do(bounded, at, name)
		cancel()
		c.mu.Lock()
		if err == nil {
			kind[name] = true
		} else if ctx.Err() == nil {
			c.refused[err.Error()]++
		}
		c.mu.Unlock()
	}
}

// createRule asks a broker for a rule about a topic.
func createRule(ctx context.Context, at *stage.Stage, topic string) error {
	req := kmsg.NewPtrCreateACLsRequest()
	one := kmsg.NewCreateACLsRequestCreation()
	one.ResourceType, one.ResourceName, one.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	one.Principal, one.Host, one.Operation, one.PermissionType = clerkPrincipal, "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, one)
	resp, err := at.Try(ctx, req)
	if err != nil {
		return err
	}
	return refusal(resp.(*kmsg.CreateACLsResponse).Results[0].ErrorCode)
}

// createUser asks a broker for a user with a password.
func createUser(ctx context.Context, at *stage.Stage, name string) error {
	const sha256, iterations = 1, 4096
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	one := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	one.Name, one.Mechanism, one.Iterations = name, sha256, iterations
	one.Salt, one.SaltedPassword = []byte("salt of "+name), make([]byte, 32)
	req.Upsertions = append(req.Upsertions, one)
	resp, err := at.Try(ctx, req)
	if err != nil {
		return err
	}
	return refusal(resp.(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode)
}

// end stops the clerk. It may be called twice.
func (c *clerk) end() {
	c.stop()
	c.running.Wait()
}

// finish stops the clerk, and waits until each broker has all that was acknowledged.
func (c *clerk) finish(ctx context.Context) {
	GinkgoHelper()
	c.end()
	GinkgoWriter.Printf("rules and users not acknowledged: %s\n", counted(c.refused))
	report.Attach(report.Figure{Name: "rules and users acknowledged", Value: float64(len(c.rules) + len(c.users))})
	Expect(c.rules).NotTo(BeEmpty())
	Expect(c.users).NotTo(BeEmpty())
	for _, b := range c.s.All() {
		Eventually(func() []string { return missing(c.rules, rulesAt(ctx, b)) }).WithContext(ctx).WithTimeout(patience).
			Should(BeEmpty(), "acknowledged rules that %s does not have", b.Name())
		Eventually(func() []string { return missing(c.users, usersAt(ctx, b)) }).WithContext(ctx).WithTimeout(patience).
			Should(BeEmpty(), "acknowledged users that %s does not have", b.Name())
	}
}

// missing are those of want that are not in got.
func missing(want, got map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(name string) bool { return got[name] })
}

// rulesAt are the topics of the clerk's rules that a broker has.
func rulesAt(ctx context.Context, b *stage.Stage) map[string]bool {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeACLsRequest()
	principal := clerkPrincipal
	req.ResourceType, req.ResourcePatternType, req.Principal = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeAny, &principal
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, ok := b.Ask(ctx, req).(*kmsg.DescribeACLsResponse)
	Expect(ok).To(BeTrue())
	Expect(refusal(resp.ErrorCode)).To(Succeed())
	names := map[string]bool{}
	for i := range resp.Resources {
		names[resp.Resources[i].ResourceName] = true
	}
	return names
}

// usersAt are the users with passwords that a broker has.
func usersAt(ctx context.Context, b *stage.Stage) map[string]bool {
	GinkgoHelper()
	resp, ok := b.Ask(ctx, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()).(*kmsg.DescribeUserSCRAMCredentialsResponse)
	Expect(ok).To(BeTrue())
	Expect(refusal(resp.ErrorCode)).To(Succeed())
	names := map[string]bool{}
	for i := range resp.Results {
		names[resp.Results[i].User] = true
	}
	return names
}

// refusal is a code that a broker answered, as an error: nil for 0.
func refusal(code int16) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("refused with %w", kerr.ErrorForCode(code))
}
