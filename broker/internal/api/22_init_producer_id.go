package api

import "github.com/twmb/franz-go/pkg/kmsg"

// initProducerID gives a producer its id and epoch.
//
// Versions: 0-5.
// Needs: WRITE on TRANSACTIONAL_ID; without one, IDEMPOTENT_WRITE on CLUSTER or WRITE on any TOPIC.
// Differs from Kafka: nothing known.
func initProducerID() through[*kmsg.InitProducerIDRequest, *kmsg.InitProducerIDResponse] {
	return through[*kmsg.InitProducerIDRequest, *kmsg.InitProducerIDResponse]{}
}
