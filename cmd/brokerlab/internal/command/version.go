package command

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// build is what this binary is and where it runs: what a report of a fault needs.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // of the source, where the binary was built in its repository
	Time     string `json:"time,omitempty"`     // of the commit
	Modified bool   `json:"modified,omitempty"` // the source differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Kernel   string `json:"kernel,omitempty"` // that runs now
}

func newVersion(env Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from and the kernel that it runs on",
		Long:    "Print what this binary was built from and the kernel that it runs on, for reports of faults.",
		Example: "  brokerlab version\n  brokerlab version --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if f == formatJSON {
				return printJSON(env.Stdout, b)
			}
			return b.print(env.Stdout)
		},
	}
	addFormat(c, &f)
	return c
}

func thisBuild() build {
	b := build{Version: softwareVersion, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		b.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	return b
}

// commit is the commit for people.
func (b build) commit() string {
	switch {
	case b.Commit == "":
		return "not known"
	case b.Modified:
		return b.Commit + ", modified"
	}
	return b.Commit
}

func (b build) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "brokerlab %s\ncommit    %s\ngo        %s %s/%s\nkernel    %s\n", b.Version, b.commit(), b.Go, b.OS, b.Arch, b.Kernel)
	return err
}

// version is the build in one line, for --version.
func version() string {
	b := thisBuild()
	text := b.Version
	if b.Commit != "" {
		text += " " + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		text += " (modified)"
	}
	return text + " " + b.Go
}
