package bench

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// chart is a line chart as SVG: it needs no program but a browser, and no library.
type chart struct {
	title, subtitle string
	x, y            string // what the axes show, with units
	names           []string
	// at are the positions of the names, if they are numbers: else all are as far apart.
	at    []float64
	logY  bool
	lines []line
	mark  float64 // a vertical line at this x, if positive
	label string  // what it says
}

type line struct {
	name   string
	dashed bool
	colour int
	xs     []float64
	ys     []float64
}

// Of Okabe and Ito: they can be told apart by whoever sees fewer colours.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}

const (
	chartWidth, chartHeight = 860, 440
	left, right             = 90, 210
	top, bottom             = 70, 60
)

// svg draws the chart.
func (c *chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWidth, chartHeight)
	write(&b, left, 26, "start", 17, c.title)
	write(&b, left, 46, "start", 12, c.subtitle)
	lowX, highX := bounds(c.lines, func(l line) []float64 { return l.xs })
	if highX == lowX {
		lowX, highX = lowX-1, highX+1
	}
	low, high, ticks := c.scale()
	px := func(x float64) float64 { return left + (x-lowX)/(highX-lowX)*(chartWidth-left-right) }
	py := func(y float64) float64 {
		if c.logY {
			y = math.Log10(max(y, low))
			return top + (math.Log10(high)-y)/(math.Log10(high)-math.Log10(low))*(chartHeight-top-bottom)
		}
		return top + (high-y)/(high-low)*(chartHeight-top-bottom)
	}
	for _, t := range ticks {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, py(t), chartWidth-right)
		write(&b, left-8, py(t)+4, "end", 12, number(t))
	}
	for i, name := range c.names {
		x := float64(i)
		if c.at != nil {
			x = c.at[i]
		}
		write(&b, px(x), chartHeight-bottom+20, "middle", 12, name)
	}
	write(&b, (left+chartWidth-right)/2, chartHeight-16, "middle", 13, c.x)
	fmt.Fprintf(&b, `<g transform="translate(20 %d) rotate(-90)">`, (top+chartHeight-bottom)/2)
	write(&b, 0, 0, "middle", 13, c.y)
	b.WriteString("</g>\n")
	if c.mark > 0 {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#a00" stroke-dasharray="3 3"/>`+"\n", px(c.mark), top, chartHeight-bottom)
		write(&b, px(c.mark)+5, top+12, "start", 12, c.label)
	}
	for i, l := range c.lines {
		colour := colours[l.colour%len(colours)]
		dash := ""
		if l.dashed {
			dash = ` stroke-dasharray="7 4"`
		}
		var points []string
		for j := range l.xs {
			points = append(points, fmt.Sprintf("%.1f,%.1f", px(l.xs[j]), py(l.ys[j])))
			if len(l.xs) <= 20 {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", px(l.xs[j]), py(l.ys[j]), colour)
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(points, " "), colour, dash)
		y := top + 10 + 20*float64(i)
		fmt.Fprintf(&b, `<path d="M%d %.1fh26" stroke="%s" stroke-width="2"%s/>`+"\n", chartWidth-right+14, y-4, colour, dash)
		write(&b, chartWidth-right+46, y, "start", 12, l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func write(b *strings.Builder, x, y float64, anchor string, size int, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">`, x, y, anchor, size)
	_ = xml.EscapeText(b, []byte(text)) // a strings.Builder takes everything
	b.WriteString("</text>\n")
}

func bounds(lines []line, of func(line) []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, v := range of(l) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return 0, 1
	}
	return low, high
}

// scale is the range of the y axis, and its ticks.
func (c *chart) scale() (low, high float64, ticks []float64) {
	least, most := bounds(c.lines, func(l line) []float64 { return l.ys })
	if c.logY {
		low = math.Pow(10, math.Floor(math.Log10(max(least, 1))))
		high = max(10*low, math.Pow(10, math.Ceil(math.Log10(max(most, 1)))))
		for t := low; t <= high; t *= 10 {
			ticks = append(ticks, t)
		}
		return low, high, ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1))))
	for most/step < 4 {
		step /= 2
	}
	for high = 0; high < most || high == 0; high += step {
		ticks = append(ticks, high)
	}
	return 0, high, append(ticks, high)
}

// number writes 12,345 or 0.5.
func number(v float64) string {
	if v == math.Trunc(v) {
		return thousands(int64(v))
	}
	return fmt.Sprintf("%.3g", v)
}
