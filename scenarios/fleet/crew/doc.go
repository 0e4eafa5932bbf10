// Package crew is a fleet whose workers are anywhere: they and whoever gives them work meet at a topic of a Kafka cluster, which need
// not be the one that the fleet's clients load. The cluster does the distributing, by what every Kafka cluster has:
//
//   - A partition of the topic is a share of the work. Workers are a consumer group of the topic: who is assigned the partition takes
//     the share. That one has died or come late is the group's to notice, by its session timeout.
//   - The coordinator is the one member of a second consumer group that is assigned the only partition of the topic of reports, so
//     that there is one at a time; others wait.
//   - What belongs to whom, and in which order, is decided by the order of records in a partition.
//
// The life of a run: the coordinator offers each share in its partition, again and again until somebody has taken it. Its worker says
// so among the reports; the first to say so has it. From then on the partition carries commands to that worker, and the topic of reports
// its answers: the very lines that a worker process on one machine reads and writes ([fleet.Serve]), cut into pieces. When the
// coordinator ends, its workers end what they hold and wait for the next.
//
// A share is given once. A worker that leaves the group in the middle takes its clients with it: its shares end with a
// [fleet.LostError], and nobody opens them again behind the back of who measures.
//
// What else is in the topics is left alone and told of. Who may write into the topic can have workers connect anywhere, and who may read
// it reads the credentials of the fleet's clients: give it ACLs.
package crew
