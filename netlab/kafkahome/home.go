package kafkahome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Default is the version of Kafka whose behaviour is ours.
const Default = "4.4.0"

// Variable names the environment variable with the folder of all versions, for [Dir].
const Variable = "BROKERLAB_KAFKA_DIR"

// ErrNotFetched is in the error for a version that is not on this machine. The text says how to get it.
var ErrNotFetched = errors.New("not on this machine")

// errNoServer is in the error for a folder without Kafka's server.
var errNoServer = errors.New("has no kafka_SCALA-VERSION.jar, such as kafka_2.13-" + Default + ".jar")

// Home is one version of Kafka on this machine.
type Home struct {
	Version string `json:"version"` // such as 4.4.0
	Folder  string `json:"folder"`  // absolute; it has libs/
}

// Dir is the folder where versions are kept: that of [Variable], or else brokerlab/kafka in the user's folder for caches.
// Under sudo the user is the one who called it, who fetched what is there.
func Dir() (string, error) {
	if dir := os.Getenv(Variable); dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := os.UserCacheDir()
	if name := os.Getenv("SUDO_USER"); name != "" && os.Geteuid() == 0 {
		u, errUser := user.Lookup(name)
		if errUser != nil {
			return "", fmt.Errorf("find the home of %s, who called sudo: %w", name, errUser)
		}
		cache, err = filepath.Join(u.HomeDir, ".cache"), nil
	}
	if err != nil {
		return "", fmt.Errorf("find the folder for Kafka: %w (set %s to name one)", err, Variable)
	}
	return filepath.Join(cache, "brokerlab", "kafka"), nil
}

// CheckVersion tells whether text can be a released version that brokerlab runs: 4.0.0 or later, by all its numbers.
// Whether there is such a release only Maven knows.
func CheckVersion(text string) error {
	match := regexp.MustCompile(`^(\d{1,4})\.\d{1,4}\.\d{1,4}(-[A-Za-z0-9.-]{1,32})?$`).FindStringSubmatch(text)
	if match == nil {
		return fmt.Errorf("%.100q is no version of Kafka such as %s", text, Default)
	}
	if major, err := strconv.Atoi(match[1]); err != nil || major < 4 {
		return fmt.Errorf("version %s: want 4.0.0 or later", text)
	}
	return nil
}

// Find is the home of a version in [Dir]. Where it is not there the error has [ErrNotFetched] and says how to get it.
func Find(version string) (Home, error) {
	if err := CheckVersion(version); err != nil {
		return Home{}, err
	}
	dir, err := Dir()
	if err != nil {
		return Home{}, err
	}
	return findIn(dir, version)
}

func findIn(dir, version string) (Home, error) {
	folder := filepath.Join(dir, version)
	h, err := At(folder)
	_, missing := os.Lstat(folder)
	again := fmt.Sprintf("remove it, and brokerlab kafka fetch %s gets it with Maven", version)
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing == nil:
		return Home{}, fmt.Errorf("%s has no libs: %s", folder, again) // not ErrNotFetched: nothing can be put there
	case errors.Is(err, errNoServer):
		return Home{}, fmt.Errorf("%w: %s", err, again)
	case errors.Is(err, fs.ErrNotExist):
		return Home{}, fmt.Errorf("Kafka %s is %w: %s is not there (brokerlab kafka fetch %s gets it with Maven)", version, ErrNotFetched, folder, version) //nolint:staticcheck // a name
	case err != nil:
		return Home{}, err
	case h.Version != version:
		return Home{}, fmt.Errorf("%s has Kafka %s, not %s: remove it", folder, h.Version, version)
	}
	return h, nil
}

// List gives the versions in [Dir], the lowest first. A folder that is no home is left out.
func List() ([]Home, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list versions of Kafka: %w", err)
	}
	var all []Home
	for _, e := range entries {
		if CheckVersion(e.Name()) != nil {
			continue
		}
		if h, err := findIn(dir, e.Name()); err == nil {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b Home) int { return compareVersions(a.Version, b.Version) })
	return all, nil
}

// compareVersions orders versions by their numbers; what is before a release comes before it.
func compareVersions(a, b string) int {
	numbersA, restA, _ := strings.Cut(a, "-")
	numbersB, restB, _ := strings.Cut(b, "-")
	x, y := numbers(numbersA), numbers(numbersB)
	if c := slices.Compare(x, y); c != 0 {
		return c
	}
	switch {
	case restA == restB:
		return 0
	case restA == "" || restB != "" && restA > restB:
		return 1
	}
	return -1
}

func numbers(text string) []int {
	var all []int
	for part := range strings.SplitSeq(text, ".") {
		n, _ := strconv.Atoi(part) // CheckVersion has seen it
		all = append(all, n)
	}
	return all
}

// At is the home in a folder that somebody has, such as an unpacked release. The version is that of libs/kafka_*.jar.
func At(folder string) (Home, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return Home{}, err
	}
	if strings.ContainsRune(folder, os.PathListSeparator) {
		return Home{}, fmt.Errorf("%s: no class path of Java can name a folder with %q in it", folder, os.PathListSeparator)
	}
	entries, err := os.ReadDir(filepath.Join(folder, "libs"))
	if err != nil {
		return Home{}, fmt.Errorf("no release of Kafka: %w", err)
	}
	jar := regexp.MustCompile(`^kafka_\d+\.\d+-(\d.*)\.jar$`)
	classified := regexp.MustCompile(`-(sources|javadoc|scaladoc|test|test-sources)\.jar$`)
	for _, e := range entries {
		match := jar.FindStringSubmatch(e.Name())
		if match == nil || classified.MatchString(e.Name()) {
			continue
		}
		if err := CheckVersion(match[1]); err != nil {
			return Home{}, fmt.Errorf("%s: %w", filepath.Join(folder, "libs", e.Name()), err)
		}
		return Home{Version: match[1], Folder: folder}, nil
	}
	return Home{}, fmt.Errorf("no release of Kafka: %s %w", filepath.Join(folder, "libs"), errNoServer)
}
