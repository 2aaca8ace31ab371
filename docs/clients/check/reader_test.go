package main

import (
	"os/exec"
	"testing"
)

func TestReaderLosesNoRow(t *testing.T) {
	check := exec.Command("inorder", "lab", "check", "--program", "./reader", "--schedules", "20")
	if said, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}
