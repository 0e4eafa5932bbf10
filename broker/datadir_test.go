package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDirectoryOfARealKafkaIsRefusedUntouched(t *testing.T) {
	dir := t.TempDir()
	meta := "version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=3cXLkzYbTHSkmZqzJ0Yw7A\n"
	if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte(meta), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "orders-0"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := openDataDir(dir, "", 1)
	if err == nil || !strings.Contains(err.Error(), `"orders-0"`) {
		t.Errorf("openDataDir = %v, want a refusal that names orders-0", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v, %v; want the two entries it had", entries, err)
	}
}

func TestADirectoryOfOursIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		d, err := openDataDir(dir, "", 1)
		if err != nil {
			t.Fatalf("openDataDir = %v, want nil", err)
		}
		for _, sub := range []string{"data", "metadata"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.release(); err != nil {
			t.Fatalf("release = %v, want nil", err)
		}
	}
}
