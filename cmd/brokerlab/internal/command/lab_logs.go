//go:build linux

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// followEvery is how often a log that is followed is looked at.
const followEvery = 100 * time.Millisecond

type labLogsOptions struct {
	follow bool
	tail   int
}

func newLabLogs(env Env) *cobra.Command {
	var o labLogsOptions
	c := &cobra.Command{
		Use:   "logs [FILE|NAME] NODE",
		Short: "Print what a node's program printed",
		Long: `Print what the program of a node has written to its standard output and error, over all its starts. The lab may be
left out where only one is up. With --follow it goes on until it is interrupted or the lab is taken down.`,
		Example: `  sudo brokerlab lab logs quickstart broker1 --tail 20
  sudo brokerlab lab logs quickstart broker1 --follow`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return labLogs(c.Context(), env, args, o) },
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on printing what is added")
	c.Flags().IntVar(&o.tail, "tail", -1, "print only the last `N` lines")
	c.Flags().Lookup("tail").DefValue = "" // all
	return c
}

func labLogs(ctx context.Context, env Env, args []string, o labLogsOptions) error {
	_, node, err := openNode(args)
	if err != nil {
		return err
	}
	log, err := os.Open(node.LogPath())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("node %s has not been started yet", node.Name)
	}
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // only read
	if o.tail >= 0 {
		if err := seekLines(log, o.tail); err != nil {
			return fmt.Errorf("read the end of %s: %w", log.Name(), err)
		}
	}
	if _, err := io.Copy(env.Stdout, log); err != nil || !o.follow {
		return err
	}
	return follow(ctx, env.Stdout, log)
}

// follow copies what is added to log until ctx ends or the file is removed.
func follow(ctx context.Context, w io.Writer, log *os.File) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done(): // the reader has seen enough
			return nil
		case <-tick.C:
		}
		gone := removed(log) // asked first, so that the last words are copied
		if _, err := io.Copy(w, log); err != nil || gone {
			return err
		}
	}
}

// removed tells whether no name is left for a file that is open.
func removed(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// seekLines moves to the begin of the last n lines. A last line may lack its end.
func seekLines(f io.ReadSeeker, n int) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	block := make([]byte, 32<<10)
	for at := end; at > 0; {
		part := block[:min(at, int64(len(block)))]
		at -= int64(len(part))
		if _, err = f.Seek(at, io.SeekStart); err != nil {
			return err
		}
		if _, err = io.ReadFull(f, part); err != nil {
			return err
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			begin := at + int64(i) + 1
			if begin == end { // the end of the last line begins none
				continue
			}
			n--
			if n == 0 {
				_, err = f.Seek(begin, io.SeekStart)
				return err
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
