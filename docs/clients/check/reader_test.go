package main

import (
	"os/exec"
	"testing"
)

func TestReaderLosesNoRow(t *testing.T) {
	check := exec.Command("inorder", "lab", "check", "--program", "./reader", "--schedules", "20")
	if output, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}
