// Command firing runs Prometheus's own rule engine over made-up series. It reads from stdin
//
//	{"rules": "groups: ...", "cases": [{"minutes": 30, "series": ["up{pod=\"a\"} 1x10 0x20"]}]}
//
// with one sample of each series a minute, evaluates all alerts every minute, and prints for each
// case the alerts that are firing in the end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

type scenario struct {
	Minutes int      `json:"minutes"`
	Series  []string `json:"series"`
}

type firing struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Value       float64           `json:"value"`
}

var (
	language = parser.NewParser(parser.Options{})
	quiet    = slog.New(slog.DiscardHandler)
	// The head of a fresh database takes samples of any time, as long as they come in order.
	start = time.Unix(0, 0).UTC()
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var input struct {
		Rules string     `json:"rules"`
		Cases []scenario `json:"cases"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		return err
	}
	groups, problems := rulefmt.Parse([]byte(input.Rules), false, model.UTF8Validation, language, quiet)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	results := make([][]firing, 0, len(input.Cases))
	for _, each := range input.Cases {
		result, err := play(groups, each)
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

func play(groups *rulefmt.RuleGroups, made scenario) ([]firing, error) {
	folder, err := os.MkdirTemp("", "firing")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	database, err := tsdb.Open(folder, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	defer database.Close()
	if err := load(database, made); err != nil {
		return nil, err
	}
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: quiet, MaxSamples: 1_000_000, Timeout: time.Minute, Parser: language,
	})
	defer engine.Close()
	alerts, err := build(groups)
	if err != nil {
		return nil, err
	}
	query := rules.EngineQueryFunc(engine, database)
	result := []firing{}
	for minute := 0; minute <= made.Minutes; minute++ {
		now := start.Add(time.Duration(minute) * time.Minute)
		for _, alert := range alerts {
			if _, err := alert.Eval(context.Background(), 0, now, query, &url.URL{}, 0); err != nil {
				return nil, fmt.Errorf("%s: %w", alert.Name(), err)
			}
		}
	}
	for _, alert := range alerts {
		for _, active := range alert.ActiveAlerts() {
			if active.State == rules.StateFiring {
				result = append(result, firing{
					alert.Name(), active.Labels.Map(), active.Annotations.Map(), active.Value,
				})
			}
		}
	}
	return result, nil
}

func load(database *tsdb.DB, made scenario) error {
	type line struct {
		labels labels.Labels
		values []parser.SequenceValue
	}
	var lines []line
	for _, text := range made.Series {
		name, values, err := language.ParseSeriesDesc(text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		lines = append(lines, line{name, values})
	}
	appender := database.Appender(context.Background())
	for minute := 0; minute <= made.Minutes; minute++ {
		at := start.Add(time.Duration(minute) * time.Minute).UnixMilli()
		for _, each := range lines {
			if minute < len(each.values) && !each.values[minute].Omitted {
				if _, err := appender.Append(0, each.labels, at, each.values[minute].Value); err != nil {
					return errors.Join(err, appender.Rollback())
				}
			}
		}
	}
	return appender.Commit()
}

func build(groups *rulefmt.RuleGroups) ([]*rules.AlertingRule, error) {
	var alerts []*rules.AlertingRule
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			expression, err := language.ParseExpr(rule.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rule.Alert, err)
			}
			alerts = append(alerts, rules.NewAlertingRule(
				rule.Alert, expression, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
				labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(),
				"", true, quiet,
			))
		}
	}
	return alerts, nil
}
