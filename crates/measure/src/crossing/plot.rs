//! Rows as bars: for each fetch what each adapter moved, to the host and to the adapter.

use crate::crossing::show::size_name;
use crate::crossing::{Adapter, CrossingError, Mode, Moved, Row};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// Pixels of the drawing.
const WIDTH: u32 = 1200;
const HEIGHT: u32 = 800;
/// The width of a group of bars; the rest of 1 is between two groups.
const GROUP: f64 = 0.8;

/// An adapter and its color; these are told apart by those who see colors otherwise, too.
const ADAPTERS: [(Adapter, RGBColor); 5] = [
    (Adapter::E1000, RGBColor(153, 153, 153)),
    (Adapter::Segmenting, RGBColor(230, 159, 0)),
    (Adapter::Coalescing, RGBColor(86, 180, 233)),
    (Adapter::Queues, RGBColor(0, 158, 115)),
    (Adapter::Longshore, RGBColor(0, 114, 178)),
];

/// A figure of one direction.
type Figure = (&'static str, fn(&Row) -> u64);

const FIGURES: [Figure; 4] = [
    ("transfers to the host", |row| row.receive.transfers),
    ("transfers to the adapter", |row| row.send.transfers),
    ("round trips", |row| {
        row.receive.round_trips + row.send.round_trips
    }),
    ("bus cycles, both directions", |row| {
        let cycles = |moved: Moved| moved.cycles;
        cycles(row.receive) + cycles(row.send)
    }),
];

/// Draws the rows into an SVG file: a chart for each figure, a group of bars for each fetch.
/// Since sizes differ by 512, bars grow with the logarithm.
///
/// # Errors
/// [`CrossingError::Plot`].
pub fn draw(path: &Path, rows: &[Row], bus: &str) -> Result<(), CrossingError> {
    let mut drawing = String::new();
    render(&mut drawing, rows, bus)
        .map_err(|error| error.to_string())
        .and_then(|()| std::fs::write(path, &drawing).map_err(|error| error.to_string()))
        .map_err(|why| CrossingError::Plot {
            path: path.to_owned(),
            why,
        })
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn render<'a>(drawing: &'a mut String, rows: &[Row], bus: &str) -> Drawn<'a> {
    let root = SVGBackend::with_string(drawing, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("What one fetch moves between host and adapter, on {bus}");
    let root = root.titled(&title, ("sans-serif", 24))?;
    let charts = root.split_evenly((2, 2));
    for ((name, figure), chart) in FIGURES.into_iter().zip(&charts) {
        bars(chart, name, figure, rows)?;
    }
    root.present()
}

/// The fetches, in the order of the rows.
fn fetches(rows: &[Row]) -> Vec<(u64, Mode)> {
    let mut all: Vec<(u64, Mode)> = rows.iter().map(|row| (row.size, row.mode)).collect();
    all.dedup();
    all
}

fn bars<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    name: &str,
    figure: fn(&Row) -> u64,
    rows: &[Row],
) -> Drawn<'a> {
    let groups = fetches(rows);
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let most = rows.iter().map(figure).max().unwrap_or(1).max(1) as f64;
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let width = groups.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(name, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..width, (0.5..most * 2.0).log_scale())?;
    let label = |x: &f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a handful")]
        let group = (*x - 0.5).round() as i64;
        let group = usize::try_from(group).ok().and_then(|at| groups.get(at));
        let is_middle = (x.fract() - 0.5).abs() < 0.01;
        let group = group.filter(|_| is_middle);
        group.map_or_else(String::new, |(size, mode)| {
            format!("{} {}", size_name(*size), mode.name())
        })
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&label)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    let one = GROUP / ADAPTERS.len() as f64;
    for (place, (adapter, color)) in ADAPTERS.into_iter().enumerate() {
        let of_adapter = rows.iter().filter(|row| row.adapter == adapter);
        let drawn = of_adapter.filter_map(|row| {
            let group = groups.iter().position(|g| *g == (row.size, row.mode))?;
            #[expect(clippy::cast_precision_loss, reason = "pixels")]
            let (group, value) = (group as f64, figure(row) as f64);
            let left = group + (1.0 - GROUP) / 2.0 + one * place as f64;
            let corners = [(left, 0.5), (left + one, value.max(0.5))];
            Some(Rectangle::new(corners, color.filled()))
        });
        chart
            .draw_series(drawn)?
            .label(adapter.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(adapter: Adapter, mode: Mode, transfers: u64) -> Row {
        let moved = Moved {
            transfers,
            bytes: 600,
            cycles: 80,
            round_trips: 0,
        };
        Row {
            adapter,
            workload: crate::crossing::web::WebServer::Nginx,
            size: 1024,
            mode,
            receive: moved,
            send: moved,
            repeated: None,
        }
    }

    #[test]
    fn each_adapter_has_a_bar_in_each_chart() {
        let rows: Vec<Row> = Mode::ALL
            .into_iter()
            .flat_map(|mode| ADAPTERS.map(|(adapter, _)| row(adapter, mode, 12)))
            .collect();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bars.svg");
        draw(&path, &rows, "pcie-gen4x8").unwrap();
        let drawing = std::fs::read_to_string(&path).unwrap();
        assert!(drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"));
        for words in [
            "pcie-gen4x8",
            "1 KB close",
            "1 KB keep-alive",
            "e1000-tso-lro",
            "round trips",
        ] {
            assert!(drawing.contains(words), "{words}: {drawing}");
        }
        // Two fetches in four charts, and the sample in the legend of each.
        for (_, color) in ADAPTERS {
            let fill = format!("fill=\"#{:02X}{:02X}{:02X}\"", color.0, color.1, color.2);
            let bars = drawing
                .lines()
                .filter(|l| l.contains("<rect") && l.contains(&fill));
            assert_eq!(bars.count(), 2 * 4 + 4, "{fill}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = draw(Path::new("/nonexistent/x.svg"), &[], "pcix").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/x.svg"));
    }
}
