// Package metadata is a cluster's own state: SCRAM users, dynamic configs, client quotas, feature levels, ACLs, and which
// brokers there are. It is a log of changes that every broker applies alike, and the image that the log has led to so far.
//
// The life of a change: whoever received a request decides on its own settings whether to admit it, and hands the
// records to [Store.Append]. They become one entry of the log: a Kafka record in a topic of one partition, durable when
// it is answered, several waiting changes in one batch. The store reads its log in order and applies each entry to the
// image: all of its records, or none when a rule refuses one ([RejectedError]). What that verdict may depend on is the
// record, the image before it, and rules that belong to a metadata.version: never a broker's own configuration, nor the
// clock. Only then does Append return, so that whoever was told "done" finds the change in [Store.Image].
//
// An entry carries the node that wrote it, the incarnation of that node and a sequence number: what is appended twice
// because an answer was lost is applied once. A record of an unknown type or version stops the store for good, with an
// error that says so: it is never skipped, since the brokers that know it would have another image. Images that say the
// same have the same [Image.Hash].
//
// # Where the log is
//
// By default it lives in a Kafka of its own inside the process, which no client can reach. Or several brokers share it in
// a cluster that speaks Kafka's protocol ([Remote]). They make its topics if there are none, and of those that begin a log
// at the same time one does it for all. A far end that is out of reach does not end the store: it goes on with its image,
// says so ([Store.Status]), tries again, and lets Append wait for as long as its context allows. So is another cluster at
// its address, as of an engine that was started without its data: the cluster's id is asked whenever the log is reached again, topics
// are named by their ids where the far end knows them, and nothing is made there. The store ends when the log is not the one that it
// was: made anew, or shorter than what has been applied.
//
// # Who is there
//
// [Store.Join] registers a broker. Its signs of life go to a topic of their own, and whoever reads them notes when by its
// own clock, which thus never shows in the image. A broker without a sign for a session is fenced by a record: by the live
// one with the lowest id, or half a session later by any other. Before that it has fenced itself, counting from when it
// sent the last sign that was acknowledged, or last read the log if it cannot: a sign alone keeps nobody in, and lets nobody in
// again. Cut off, it can read no signs and write no records, so that it fences nobody else; and whoever has heard nothing for
// half a session counts everybody's silence anew. Once it has read the log again, up to an end that it had since, a broker joins again. A level of metadata.version that a broker which is not fenced cannot work at is refused, and so
// is the registration of a broker that cannot work at the level there is ([LevelError]).
//
// # Snapshots
//
// An image is written whole to a third topic when the log has 100,000 entries since the last, or 20 MiB of them and no less
// than the last snapshot was long: so a start reads at most about twice the image. Where several brokers share the log,
// the live one with the lowest id does it; where nobody has joined, anyone. First come the parts, then an end that makes
// them a snapshot, then a record in the log that tells everybody, and only when that was accepted older snapshots go, and of
// the log what came before the last of them: a broker that is a little behind still finds its next entry. Killed anywhere in
// between, nothing is lost and the next one is made as usual. A snapshot is refused that is not later than the last in the
// log: otherwise a slow broker could take away parts of the snapshot that a fast one relies on. The log is never emptied,
// because the Kafka inside the process numbers a topic from 0 again when it finds it so. A store whose next entry is gone
// reads itself anew from the snapshot, its ACLs in such an order that nothing is allowed for a moment that was not before
// and will not be after.
package metadata
