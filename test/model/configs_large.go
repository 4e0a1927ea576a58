package model

// Large returns the same worlds with more faults and old views, and some others. Each takes
// minutes and more memory. Each has limits that let its search end.
func Large() []*Config {
	more := map[string]func(*Config){
		"bind":           func(c *Config) { c.OldViews = 2 },
		"new-network":    func(c *Config) { c.OldViews = Any },
		"delete-network": func(c *Config) { c.OldViews = 1 },
		"delete-block":   func(c *Config) { c.LostAnswers = 1 },
		"strip-block":    func(c *Config) { c.OldViews = Any },
		"release":        func(c *Config) { c.OldViews = Any },
		"several":        func(c *Config) { c.OldViews = 2 },
		"growth":         func(c *Config) { c.OldViews = 1 },
		"reserve":        func(c *Config) { c.OldViews, c.LostAnswers = 2, 1 },
		"scale":          func(c *Config) { c.OldViews, c.Deaths, c.Crashes, c.LostAnswers = 1, 1, 0, 0 },
		"surge":          func(c *Config) { c.OldViews, c.Deaths, c.Crashes, c.LostAnswers = 1, 1, 0, 0 },
		"adopt":          func(c *Config) { c.OldViews, c.LostAnswers = Any, 1 },
		"takeover":       func(c *Config) { c.OldViews, c.LostAnswers = Any, 1 },
		"delete-pod2":    func(c *Config) { c.OldViews, c.LostAnswers = Any, 1 },
		"node":           func(c *Config) { c.LostAnswers = 1 },
		"two-writers":    func(c *Config) { c.OldViews, c.Crashes = 1, 1 },
		"restore":        func(c *Config) { c.Crashes = 1 },
		"restore-two":    func(c *Config) { c.OldViews = 1 },
		"restore-pod2":   func(c *Config) { c.OldViews, c.LostAnswers = 2, 1 },
		"restore-anew":   func(c *Config) { c.Ticks = 1 },
		"restore-in-use": func(c *Config) { c.Controllers, c.OldViews = 2, 0 },
	}
	// The worlds of one writer with two writers, which do not keep S4 and S5. Worlds of two
	// writers get a crash or an old view that more does not give them, because both at once
	// never end.
	two := func(c *Config) { c.Controllers, c.OneWriter, c.Crashes, c.LostAnswers, c.OldViews = 2, false, 0, 0, 0 }
	again := map[string]func(*Config){
		"rebind":         func(c *Config) { c.Crashes = 1 },
		"delete-network": func(c *Config) { c.Crashes, c.LostAnswers = 1, 1 },
		"network-in-use": func(c *Config) { c.OldViews = 1 },
		"strip-block":    func(c *Config) { c.Crashes, c.LostAnswers = 1, 1 },
		"release":        func(c *Config) { c.Crashes, c.LostAnswers = 1, 1 },
		"several":        func(c *Config) { c.Crashes = 1 },
		"growth":         func(c *Config) { c.Crashes = 1 },
		"rest":           func(c *Config) { c.Crashes = 1 },
		"reserve":        two, "scale": two, "surge": two, "adopt": two, "orphan": two, "takeover": two, "delete-pod2": two,
	}
	var configs []*Config
	for _, changes := range []map[string]func(*Config){more, again} {
		for _, c := range Small() {
			if change := changes[c.Name]; change != nil {
				change(c)
				configs = append(configs, c)
			}
		}
	}
	return configs
}

// Refuted returns worlds that the protocol documents as unprotected. The search must find
// how they fail; otherwise it would find nothing.
func Refuted() []*Config {
	return []*Config{{
		Name: "strip-bound", Covers: "an AddressBlock loses its finalizer and is removed while a pod is bound and has yet to publish",
		Controllers: 2, Keys: keysOf("a", "b"),
		Setup: func(w *World) { w.Create(Networks, blue("10.0.0.0/29")) },
		Then:  func(w *World) { w.Create(Pods, bare("b")) },
		Edits: []Edit{stripped(block0), creates(Pods, bare("a"))},
	}}
}
