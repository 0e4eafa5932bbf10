package network

// Slot is the connection's place in the table, which it keeps for life and which is used again
// afterwards. [Server.Connections] walks in the order of slots, so a listing can go on where it
// stopped.
func (c *Conn) Slot() int32 { return c.slot }
