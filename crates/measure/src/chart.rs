//! Plots as papers have them: lines over an axis, and groups of bars.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::path::Path;

/// Pixels of one plot, without what names its series.
const SIZE: (u32, u32) = (690, 420);
/// Of what names series, on the right: at least so many, and so many for each letter.
const LEGEND: u32 = 210;
const LETTER: u32 = 7;
/// Before the names.
const SWATCH: u32 = 22;
/// Colors that are told apart by those who see colors otherwise, too (Okabe and Ito), but for their
/// yellow, which is hardly seen on white, and on black once a page has inverted it.
const COLORS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(110, 110, 110),
    RGBColor(150, 138, 20),
    RGBColor(30, 30, 30),
];

/// How a series is told from others: by its color, and where there are more series than colors,
/// by the second form of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    color: RGBColor,
    /// A broken line with open points, or a pale bar.
    is_second: bool,
}

impl Look {
    /// That of a series by its number.
    fn of(number: usize) -> Self {
        Look {
            color: COLORS[number % COLORS.len()],
            is_second: number / COLORS.len() % 2 == 1,
        }
    }

    /// That of bars, and of the squares of a legend.
    fn area(self) -> ShapeStyle {
        let share = if self.is_second { 0.4 } else { 1.0 };
        self.color.mix(share).filled()
    }

    fn point(self) -> ShapeStyle {
        if self.is_second {
            self.color.stroke_width(1)
        } else {
            self.color.filled()
        }
    }
}

/// A plot cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {what}: {why}")]
pub struct ChartError {
    /// The plot or its file.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A plot.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// Below.
    pub x: Axis,
    /// On the left.
    pub y: Axis,
    /// How series are drawn.
    pub kind: Kind,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it shows, with its unit.
    pub name: String,
    /// How values lie on it.
    pub scale: Scale,
}

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios; powers of two are marked.
    Doubling,
    /// The same; powers of ten are marked.
    Decades,
}

impl Scale {
    /// Where a value lies.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Doubling => value.log2(),
            Scale::Decades => value.log10(),
        }
    }

    /// What is written at a place; nothing between the marks.
    fn label(self, place: f64) -> String {
        let is_mark = (place - place.round()).abs() < 1e-6;
        match self {
            Scale::Linear => label(place),
            Scale::Doubling if is_mark => label(place.exp2().round()),
            Scale::Decades if is_mark => label(10_f64.powf(place)),
            Scale::Doubling | Scale::Decades => String::new(),
        }
    }
}

impl Axis {
    /// One with a linear scale.
    #[must_use]
    pub fn linear(name: &str) -> Self {
        Self::of(name, Scale::Linear)
    }

    /// One on which powers of two are marked.
    #[must_use]
    pub fn doubling(name: &str) -> Self {
        Self::of(name, Scale::Doubling)
    }

    /// One on which powers of ten are marked.
    #[must_use]
    pub fn decades(name: &str) -> Self {
        Self::of(name, Scale::Decades)
    }

    fn of(name: &str, scale: Scale) -> Self {
        Axis {
            name: name.to_owned(),
            scale,
        }
    }

    /// Where it begins and ends, around all of these places.
    fn range(&self, places: impl Iterator<Item = f64>) -> (f64, f64) {
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (least, most) = places
            .filter(|place| place.is_finite())
            .fold(ends, |(a, b), place| (a.min(place), b.max(place)));
        match self.scale {
            _ if !least.is_finite() => (0.0, 1.0),
            Scale::Linear => (least.min(0.0), (most * 1.05).max(least.min(0.0) + 1e-9)),
            // There is a mark on each side, or a plot of one size had none.
            Scale::Doubling => (
                (least - 0.3).min(least.floor()),
                (most + 0.3).max(most.ceil()),
            ),
            Scale::Decades => ((least - 0.1).floor(), (most + 0.1).ceil()),
        }
    }
}

