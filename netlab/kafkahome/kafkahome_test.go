package kafkahome

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// release makes a folder that looks like a release.
func release(t *testing.T, folder string, jars ...string) string {
	t.Helper()
	libs := filepath.Join(folder, "libs")
	if err := os.MkdirAll(libs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, j := range jars {
		if err := os.WriteFile(filepath.Join(libs, j), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestAHomeHasTheVersionOfItsJar(t *testing.T) {
	h, err := At(release(t, t.TempDir(), "kafka-clients-4.4.0.jar", "kafka_2.13-4.3.1-sources.jar", "kafka_2.13-4.3.1.jar"))
	if err != nil || h.Version != "4.3.1" {
		t.Errorf("At = %+v, %v, want 4.3.1", h, err)
	}
	for _, c := range []struct {
		jars []string
		want string
	}{
		{nil, "has no kafka_SCALA-VERSION.jar"},
		{[]string{"kafka-clients-4.4.0.jar"}, "has no kafka_SCALA-VERSION.jar"},
		{[]string{"kafka_2.13-3.9.0.jar"}, "want 4.0.0 or later"},
	} {
		if _, err := At(release(t, t.TempDir(), c.jars...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("At a folder with %v = %v, want %q", c.jars, err, c.want)
		}
	}
	if _, err := At(release(t, filepath.Join(t.TempDir(), "a:b"), "kafka_2.13-4.4.0.jar")); err == nil || !strings.Contains(err.Error(), "class path") {
		t.Errorf("At a folder with a colon = %v, want that Java cannot use it", err)
	}
}

func TestAVersionThatIsMissingSaysHowToGetIt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Variable, dir)
	release(t, filepath.Join(dir, "4.3.0"), "kafka_2.13-4.3.0.jar")
	release(t, filepath.Join(dir, "4.10.0"), "kafka_2.13-4.10.0.jar")
	release(t, filepath.Join(dir, "4.4.0"), "kafka_2.13-4.3.0.jar")
	if h, err := Find("4.3.0"); err != nil || h.Folder != filepath.Join(dir, "4.3.0") {
		t.Errorf("Find = %+v, %v, want the one in %s", h, err, dir)
	}
	if _, err := Find("4.2.0"); !errors.Is(err, ErrNotFetched) || !strings.Contains(err.Error(), "brokerlab kafka fetch 4.2.0") {
		t.Errorf("Find = %v, want ErrNotFetched and how to get it", err)
	}
	if _, err := Find("4.4.0"); errors.Is(err, ErrNotFetched) || err == nil || !strings.Contains(err.Error(), "has Kafka 4.3.0") {
		t.Errorf("Find = %v, want that the folder has another version", err)
	}
	release(t, filepath.Join(dir, "4.5.0"), "kafka-clients-4.5.0.jar")
	if err := os.Mkdir(filepath.Join(dir, "4.6.0"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, rest := range []string{"4.5.0", "4.6.0"} { // Fetch could not put a home in its place
		if _, err := Find(rest); errors.Is(err, ErrNotFetched) || err == nil || !strings.Contains(err.Error(), "remove it, and brokerlab kafka fetch "+rest) {
			t.Errorf("Find = %v, want that the folder is to be removed", err)
		}
	}
	for _, wrong := range []string{"", "4", "../4.4.0", "4.4.0/x", "v4.4.0"} {
		if _, err := Find(wrong); err == nil || errors.Is(err, ErrNotFetched) {
			t.Errorf("Find %q = %v, want that it is no version", wrong, err)
		}
	}
	all, err := List()
	var got []string
	for _, h := range all {
		got = append(got, h.Version)
	}
	if want := []string{"4.3.0", "4.10.0"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("List = %v, %v, want %v: by number, without what is no home", got, err, want)
	}
}

func TestVersionsAreOrderedByTheirNumbers(t *testing.T) {
	ordered := []string{"4.0.0-rc1", "4.0.0", "4.0.1", "4.2.0", "4.10.0-SNAPSHOT", "4.10.0"}
	for i := range ordered {
		for k := range ordered {
			if got := compareVersions(ordered[i], ordered[k]); (got < 0) != (i < k) || (got == 0) != (i == k) {
				t.Errorf("compare %s with %s = %d", ordered[i], ordered[k], got)
			}
		}
	}
}

func TestJavaIsToldWhatKafkasScriptsAreTold(t *testing.T) {
	env := map[string]string{"KAFKA_HEAP_OPTS": "-Xmx1g  -Xms1g", "KAFKA_OPTS": "-Da=b", "KAFKA_LOG4J_OPTS": "-Dlog=x"}
	got := Options(func(key string) string { return env[key] })
	if strings.Join(got[:2], " ") != "-Xmx1g -Xms1g" || got[2] != "-server" || strings.Join(got[len(got)-2:], " ") != "-Dlog=x -Da=b" {
		t.Errorf("Options = %v, want heap, Kafka's performance options, logging, KAFKA_OPTS", got)
	}
	t.Setenv("JAVA_HOME", "/opt/java")
	line := Home{Version: "4.4.0", Folder: "/k"}.JavaWith([]string{"-Xmx1g"}, Server, "server.properties")
	if want := "/opt/java/bin/java -Xmx1g -cp /k/libs/* kafka.Kafka server.properties"; strings.Join(line, " ") != want {
		t.Errorf("JavaWith = %s, want %s", strings.Join(line, " "), want)
	}
	if err := CheckJava(); err == nil || !strings.Contains(err.Error(), "Java 17") {
		t.Errorf("CheckJava with a wrong JAVA_HOME = %v, want what is needed", err)
	}
}

func TestWithoutMavenFetchSaysSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Fetch(t.Context(), t.TempDir(), "4.4.0", nil); !errors.Is(err, ErrNoMaven) {
		t.Errorf("Fetch = %v, want ErrNoMaven", err)
	}
}

// A script takes Maven's place; make kafka runs the real one.
func maven(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mvn"), []byte("#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

func TestFetchPutsAWholeHomeInItsPlaceOrNothing(t *testing.T) {
	maven(t, `mkdir -p $out; touch $out/kafka_2.13-4.4.0.jar
		echo 'Downloaded from central: https://repo/kafka/4.4.0/kafka_2.13-4.4.0.jar (5 MB at 1 MB/s)'`)
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			h, err := Fetch(context.WithoutCancel(t.Context()), dir, "4.4.0", nil)
			if err != nil || h.Folder != filepath.Join(dir, "4.4.0") {
				t.Errorf("Fetch = %+v, %v, want a home in %s", h, err, dir)
			}
		})
	}
	all.Wait()
	only(t, dir, "4.4.0")

	var told []string
	if _, err := Fetch(t.Context(), t.TempDir(), "4.4.0", func(text string) { told = append(told, text) }); err != nil {
		t.Fatal(err)
	}
	if last := told[len(told)-1]; last != "fetching Kafka 4.4.0: 1 jars, the last kafka_2.13-4.4.0.jar" {
		t.Errorf("progress = %q, want the jar", last)
	}

	maven(t, `echo '[ERROR] Could not find artifact org.apache.kafka:kafka_2.13:jar:4.9.9 -> [Help 1]'; mkdir -p $out; exit 1`)
	_, err := Fetch(t.Context(), dir, "4.9.9", nil)
	if err == nil || !strings.HasSuffix(err.Error(), "Could not find artifact org.apache.kafka:kafka_2.13:jar:4.9.9") {
		t.Errorf("Fetch = %v, want what Maven said", err)
	}
	for script, want := range map[string]string{
		`echo "JAVA_HOME is not defined correctly" >&2; exit 1`:                                              "JAVA_HOME is not defined correctly",
		`printf '\033[0m\033[0m'; echo '[INFO] nothing'; echo '[FATAL] Non-readable settings x.xml'; exit 1`: "Non-readable settings x.xml",
	} {
		maven(t, script)
		if _, err = Fetch(t.Context(), dir, "4.9.9", nil); err == nil || !strings.HasSuffix(err.Error(), "exit status 1:\n  "+want) {
			t.Errorf("Fetch = %v, want %q", err, want)
		}
	}
	old, recent := filepath.Join(dir, ".fetch-1"), filepath.Join(dir, ".fetch-2")
	release(t, old, "half.jar")
	release(t, recent, "half.jar")
	if err = os.Chtimes(old, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	maven(t, `mkdir -p $out; touch $out/other.jar`)
	if _, err = Fetch(t.Context(), dir, "4.9.9", nil); err == nil || !strings.Contains(err.Error(), "what Maven gave is not Kafka") {
		t.Errorf("Fetch = %v, want that it is not Kafka", err)
	}
	if err = os.RemoveAll(recent); err != nil {
		t.Fatal(err)
	}
	only(t, dir, "4.4.0")
}

func only(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("%s has %v, %v, want %s only", dir, entries, err, name)
	}
}

func TestAVersionThatDoesNotExistIsToldFromATroubleWithMaven(t *testing.T) {
	for said, want := range map[string]bool{
		"Failed to execute goal on project kafka-home: Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 in central (https://repo)":                             true,
		"The following artifacts could not be resolved: org.apache.kafka:kafka-tools:jar:9.9.9: org.apache.kafka:kafka_2.13:jar:9.9.9 was not found in https://repo during": true,
		"Could not transfer artifact org.apache.kafka:kafka_2.13:jar:9.9.9 from/to central (https://repo): Connection refused":                                              false,
		"Could not find artifact org.apache.logging.log4j:log4j-core:jar:9.9.9 in central (https://repo)":                                                                   false,
	} {
		if got := unknown(said, "9.9.9"); got != want {
			t.Errorf("unknown(%q) = %t, want %t", said, got, want)
		}
	}
}

// Of a real release: formatting is idempotent, and a wrong level is told in Kafka's words.
func TestFormatIsKafkasOwn(t *testing.T) {
	h, err := Find(Default)
	if err != nil {
		t.Skip(err)
	}
	if err := CheckJava(); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	properties := filepath.Join(folder, "server.properties")
	text := "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:1\ncontroller.listener.names=C\n" +
		"listeners=C://localhost:1,PLAINTEXT://localhost:2\nlistener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs=" + folder + "/data\n"
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const id = "MkU3OEVBNTcwNTJENDM2Qg"
	if err := h.Format(t.Context(), properties, id, "9.9"); err == nil || !strings.Contains(err.Error(), "9.9") {
		t.Errorf("Format at a level that is none = %v, want Kafka's words", err)
	}
	for range 2 {
		if err := h.Format(t.Context(), properties, id, "4.3"); err != nil {
			t.Fatalf("Format = %v, want nil", err)
		}
	}
	if meta, err := os.ReadFile(folder + "/data/meta.properties"); err != nil || !strings.Contains(string(meta), "cluster.id="+id) {
		t.Errorf("meta.properties = %s, %v, want the cluster's id", meta, err)
	}
}
