package bench

func writePlots(string, []*Result) error { return nil }