/// How series are drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A line through its points.
    Lines,
    /// A bar for each point, those of all series beside each other. A point's x is the number
    /// of its group, from 0; these are the groups' names.
    Bars(Vec<String>),
    /// Bars of all series, one on the other.
    Stacked(Vec<String>),
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    #[must_use]
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Series {
            name: name.to_owned(),
            points,
        }
    }
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Writes plots into an SVG file, one below the other.
///
/// # Errors
/// [`ChartError`].
pub fn draw(path: &Path, charts: &[Chart]) -> Result<(), ChartError> {
    let drawing = render(charts)?;
    std::fs::write(path, drawing).map_err(|error| ChartError {
        what: path.display().to_string(),
        why: error.to_string(),
    })
}

/// Plots as one SVG document, one below the other.
///
/// # Errors
/// [`ChartError`].
pub fn render(charts: &[Chart]) -> Result<String, ChartError> {
    let mut drawing = String::new();
    let rows = charts.len().max(1);
    let height = SIZE.1 * u32::try_from(rows).unwrap_or(1);
    let width = SIZE.0 + legend_width(charts);
    let mut draw = || -> Result<(), Failure<'_>> {
        let root = SVGBackend::with_string(&mut drawing, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        for (chart, area) in charts.iter().zip(root.split_evenly((rows, 1))) {
            one(chart, &area)?;
        }
        root.present()
    };
    draw().map_err(|error| ChartError {
        what: "a plot".to_owned(),
        why: error.to_string(),
    })?;
    Ok(drawing)
}

/// A number beside an axis.
fn label(value: f64) -> String {
    let short = |value: f64, suffix: &str| {
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{text}{suffix}")
    };
    match value.abs() {
        v if v >= 1e9 => short(value / 1e9, "G"),
        v if v >= 1e6 => short(value / 1e6, "M"),
        v if v >= 1e5 => short(value / 1e3, "k"),
        v if v >= 0.01 || v == 0.0 => short(value, ""),
        _ => format!("{value:.4}"),
    }
}

fn one<'a>(chart: &Chart, area: &Area<'a>) -> Result<(), Failure<'a>> {
    let (plot, beside) = area.split_horizontally(SIZE.0);
    match &chart.kind {
        Kind::Lines => lines(chart, &plot)?,
        Kind::Bars(groups) => bars(chart, groups, &plot, false)?,
        Kind::Stacked(groups) => bars(chart, groups, &plot, true)?,
    }
    legend(chart, &beside)
}

type Context<'a, 'b> =
    ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn begin<'a, 'b>(
    chart: &Chart,
    area: &'b Area<'a>,
    x: (f64, f64),
    y: (f64, f64),
) -> Result<Context<'a, 'b>, Failure<'a>> {
    ChartBuilder::on(area)
        .caption(&chart.title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(72)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)
}

/// Pixels for the longest name of a series.
fn legend_width(charts: &[Chart]) -> u32 {
    let series = charts.iter().flat_map(|chart| &chart.series);
    let longest = series.map(|series| series.name.chars().count()).max();
    let letters = u32::try_from(longest.unwrap_or(0)).unwrap_or(0);
    LEGEND.max(SWATCH + LETTER * letters)
}

/// Names series beside the plot.
fn legend<'a>(chart: &Chart, area: &Area<'a>) -> Result<(), Failure<'a>> {
    for ((number, series), row) in chart.series.iter().enumerate().zip(0..) {
        let (y, look) = (50 + 20 * row, Look::of(number));
        let square = [(4, y), (16, y + 10)];
        area.draw(&Rectangle::new(square, look.area()))?;
        if look.is_second {
            area.draw(&Rectangle::new(square, look.color.stroke_width(1)))?;
        }
        let place = (SWATCH.cast_signed(), y);
        area.draw(&Text::new(series.name.clone(), place, ("sans-serif", 13)))?;
    }
    Ok(())
}

