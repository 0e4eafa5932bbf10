// Package stage sets up what a spec needs and takes it down: a lab with a real broker process, client subnets, fleets from
// them, and the three views of who is connected (the clients' own, the broker's and the kernel's).
//
//	s := stage.New(ctx, stage.Broker("connections.max.idle.ms=2000"), stage.Subnet("10.1.0.0/24"))
//	f := s.Fleet(ctx, s.Group("10.1.0.0/24", "SSL", "alice", 100))
//	Expect(s.Connections(ctx)).To(HaveLen(100))
//	Expect(s.Reconcile(ctx)).To(BeExplained())
//
// The life of a stage: [New] skips the spec where the machine cannot have a lab, starts the lab and connects an admin client
// from a subnet of its own, whose connections are left out of every list. While the spec runs, the counts of broker and
// kernel are sampled for the report. When it ends, whatever its end, fleets are closed, the lab is removed, and
// the spec fails if anything is left: processes, namespaces, cgroups, links, goroutines or file descriptors.
package stage
