// Command pod-security asks Kubernetes' own pod security admission about pods. It reads from stdin
//
//	{"level": "restricted", "pods": [{"metadata": {...}, "spec": {...}}]}
//
// and prints for each pod what the level has against it, as an object of reasons and details; an
// empty one when it is admitted.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

type question struct {
	Level api.Level        `json:"level"`
	Pods  []map[string]any `json:"pods"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	level := api.LevelVersion{Level: asked.Level, Version: api.LatestVersion()}
	answers := []map[string]string{}
	for _, given := range asked.Pods {
		var pod corev1.Pod
		text, err := json.Marshal(given)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &pod); err != nil {
			return err
		}
		against := map[string]string{}
		for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				against[result.ForbiddenReason] = result.ForbiddenDetail
			}
		}
		answers = append(answers, against)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}