fn lines<'a>(chart: &Chart, area: &Area<'a>) -> Result<(), Failure<'a>> {
    let (x, y) = (chart.x.scale, chart.y.scale);
    let places = |series: &Series| -> Vec<(f64, f64)> {
        let points = series.points.iter();
        points.map(|p| (x.place(p.0), y.place(p.1))).collect()
    };
    let all: Vec<(f64, f64)> = chart.series.iter().flat_map(places).collect();
    let x_range = chart.x.range(all.iter().map(|p| p.0));
    let y_range = chart.y.range(all.iter().map(|p| p.1));
    let mut context = begin(chart, area, x_range, y_range)?;
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(14)
        .x_desc(&chart.x.name)
        .y_desc(&chart.y.name)
        .x_label_formatter(&|place| x.label(*place))
        .y_label_formatter(&|place| y.label(*place))
        .draw()?;
    for (number, series) in chart.series.iter().enumerate() {
        let look = Look::of(number);
        let style = look.color.stroke_width(2);
        let points = places(series);
        if look.is_second {
            context.draw_series(DashedLineSeries::new(points.clone(), 6, 4, style))?;
        } else {
            context.draw_series([PathElement::new(points.clone(), style)])?;
        }
        let dots = points.iter();
        context.draw_series(dots.map(|point| Circle::new(*point, 3, look.point())))?;
    }
    Ok(())
}

/// The width of a group of bars; the rest of 1 is between two groups.
const GROUP: f64 = 0.8;

/// A bar: the number of its series, its group, and its lower and upper end.
type Bar = (usize, f64, [f64; 2]);

fn bars_of(chart: &Chart, stacked: bool) -> Vec<Bar> {
    let mut all: Vec<Bar> = Vec::new();
    for (number, series) in chart.series.iter().enumerate() {
        for (group, value) in &series.points {
            let same_group = |bar: &&Bar| (bar.1 - group).abs() < 0.5;
            let below = all.iter().rev().find(same_group).filter(|_| stacked);
            let floor = below.map_or(0.0, |(_, _, ends)| ends[1]);
            all.push((number, *group, [floor, floor + value]));
        }
    }
    all
}

fn bars<'a>(
    chart: &Chart,
    groups: &[String],
    area: &Area<'a>,
    stacked: bool,
) -> Result<(), Failure<'a>> {
    let scale = chart.y.scale;
    let all = bars_of(chart, stacked);
    let ends = all.iter().map(|(_, _, ends)| scale.place(ends[1]));
    let y_range = chart.y.range(ends);
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let (columns, beside) = (
        groups.len() as f64,
        if stacked {
            1.0
        } else {
            chart.series.len() as f64
        },
    );
    let mut context = begin(chart, area, (0.0, columns), y_range)?;
    let name = |x: &f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a handful")]
        let group = usize::try_from(x.floor() as i64).ok();
        let is_middle = (x.fract() - 0.5).abs() < 0.01;
        let group = group.filter(|_| is_middle).and_then(|at| groups.get(at));
        group.cloned().unwrap_or_default()
    };
    context
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(2 * groups.len() + 1)
        .x_desc(&chart.x.name)
        .y_desc(&chart.y.name)
        .x_label_formatter(&name)
        .y_label_formatter(&|place| scale.label(*place))
        .draw()?;
    let width = GROUP / beside;
    for number in 0..chart.series.len() {
        let style = Look::of(number).area();
        let boxes = all
            .iter()
            .filter(|bar| bar.0 == number)
            .map(|(_, group, ends)| {
                #[expect(clippy::cast_precision_loss, reason = "a handful")]
                let place = if stacked { 0.0 } else { number as f64 };
                let left = group + (1.0 - GROUP) / 2.0 + width * place;
                let [below, above] = ends.map(|end| scale.place(end).max(y_range.0));
                Rectangle::new([(left, below), (left + width, above)], style)
            });
        context.draw_series(boxes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
