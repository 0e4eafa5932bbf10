package cluster

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	// clerkPrefix begins the names of the clerk's users, and of the topics of its rules.
	clerkPrefix = "clerk-"
	// clerkPace is the time between two that it asks for, and clerkPatience what it waits for an answer before it asks for the next.
	clerkPace, clerkPatience = 100 * time.Millisecond, 5 * time.Second
)

// clerk creates rules and users throughout a spec, each at another broker, in turn. What is acknowledged has to be there.
type clerk struct {
	s       *stage.Stage
	stop    context.CancelFunc
	running sync.WaitGroup

	// Owned by the goroutine that works until it has ended.
	rules, users map[string]bool // acknowledged
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
		at := c.s.All()[n/2%len(c.s.All())].Of(nil) // a rule and a user at each
		name := clerkPrefix + strconv.Itoa(n)
		bounded, cancel := context.WithTimeout(ctx, clerkPatience)
		if n%2 == 0 {
			code, err := makeRule(bounded, at, name, "*")
			c.answered(ctx, c.rules, name, code, err)
		} else {
			code, err := setUser(bounded, at, name, []byte("salt of "+name))
			c.answered(ctx, c.users, name, code, err)
		}
		cancel()
	}
}

// answered notes what became of a rule or a user.
func (c *clerk) answered(ctx context.Context, noted map[string]bool, name string, code int16, err error) {
	if err == nil {
		err = refusal(code)
	}
	switch {
	case err == nil:
		noted[name] = true
	case ctx.Err() == nil:
		c.refused[err.Error()]++
	}
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
