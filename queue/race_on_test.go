//go:build race

package queue_test

const raceDetector = true
